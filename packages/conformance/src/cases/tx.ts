import assert from "node:assert/strict";
import type { Case } from "../case.ts";
import { refused } from "./expect.ts";
import { claimed, enqueued, event } from "./given.ts";
import { txApartCases, txRetryCases } from "./tx-lifecycle.ts";
import { accepted, after, assertStored, everything, held, nothingWritten } from "./written.ts";

export const txCases: readonly Case[] = [
  {
    id: "TX-01",
    level: 1,
    intent: "commit makes event, delivery and the business row visible together",
    async run({ session, outbox }) {
      const nothing = await everything(session);
      const open = await session.begin();
      await open.writeBusinessRow("order-1");
      const { rowId } = await outbox.enqueue(open.handle, event({ id: "by-hand" }));
      assert.deepEqual(await everything(session), nothing, "nothing may be visible before the commit");
      await open.commit();
      await assertStored(session, "after the commit", ["by-hand"]);
      assert.deepEqual(await session.probe.businessRows(), ["order-1"], "the business row must be committed");
      assert.equal(
        (await session.probe.events())[0]?.rowId,
        rowId,
        "the answered row id must be the stored one",
      );

      await session.transaction((tx) =>
        after(tx.writeBusinessRow("order-2"), () => outbox.enqueue(tx.handle, event({ id: "in-callback" }))),
      );
      assert.deepEqual(
        await session.probe.businessRows(),
        ["order-1", "order-2"],
        "both rows must be committed",
      );
      await outbox.transaction((tx) => outbox.enqueue(tx, event({ id: "in-ours" })));
      await assertStored(session, "after every commit", ["by-hand", "in-callback", "in-ours"]);
    },
  },
  {
    id: "TX-02",
    level: 1,
    intent: "rollback or a throwing callback leaves nothing",
    async run(t) {
      const { session, outbox } = t;
      await enqueued(t, event({ id: "before" }));
      const doomed = event({ id: "doomed" });
      const boom = (): never => {
        throw new Error("the application changed its mind");
      };

      await nothingWritten("a rollback", session, async () => {
        const open = await session.begin();
        await open.writeBusinessRow("order-1");
        await outbox.enqueue(open.handle, doomed);
        await outbox.enqueueMany(open.handle, [event(), event()]);
        await open.rollback();
      });
      await nothingWritten("a throwing callback", session, () =>
        assert.rejects(
          session.transaction((tx) =>
            after(tx.writeBusinessRow("order-1"), () => after(outbox.enqueue(tx.handle, doomed), boom)),
          ),
          "the application's transaction must reject",
        ),
      );
      await nothingWritten("a throwing callback of our own transaction", session, () =>
        assert.rejects(
          outbox.transaction((tx) => after(outbox.enqueue(tx, doomed), boom)),
          "our transaction must reject when its callback throws",
        ),
      );
      await nothingWritten("a refused enqueue that ends its transaction", session, () =>
        refused("an event without a type", ["INVALID_EVENT"], () =>
          outbox.transaction((tx) =>
            after(outbox.enqueue(tx, doomed), () => outbox.enqueue(tx, event({ type: "" }))),
          ),
        ),
      );

      assert.equal((await enqueued(t, doomed)).outcome, "enqueued", "a rolled back identity must be free");
      await assertStored(session, "afterwards", ["before", "doomed"]);
    },
  },
  {
    id: "TX-03",
    level: 1,
    intent: "uncommitted events are invisible and unclaimable elsewhere",
    async run(t) {
      const { session, outbox, connect } = t;
      const elsewhere = await connect();
      const { rowId: before } = await enqueued(t);
      await claimed(outbox);

      const open = await session.begin();
      const { rowId } = await outbox.enqueue(open.handle, event());
      for (const handle of [elsewhere.outbox, elsewhere.outbox.admin()]) {
        const { entries } = await handle.page();
        assert.deepEqual(
          entries.map((entry) => entry.rowId),
          [before],
          "a page must not show an uncommitted event",
        );
        assert.equal((await handle.stats()).due.count, 0, "an uncommitted event must not be counted as due");
        const found = await handle.inspect(rowId);
        assert.equal(found.outcome, "notFound", "an uncommitted event must not be found by its row id");
        const claims = await handle.claim({ worker: "elsewhere" });
        assert.deepEqual(claims, [], "an uncommitted event must not be claimed");
      }
      const { entries: pending } = await elsewhere.outbox.list({ state: "pending" });
      assert.deepEqual(pending, [], "a list must not show an uncommitted event");
      await open.commit();

      const claim = await claimed(elsewhere.outbox);
      assert.equal(claim.rowId, rowId, "the event must be claimable after the commit");
    },
  },
  {
    id: "TX-04",
    level: 1,
    intent: "rollback to a savepoint drops only what came after it, and the handle stays usable",
    async run({ session, outbox, capabilities }) {
      const open = await session.begin();
      const { rowId } = await outbox.enqueue(open.handle, event({ id: "first" }));
      await open.writeBusinessRow("first");
      if (!capabilities.savepoints) {
        await assert.rejects(open.savepoint(), "without the capability, a savepoint must be refused");
        await accepted("an enqueue after a refused savepoint", () =>
          outbox.enqueue(open.handle, event({ id: "second" })),
        );
        await open.commit();
        return assertStored(session, "after a refused savepoint", ["first", "second"]);
      }

      const dropped = event({ id: "dropped" });
      const savepoint = await open.savepoint();
      await outbox.enqueue(open.handle, dropped);
      await outbox.enqueueMany(open.handle, [event(), event()]);
      await open.writeBusinessRow("dropped");
      await accepted("a rollback to the savepoint", () => savepoint.rollback());
      await accepted("an enqueue after the savepoint's rollback", () =>
        outbox.enqueue(open.handle, event({ id: "after" })),
      );

      const second = await open.savepoint();
      await outbox.enqueue(open.handle, dropped);
      await second.rollback();
      const again = await outbox.enqueue(open.handle, dropped);
      assert.equal(again.outcome, "enqueued", "an identity dropped by a savepoint must be free");
      await open.commit();

      await assertStored(session, "after the commit", ["first", "after", "dropped"]);
      assert.equal(
        (await session.probe.events())[0]?.rowId,
        rowId,
        "what came before the savepoint must be kept",
      );
      assert.deepEqual(
        await session.probe.businessRows(),
        ["first"],
        "the savepoint must undo the business row",
      );

      // Whatever the store left in the transaction at its first call goes with the savepoint.
      const empty = await session.begin();
      const start = await empty.savepoint();
      await outbox.enqueue(empty.handle, event({ id: "undone" }));
      await start.rollback();
      await accepted("an enqueue after the rollback of the first one", () =>
        outbox.enqueue(empty.handle, event({ id: "late" })),
      );
      await empty.commit();
      await assertStored(session, "after the second commit", ["first", "after", "dropped", "late"]);
    },
  },
  {
    id: "TX-05",
    level: 1,
    intent: "enqueue outside an open transaction is refused",
    async run({ session, outbox, capabilities }) {
      // Where a transaction has no handle of its own, what is left after its end is a connection without one.
      const codes = capabilities.transactionIdentity
        ? (["TX_REQUIRED", "TX_CLOSED"] as const)
        : (["TX_REQUIRED"] as const);
      const committed = await session.begin();
      await committed.writeBusinessRow("order-1");
      await committed.commit();
      const rolledBack = await session.begin();
      await rolledBack.rollback();
      let ofCallback: unknown;
      await session.transaction((tx) => {
        ofCallback = tx.handle;
      });

      for (const [what, handle] of [
        ["a handle after its commit", committed.handle],
        ["a handle after its rollback", rolledBack.handle],
        ["a handle after its callback", ofCallback],
      ] as const) {
        await nothingWritten(`enqueue with ${what}`, session, () =>
          refused(`enqueue with ${what}`, codes, () => outbox.enqueue(handle, event())),
        );
        await nothingWritten(`enqueueMany with ${what}`, session, () =>
          refused(`enqueueMany with ${what}`, codes, () => outbox.enqueueMany(handle, [event(), event()])),
        );
      }
      const mistake = "enqueue with the client, without a transaction,";
      for (const root of [session.root, ...(session.otherRoots ?? [])]) {
        await nothingWritten(mistake, session, () =>
          refused(mistake, ["TX_REQUIRED"], () => outbox.enqueue(root, event())),
        );
      }
      for (const nonsense of [undefined, null, {}]) {
        const what = `enqueue with ${JSON.stringify(nonsense)} for a transaction`;
        await nothingWritten(what, session, () =>
          refused(what, ["TX_REQUIRED", "TX_FOREIGN", "INVALID_ARGUMENT"], () =>
            outbox.enqueue(nonsense, event()),
          ),
        );
      }
    },
  },
  ...txApartCases,
  {
    id: "TX-08",
    level: 1,
    intent: "an asynchronous callback works, or is refused before anything is written",
    async run({ session, outbox, capabilities }) {
      if (capabilities.asyncTransactions) {
        const body = async (tx: unknown, suffix: string): Promise<void> => {
          await outbox.enqueue(tx, event({ id: `first-${suffix}` }));
          await session.probe.now();
          await outbox.enqueue(tx, event({ id: `second-${suffix}` }));
        };
        await accepted("an asynchronous callback", () => outbox.transaction((tx) => body(tx, "ours")));
        await accepted("an asynchronous callback of the application", () =>
          session.transaction((tx) => body(tx.handle, "theirs")),
        );
        await assertStored(session, "after asynchronous callbacks", [
          "first-ours",
          "second-ours",
          "first-theirs",
          "second-theirs",
        ]);
        return nothingWritten("an asynchronous callback that rejects", session, () =>
          assert.rejects(
            outbox.transaction(async (tx) => {
              await body(tx, "doomed");
              throw new Error("the application changed its mind");
            }),
            "a rejecting callback must reject the transaction",
          ),
        );
      }

      await nothingWritten("a refused asynchronous callback", session, async () => {
        await refused("an async function", ["TX_ASYNC"], () =>
          outbox.transaction(async (tx) => {
            await outbox.enqueue(tx, event());
          }),
        );
        let running: Promise<unknown> | undefined;
        const late = async (tx: unknown): Promise<void> => {
          await outbox.enqueue(tx, event());
          // By now the transaction has been refused: what comes after the first await has nothing to join.
          await refused("enqueue after the first await", ["TX_CLOSED"], () => outbox.enqueue(tx, event()));
        };
        await refused("a callback that answers a promise", ["TX_ASYNC"], () =>
          outbox.transaction((tx) => {
            running = held(late(tx));
            return running;
          }),
        );
        await running;
      });
      await accepted("the next transaction", () =>
        outbox.transaction((tx) => outbox.enqueue(tx, event({ id: "next" }))),
      );
      await assertStored(session, "the transaction after a refused one", ["next"]);
    },
  },
  {
    id: "TX-09",
    level: 1,
    intent: "a handle used after its transaction ended is refused, also while another one is open",
    async run(t) {
      const { session, outbox } = t;
      const { rowId } = await enqueued(t, event({ id: "stuck" }));
      await outbox.quarantine(rowId, { reason: "for the redrive" });
      const ended: [string, unknown][] = [];
      await outbox.transaction((tx) => {
        ended.push(["after its commit", tx]);
        return outbox.enqueue(tx, event({ id: "kept" }));
      });
      await assert.rejects(
        outbox.transaction((tx) => {
          ended.push(["after its rollback", tx]);
          throw new Error("the application changed its mind");
        }),
      );

      for (const [when, tx] of ended) {
        await nothingWritten(`a handle ${when}`, session, async () => {
          await refused(`enqueue ${when}`, ["TX_CLOSED"], () => outbox.enqueue(tx, event()));
          await refused(`enqueueMany ${when}`, ["TX_CLOSED"], () => outbox.enqueueMany(tx, [event()]));
          await refused(`redriveIn ${when}`, ["TX_CLOSED"], () => outbox.redriveIn(tx, rowId));
        });
      }
      for (const [when, old] of ended) {
        // `refused` makes its call before it answers, so that it is made inside the callback.
        const checks: Promise<unknown>[] = [];
        await outbox.transaction((tx) => {
          const what = `enqueue ${when}, while the next transaction is open`;
          const check = held(refused(what, ["TX_CLOSED"], () => outbox.enqueue(old, event())));
          checks.push(check);
          return t.capabilities.asyncTransactions
            ? check.then(() => outbox.enqueue(tx, event({ id: `next ${when}` })))
            : outbox.enqueue(tx, event({ id: `next ${when}` }));
        });
        await Promise.all(checks);
      }
      const ids = ["stuck", "kept", ...ended.map(([when]) => `next ${when}`)];
      await assertStored(session, "afterwards", ids);
    },
  },
  {
    id: "TX-10",
    level: 1,
    intent: "concurrent enqueues in one transaction all land or none",
    async run(t) {
      const { session, outbox, capabilities } = t;
      const given = (prefix: string) => Array.from({ length: 20 }, (_, n) => event({ id: `${prefix}-${n}` }));
      const landing = given("landing");
      const open = await session.begin();
      // On a synchronous driver these come one after the other: there is no other concurrency in one transaction.
      const outcomes = await accepted("concurrent enqueues", () =>
        Promise.all(landing.map(async (each) => outbox.enqueue(open.handle, each))),
      );
      await open.commit();
      const ids = landing.map(({ id }) => String(id));
      await assertStored(session, "after the commit", ids);
      assert.equal(
        new Set(outcomes.map(({ rowId }) => rowId)).size,
        ids.length,
        "each event must have its own row",
      );
      for (const { rowId, id } of outcomes) {
        const stored = (await session.probe.events()).find((each) => each.rowId === rowId);
        assert.equal(stored?.id, id, "each call must answer the row of its own event");
      }

      await nothingWritten("a rollback after concurrent enqueues", session, async () => {
        const doomed = await session.begin();
        await Promise.all(given("rolled-back").map(async (each) => outbox.enqueue(doomed.handle, each)));
        await doomed.rollback();
      });

      // One of them fails, and the transaction with it, while the others are still under way.
      const failing = given("failing").toSpliced(10, 1, event({ id: "landing-0", type: "other" }));
      const underWay: Promise<unknown>[] = [];
      await nothingWritten("concurrent enqueues of which one is refused", session, async () => {
        await refused("a transaction with a conflict", ["IDENTITY_CONFLICT"], () =>
          outbox.transaction((tx) => {
            const calls = failing.map((each) => outbox.enqueue(tx, each));
            underWay.push(...calls.filter((call) => call instanceof Promise).map((call) => held(call)));
            return capabilities.asyncTransactions ? Promise.all(calls) : calls;
          }),
        );
        await Promise.allSettled(underWay);
      });
    },
  },
  ...txRetryCases,
];
