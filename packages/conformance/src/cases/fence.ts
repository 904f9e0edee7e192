import assert from "node:assert/strict";
import type { ClaimRef, ErrorCode, Handle } from "@dovecote/core";
import type { Case } from "../case.ts";
import type { Session } from "../define-harness.ts";
import { deliveryOf, refused, unchanged } from "./expect.ts";
import { fenceBatchCases } from "./fence-batch.ts";
import { fenceRaceCases } from "./fence-race.ts";
import { claimed, enqueued, enqueuedAndClaimed, expired, takenOver } from "./given.ts";
import { ACK, FAILURE, PROVINGS, type Proving, SETTLINGS } from "./settling.ts";
import { turns } from "./waiting.ts";

const NO_TOKEN = "0".repeat(32);

export const fenceCases: readonly Case[] = [
  {
    id: "FENCE-01",
    level: 1,
    intent: "a stale ack is lost while the new holder is live, and leaves the row byte-identical",
    async run(t) {
      const { session, outbox } = t;
      const { stale, live } = await takenOver(t);
      await lost(session, outbox, "a stale ack", ACK, stale);
      // Only the token differs: the attempt alone must not be what stops it.
      await lost(session, outbox, "a stale ack with the live attempt", ACK, {
        ...ref(live),
        token: stale.token,
      });
      // Only the attempt differs.
      await lost(session, outbox, "an ack with the live token and an old attempt", ACK, {
        ...ref(live),
        attempt: stale.attempt,
      });
      await lost(session, outbox, "an ack with the live token and an attempt to come", ACK, {
        ...ref(live),
        attempt: live.attempt + 1,
      });
      await outbox.ack(live);
      assert.equal(
        (await deliveryOf(session, live.rowId)).state,
        "delivered",
        "the live holder's ack must apply",
      );
    },
  },
  {
    id: "FENCE-02",
    level: 1,
    intent: "a stale retry, release or quarantine is lost, and leaves the row byte-identical",
    async run(t) {
      const { session, outbox } = t;
      for (const settling of SETTLINGS.slice(1)) {
        const { name, state } = settling;
        const { stale, live } = await takenOver(t);
        await lost(session, outbox, `a stale ${name}`, settling, stale);
        await lost(session, outbox, `a stale ${name} with the live attempt`, settling, {
          ...ref(live),
          token: stale.token,
        });
        await lost(session, outbox, `a ${name} with the live token and an old attempt`, settling, {
          ...ref(live),
          attempt: stale.attempt,
        });
        await settling.one(outbox, live);
        assert.equal(
          (await deliveryOf(session, live.rowId)).state,
          state,
          `the live holder's ${name} must apply`,
        );
      }
    },
  },
  {
    id: "FENCE-03",
    level: 1,
    intent: "a stale settle after the new holder settled or released is refused",
    async run(t) {
      const { session, outbox } = t;
      for (const ending of SETTLINGS) {
        const { stale, live } = await takenOver(t);
        await ending.one(outbox, live);
        assert.equal(
          (await deliveryOf(session, live.rowId)).token,
          null,
          `${ending.name} must clear the token of the claim`,
        );
        for (const settling of SETTLINGS) {
          const after = `after the new holder's ${ending.name}`;
          await illegal(session, outbox, `a stale ${settling.name} ${after}`, settling, stale, ending.state);
          // Its own proof was good once: what is spent now is the claim.
          await illegal(session, outbox, `a second ${settling.name} ${after}`, settling, live, ending.state);
        }
      }
    },
  },
  {
    id: "FENCE-03",
    level: 1,
    intent: "every earlier claim stays lost after the row was released and claimed once more",
    async run(t) {
      const { session, outbox } = t;
      const { stale, live } = await takenOver(t);
      await outbox.release(live);
      const third = await claimed(outbox, { worker: "w3" });
      assert.equal(third.rowId, live.rowId, "the released row must be claimable");
      for (const settling of SETTLINGS) {
        await lost(session, outbox, `a stale ${settling.name} of the first holder`, settling, stale);
        await lost(session, outbox, `a stale ${settling.name} of the second holder`, settling, live);
        await lost(session, outbox, `a stale ${settling.name} with a released token`, settling, {
          ...ref(third),
          token: live.token,
        });
      }
      await outbox.ack(third);
    },
  },
  {
    id: "FENCE-04",
    level: 1,
    intent: "the attempt rises by one with every claim, across expiry, release, retry and redrive",
    async run(t) {
      const { session, outbox } = t;
      const { rowId } = await enqueued(t);
      let attempt = 0;
      const claimAfter = async (what: string) => {
        const before = await deliveryOf(session, rowId);
        assert.equal(before.attempts, attempt, `the stored attempt must not change by ${what}`);
        const claim = await claimed(outbox);
        attempt += 1;
        assert.equal(claim.attempt, attempt, `the attempt must rise by one after ${what}`);
        assert.equal(
          (await deliveryOf(session, rowId)).attempts,
          attempt,
          "the claim must store its attempt",
        );
        return claim;
      };
      await claimAfter("enqueue");
      await session.faults.expireLeases([rowId]);
      await outbox.release(await claimAfter("expiry"));
      await outbox.retry(await claimAfter("release"), { failure: FAILURE });
      await outbox.quarantine(await claimAfter("retry"), { reason: "first" });
      await outbox.redrive(rowId);
      await outbox.quarantine(await claimAfter("redrive"), { reason: "second" });
      await outbox.redrive({});
      await outbox.quarantine(await claimAfter("redrive by filter"), { reason: "third" });
      await session.transaction((tx) => outbox.redriveIn(tx.handle, rowId));
      await outbox.release(await claimAfter("redrive in the caller's transaction"));
      await outbox.quarantine(rowId, { reason: "by an operator" });
      await outbox.redrive(rowId);
      await outbox.ack(await claimAfter("an operator's quarantine"));
    },
  },
  {
    id: "FENCE-05",
    level: 1,
    intent: "an expired claim cannot settle, although nobody has taken it over",
    async run(t) {
      const { session, outbox } = t;
      for (const settling of SETTLINGS) {
        const claim = await expired(t);
        await lost(session, outbox, `an expired ${settling.name}`, settling, claim);
        const next = await claimed(outbox, { worker: "w2" });
        assert.equal(
          next.rowId,
          claim.rowId,
          "an expired claim must stay claimable when its settle was refused",
        );
        await outbox.ack(next);
      }
    },
  },
  {
    id: "FENCE-05",
    level: 1,
    intent: "a claim that expires while its settle waits for a lock cannot settle",
    async run(t) {
      const { session, outbox } = t;
      for (const { name, one } of SETTLINGS) {
        const { rowId, ...proof } = await enqueuedAndClaimed(t, { leaseMs: 300 });
        const { expiresAt } = await deliveryOf(session, rowId);
        assert.ok(expiresAt !== null, "a claimed row must have an expiry");
        const lock = await session.faults.holdLock(rowId);
        let attempted: Promise<unknown>;
        let whileLocked: Awaited<ReturnType<typeof deliveryOf>>;
        try {
          attempted = one(outbox, { rowId, ...proof });
          // Looked at below; until then it must not count as unhandled.
          attempted.catch(() => {});
          while ((await session.probe.now()) <= expiresAt) await turns(session, 1);
          whileLocked = await deliveryOf(session, rowId);
        } finally {
          await lock.release();
        }
        // A store that locks nothing for longer than a step has settled it in time; everywhere else it still waits.
        if (whileLocked.state === "claimed") {
          await refused(
            `the ${name} of a claim that expired while it waited`,
            ["LOST_CLAIM"],
            () => attempted,
          );
          assert.deepEqual(
            await deliveryOf(session, rowId),
            whileLocked,
            `the ${name} of an expired claim must leave the row byte-identical`,
          );
          await outbox.ack(await claimed(outbox, { worker: "w2" }));
        } else {
          await attempted;
        }
      }
    },
  },
  {
    id: "FENCE-06",
    level: 1,
    intent: "a refusal names the first thing that is wrong: row, tenant, state, then proof",
    async run(t) {
      const { session, outbox } = t;
      const live = await enqueuedAndClaimed(t);
      const foreign = outbox.tenant("acme");
      for (const proving of PROVINGS) {
        const { name } = proving;
        const none = { ...ref(live), rowId: live.rowId + 1_000_000 };
        await refuse(session, outbox, `${name} without a row`, proving, none, "NOT_FOUND");
        await refuse(session, outbox.admin(), `${name} by admin without a row`, proving, none, "NOT_FOUND");
        await refuse(session, foreign, `${name} of another tenant's claim`, proving, live, "NOT_FOUND");
        await lost(session, outbox, `${name} with a token never given out`, proving, {
          ...ref(live),
          token: NO_TOKEN,
        });
      }
      for (const ending of SETTLINGS) {
        const spent = await enqueuedAndClaimed(t);
        await ending.one(outbox, spent);
        for (const proving of PROVINGS) {
          const what = `${proving.name} after ${ending.name}`;
          await illegal(session, outbox, what, proving, spent, ending.state);
          // The state comes before the proof, and the tenant before the state.
          const guess = { ...ref(spent), token: NO_TOKEN };
          await illegal(session, outbox, `${what}, with a wrong token`, proving, guess, ending.state);
          await refuse(session, foreign, `${what}, by another tenant`, proving, spent, "NOT_FOUND");
        }
      }
    },
  },
  {
    id: "FENCE-07",
    level: 1,
    intent: "the right row with another row's token is lost, singly and within one batch",
    async run(t) {
      const { session, outbox } = t;
      for (const proving of PROVINGS) {
        const [one, other] = [await enqueuedAndClaimed(t), await enqueuedAndClaimed(t)];
        const crossed = [
          { ...ref(one), token: other.token },
          { ...ref(other), token: one.token },
        ];
        for (const claim of crossed) {
          await lost(session, outbox, `${proving.name} with another row's token`, proving, claim);
        }
        // Both tokens are in the statement, each with the wrong row.
        const what = `a batch of ${proving.name} with crossed tokens`;
        const outcomes = await unchanged(what, session, () => proving.many(outbox, crossed));
        assert.deepEqual(
          outcomes,
          [{ outcome: "lostClaim" }, { outcome: "lostClaim" }],
          `${what} must be lost`,
        );
        await outbox.ack([one, other]);
      }
    },
  },
  {
    id: "FENCE-11",
    level: 1,
    intent: "the same worker name that claims again holds a new claim: a name is never proof",
    async run(t) {
      const { session, outbox } = t;
      const worker = "the-only-worker";
      for (const proving of PROVINGS) {
        const first = await enqueuedAndClaimed(t, { worker });
        const again = await unchanged("a claim by the name that holds the row", session, () =>
          outbox.claim({ worker }),
        );
        assert.deepEqual(again, [], "a live lease must exclude its own holder's name, too");
        await session.faults.expireLeases([first.rowId]);
        const second = await claimed(outbox, { worker });
        assert.notEqual(second.token.reveal(), first.token.reveal(), "a new claim must have a new token");
        await lost(session, outbox, `${proving.name} of the same worker's old claim`, proving, first);
        await lost(session, outbox, `${proving.name} of the same worker with its old token`, proving, {
          ...ref(second),
          token: first.token,
        });
        await outbox.ack(second);
      }
    },
  },
  ...fenceBatchCases,
  ...fenceRaceCases,
];

