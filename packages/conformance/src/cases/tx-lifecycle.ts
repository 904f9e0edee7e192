/** Transactions and the calls that are no part of them. */
import assert from "node:assert/strict";
import { setImmediate } from "node:timers/promises";
import type { Claim, Enqueued } from "@dovecote/core";
import type { Case, CaseContext } from "../case.ts";
import type { Session } from "../define-harness.ts";
import { deliveryOf, refused } from "./expect.ts";
import { claimed, enqueued, event } from "./given.ts";
import { accepted, after, assertStored, held } from "./written.ts";

/** TX-07. */
export const txApartCases: readonly Case[] = [
  {
    id: "TX-07",
    level: 2,
    intent: "a lifecycle call waits for an open transaction, or runs beside it, and never joins it",
    async run(t) {
      const { session, outbox } = t;
      const holding = await enqueuedAndHeld(t);
      await enqueued(t, event({ id: "due" }));

      const committing = await session.begin();
      await outbox.enqueue(committing.handle, event({ id: "kept" }));
      const first = watched(outbox.claim({ worker: "meanwhile", limit: 1 }));
      await assertApart(t, "a claim", first);
      await committing.commit();
      const [due] = await accepted("the claim", () => first.result);
      assert.ok(due !== undefined, "the claim must succeed once the transaction is committed");
      await assertHeld(session, due);

      const doomed = await session.begin();
      await outbox.enqueue(doomed.handle, event({ id: "doomed" }));
      const ack = watched(outbox.ack(holding));
      const page = watched(outbox.page());
      const release = watched(outbox.release([due]));
      await assertApart(t, "an ack", ack);
      await assertApart(t, "a release", release);
      await doomed.rollback();

      await accepted("the ack", () => ack.result);
      assert.equal(
        (await deliveryOf(session, holding.rowId)).state,
        "delivered",
        "a rollback must not undo an ack",
      );
      assert.deepEqual(await release.result, [{ outcome: "applied" }], "the release must apply");
      assert.equal(
        (await deliveryOf(session, due.rowId)).state,
        "pending",
        "a rollback must not undo a release",
      );
      const seen = (await page.result).entries.map(({ event }) => ("id" in event ? event.id : "undecodable"));
      assert.deepEqual(seen, ["held", "due", "kept"], "a page must not show an event that was rolled back");
      await assertStored(session, "after the rollback", ["held", "due", "kept"]);
    },
  },
  {
    id: "TX-07",
    level: 2,
    intent: "a lifecycle call made inside the application's own callback is no part of its transaction",
    async run(t) {
      const { session, outbox } = t;
      const { rowId } = await enqueued(t, event({ id: "due" }));
      const call = await claimInside(t, (fn) =>
        session.transaction((tx) => after(outbox.enqueue(tx.handle, event({ id: "doomed" })), fn)),
      );
      assert.equal(call.rowId, rowId, "only the committed event can be claimed");
      await assertHeld(session, call);
      await assertStored(session, "after the rollback", ["due"]);
    },
  },
  {
    id: "TX-07",
    level: 2,
    intent: "inside our own transaction a lifecycle call is refused, or runs beside it",
    async run(t) {
      const { session, outbox, capabilities } = t;
      const holding = await enqueuedAndHeld(t);
      const { rowId } = await enqueued(t, event({ id: "due" }));

      if (capabilities.transactionIdentity) {
        const call = await claimInside(t, (fn) =>
          outbox.transaction((tx) => after(outbox.enqueue(tx, event({ id: "doomed" })), fn)),
        );
        assert.equal(call.rowId, rowId, "only the committed event can be claimed");
        await assertHeld(session, call);
        return assertStored(session, "after the rollback", ["held", "due"]);
      }

      const before = await session.probe.deliveries();
      const checks: Promise<unknown>[] = [];
      const inside = (what: string, call: () => unknown): void => {
        checks.push(held(refused(`${what} inside our own transaction`, ["TX_OPEN"], call)));
      };
      const own = await outbox.transaction((tx): Enqueued | Promise<Enqueued> => {
        inside("a claim", () => outbox.claim({ worker: "inside" }));
        inside("a claim of the admin handle", () => outbox.admin().claim({ worker: "inside" }));
        inside("a renewal", () => outbox.renew(holding));
        inside("an ack", () => outbox.ack(holding));
        inside("a release of a batch", () => outbox.release([holding]));
        inside("a redrive", () => outbox.redrive({ limit: 1 }));
        inside("a prune", () => outbox.prune({ olderThanMs: 1 }));
        return outbox.enqueue(tx, event({ id: "own" }));
      });
      await Promise.all(checks);
      const others = (await session.probe.deliveries()).filter((row) => row.rowId !== own.rowId);
      assert.deepEqual(others, before, "refused calls must leave every row byte-identical");
      await assertStored(session, "after the commit", ["held", "due", "own"]);
      await outbox.ack(holding);
      assert.equal(
        (await deliveryOf(session, holding.rowId)).state,
        "delivered",
        "an ack afterwards must apply",
      );
    },
  },
];

