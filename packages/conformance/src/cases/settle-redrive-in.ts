import assert from "node:assert/strict";
import type { Case } from "../case.ts";
import { deliveryOf, refused, unchanged } from "./expect.ts";
import { claimed, enqueued, event } from "./given.ts";
import { quarantinedRows, statesOf } from "./settle-redrive.ts";
import { assertTime, timed } from "./times.ts";

export const redriveInCases: readonly Case[] = [
  {
    id: "SETTLE-05",
    level: 1,
    intent: "a redrive in the caller's transaction applies with its commit, together with the business row",
    async run(t) {
      const { session, outbox } = t;
      const [rowId] = (await quarantinedRows(t, 1)) as readonly [number];
      const during = await timed(session, async () => {
        const tx = await session.begin();
        await tx.writeBusinessRow("mended");
        const before = await session.probe.deliveries();
        await outbox.redriveIn(tx.handle, rowId);
        assert.deepEqual(
          await session.probe.deliveries(),
          before,
          "a redrive in an open transaction must not be visible elsewhere",
        );
        await tx.commit();
      });
      const row = await deliveryOf(session, rowId);
      assert.equal(row.state, "pending", "a redrive must apply when its transaction commits");
      assertTime("the availability after a redrive in a transaction", row.availableAt, during);
      assert.equal(row.forgiven, row.attempts, "a redrive in a transaction must give a new budget");
      assert.equal(
        row.failureDetail,
        "gave up",
        "a redrive in a transaction must keep the quarantine's reason",
      );
      assert.deepEqual(
        await session.probe.businessRows(),
        ["mended"],
        "the business row must commit with the redrive",
      );
      assert.equal((await claimed(outbox)).rowId, rowId, "the redriven row must be claimable");
    },
  },
  {
    id: "SETTLE-05",
    level: 1,
    intent: "a redrive in the caller's transaction is undone by its rollback, one row or by filter",
    async run(t) {
      const { session, outbox } = t;
      const [first = 0] = await quarantinedRows(t, 3);
      await unchanged("a redrive that was rolled back", session, async () => {
        const tx = await session.begin();
        await outbox.redriveIn(tx.handle, first);
        await tx.rollback();
      });
      await unchanged("a redrive by filter that was rolled back", session, async () => {
        const tx = await session.begin();
        const { rowIds } = await outbox.redriveIn(tx.handle, {});
        assert.equal(rowIds.length, 3, "a redrive by filter must answer what it redrove");
        await tx.rollback();
      });
      assert.deepEqual(
        await outbox.claim({ worker: "w1" }),
        [],
        "a redrive that was rolled back must not be claimable",
      );
    },
  },
  {
    id: "SETTLE-05",
    level: 1,
    intent: "a redrive by filter in the caller's transaction: capped, oldest first, exact, and dry if asked",
    async run(t) {
      const { session, outbox } = t;
      const rows = await quarantinedRows(t, 4);
      const oldestFirst = [...rows].reverse();
      const other = await enqueued(t, event({ stream: "invoices" }));
      await outbox.quarantine(other.rowId, { reason: "gave up" });
      const dry = await unchanged("a dry run in a transaction", session, () =>
        session.transaction((tx) =>
          outbox.redriveIn(tx.handle, { stream: "orders", limit: 3, dryRun: true }),
        ),
      );
      const wet = await session.transaction((tx) =>
        outbox.redriveIn(tx.handle, { stream: "orders", limit: 3 }),
      );
      assert.deepEqual(
        [dry, wet],
        [
          { rowIds: oldestFirst.slice(0, 3), dryRun: true },
          { rowIds: oldestFirst.slice(0, 3), dryRun: false },
        ],
        "a redrive in a transaction must answer the rows of its cap, oldest quarantine first",
      );
      assert.deepEqual(
        await statesOf(session, [...oldestFirst, other.rowId]),
        ["pending", "pending", "pending", "quarantined", "quarantined"],
        "a redrive in a transaction must redrive its filter up to its cap, and nothing else",
      );
      const coded = await unchanged("a redrive by a failure code that no row has", session, () =>
        session.transaction((tx) => outbox.redriveIn(tx.handle, { failureCode: "E_OTHER" })),
      );
      assert.deepEqual(coded.rowIds, [], "a redrive by failure code must be exact");
      const admin = outbox.admin();
      const spanned = await session.transaction((tx) => admin.redriveIn(tx.handle, { all: true }));
      assert.equal(spanned.rowIds.length, 2, "admin must redrive what is left");
    },
  },
  {
    id: "SETTLE-05",
    level: 1,
    intent:
      "a redrive in the caller's transaction refuses what a redrive refuses, and a transaction that ended",
    async run(t) {
      const { session, outbox } = t;
      const [rowId] = (await quarantinedRows(t, 1)) as readonly [number];
      const { rowId: pending } = await enqueued(t);
      const refuse = async (
        what: string,
        code: "ILLEGAL_TRANSITION" | "NOT_FOUND",
        redrive: (tx: unknown) => unknown,
      ) =>
        unchanged(what, session, () =>
          refused(what, [code], () => session.transaction((tx) => redrive(tx.handle))),
        );
      const error = await refuse("a redrive of a pending row in a transaction", "ILLEGAL_TRANSITION", (tx) =>
        outbox.redriveIn(tx, pending),
      );
      assert.equal(error.state, "pending", "a redrive refused in a transaction must name the state");
      await refuse("a redrive of no row in a transaction", "NOT_FOUND", (tx) =>
        outbox.redriveIn(tx, pending + 1_000_000),
      );
      await refuse("a redrive of another tenant's row in a transaction", "NOT_FOUND", (tx) =>
        outbox.tenant("acme").redriveIn(tx, rowId),
      );
      const ended = await session.begin();
      await ended.commit();
      await unchanged("a redrive outside a transaction", session, () =>
        refused("a redrive outside a transaction", ["TX_REQUIRED", "TX_CLOSED"], () =>
          outbox.redriveIn(ended.handle, rowId),
        ),
      );
    },
  },
];