function ref({ rowId, attempt, token }: ClaimRef): ClaimRef {
  return { rowId, attempt, token };
}

/** Refused alone and as the one item of a batch, with the row left as it is. */
async function refuse(
  session: Session,
  handle: Handle,
  what: string,
  proving: Proving,
  claim: ClaimRef,
  code: ErrorCode,
  state?: string,
): Promise<void> {
  await unchanged(what, session, async () => {
    const error = await refused(what, [code], () => proving.one(handle, claim));
    if (state !== undefined) assert.equal(error.state, state, `${what} must name the state`);
  });
  const outcomes = await unchanged(what, session, () => proving.many(handle, [claim]));
  const outcome = state === undefined ? { outcome: OUTCOMES[code] } : { outcome: OUTCOMES[code], state };
  assert.deepEqual(outcomes, [outcome], `${what}, in a batch, must be ${OUTCOMES[code]}`);
}

const OUTCOMES: Partial<Record<ErrorCode, string>> = {
  NOT_FOUND: "notFound",
  ILLEGAL_TRANSITION: "illegalTransition",
  LOST_CLAIM: "lostClaim",
};

function lost(
  session: Session,
  handle: Handle,
  what: string,
  proving: Proving,
  claim: ClaimRef,
): Promise<void> {
  return refuse(session, handle, what, proving, claim, "LOST_CLAIM");
}

function illegal(
  session: Session,
  handle: Handle,
  what: string,
  proving: Proving,
  claim: ClaimRef,
  state: string,
): Promise<void> {
  return refuse(session, handle, what, proving, claim, "ILLEGAL_TRANSITION", state);
}