/** TX-11. */
export const txRetryCases: readonly Case[] = [
  {
    id: "TX-11",
    level: 2,
    intent: "a transaction that failed at its end and is run again yields one event",
    async run(t) {
      const { session, outbox } = t;
      const given = event({ id: "retried" });
      const attempts: Enqueued[] = [];
      const attempt = (fails: boolean): Promise<unknown> =>
        session.transaction((tx) =>
          after(tx.writeBusinessRow("order-1"), () =>
            after(outbox.enqueue(tx.handle, given), (enqueued) => {
              attempts.push(enqueued);
              if (fails) throw new Error("could not serialize access");
            }),
          ),
        );
      await assert.rejects(attempt(true), "the first attempt must fail");
      await assert.rejects(attempt(true), "the second attempt must fail");
      await accepted("the third attempt", () => attempt(false));
      assert.deepEqual(
        attempts.map(({ outcome }) => outcome),
        ["enqueued", "enqueued", "enqueued"],
        "an attempt that was rolled back must not be remembered",
      );
      // And once more, as after a commit whose reply was lost.
      const again = await accepted("the same event once more", () => enqueued(t, given));
      assert.equal(again.outcome, "alreadyEnqueued", "a committed attempt must be recognised");
      assert.equal(again.rowId, attempts[2]?.rowId, "a committed attempt must be recognised as its row");
      await assertStored(session, "after the retries", ["retried"]);
    },
  },
  {
    id: "TX-11",
    level: 2,
    intent: "contenders that are refused as busy or unserializable and try again yield one event",
    async run(t) {
      const { session } = t;
      const ids: string[] = [];
      const contenders = 3;
      await t.race({
        contenders,
        rounds: 10,
        async prepare(round) {
          const id = `contended-${round}`;
          ids.push(id);
          const input = { id, source: "/race", data: "same" };
          return Array.from({ length: contenders }, () => ({ actor: "enqueue" as const, input }));
        },
        async check(answers, round) {
          const rowIds = new Set<number>();
          for (const answer of answers) {
            if ("ok" in answer) rowIds.add(answer.ok.rowId);
            else {
              assert.ok(
                answer.retryable,
                `a contender must succeed or be told to retry, got ${answer.refused}`,
              );
              const id = `contended-${round}`;
              const again = await enqueued(t, {
                stream: "race",
                type: "race",
                source: "/race",
                id,
                data: "same",
              });
              rowIds.add(again.rowId);
            }
          }
          assert.equal(rowIds.size, 1, "every attempt must end at the same row");
        },
      });
      await assertStored(session, "after the race", ids);
    },
  },
];

interface Watched<T> {
  readonly result: Promise<T>;
  settled(): boolean;
}

function watched<T>(result: Promise<T>): Watched<T> {
  let settled = false;
  const settle = (): void => {
    settled = true;
  };
  result.then(settle, settle);
  return { result, settled: () => settled };
}

async function enqueuedAndHeld(t: CaseContext): Promise<Claim> {
  await enqueued(t, event({ id: "held" }));
  return claimed(t.outbox);
}

/** Whether a call on the same session can be expected to finish while the application's transaction is open. */
function runsBeside({ capabilities }: CaseContext): boolean {
  return capabilities.transactionIdentity && capabilities.lockScope === "row";
}

/** While a transaction is open on the session: the call has run on another connection, or it waits. */
async function assertApart<T>(t: CaseContext, what: string, call: Watched<T>): Promise<void> {
  if (runsBeside(t)) {
    await call.result;
    return;
  }
  // Round trips and turns of the event loop: a call that waits for nothing would have settled by then.
  for (let turn = 0; turn < 20; turn++) {
    await t.session.probe.now();
    await setImmediate();
  }
  // With a handle of its own the transaction may leave others alone until it writes: both are apart from it.
  if (t.capabilities.transactionIdentity) return;
  assert.equal(call.settled(), false, `${what} must wait while a transaction is open on its connection`);
}

/** The claim is committed: an independent connection sees it. */
async function assertHeld(session: Session, { rowId, token, attempt }: Claim): Promise<void> {
  const row = await deliveryOf(session, rowId);
  assert.equal(row.state, "claimed", "a claim must not be undone by the transaction it was made beside");
  assert.equal(row.token, token.reveal(), "the stored token must be that of the claim");
  assert.equal(row.attempts, attempt, "the stored attempt must be that of the claim");
}

/**
 * Claims inside a transaction's callback, which then throws: in the callback's own course where a claim can finish
 * there, otherwise the claim is issued in it and awaited afterwards.
 */
async function claimInside(
  t: CaseContext,
  transaction: (fn: () => unknown) => Promise<unknown>,
): Promise<Claim> {
  const issued: Promise<readonly Claim[]>[] = [];
  const boom = (): never => {
    throw new Error("the application changed its mind");
  };
  await assert.rejects(
    transaction(() => {
      const call = held(t.outbox.claim({ worker: "inside", limit: 10 }));
      issued.push(call);
      return runsBeside(t) && t.capabilities.asyncTransactions ? call.then(boom) : boom();
    }),
    "the transaction must be rolled back",
  );
  const claims = (await Promise.all(issued)).flat();
  const [claim, ...others] = claims;
  assert.ok(claim !== undefined && others.length === 0, `one event can be claimed, got ${claims.length}`);
  return claim;
}
