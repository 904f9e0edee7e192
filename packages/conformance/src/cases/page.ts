import assert from "node:assert/strict";
import { isDovecoteError } from "@dovecote/core";
import type { Case, CaseContext, Outbox } from "../case.ts";
import { deliveryOf, refused, unchanged } from "./expect.ts";
import { claimed, enqueued, enqueuedMany, event } from "./given.ts";
import { snapshotCases } from "./page-snapshot.ts";
import { tailCases } from "./page-tail.ts";

export const pageCases: readonly Case[] = [
  {
    id: "PAGE-01",
    level: 1,
    intent: "pages are bounded, in strictly ascending row id, and show every state",
    async run(t) {
      const { session, outbox } = t;
      await oneOfEveryState(t);
      const rows = await session.probe.deliveries();
      for (const limit of [1, 2, rows.length, 1000]) {
        let after = 0;
        const seen: { readonly rowId: number; readonly state: string }[] = [];
        for (;;) {
          const { entries, cursor } = await outbox.page({ after, limit });
          assert.ok(entries.length <= limit, "a page must not be longer than its limit");
          if (entries.length === 0) {
            assert.equal(cursor, after, "an empty page must not advance the cursor");
            break;
          }
          assert.equal(cursor, entries.at(-1)?.rowId, "the cursor must be the last row id of the page");
          assert.ok(cursor > after, "the cursor must rise with every page that is not empty");
          seen.push(...entries.map(({ rowId, delivery }) => ({ rowId, state: delivery.state })));
          after = cursor;
        }
        assert.deepEqual(
          seen,
          rows.map(({ rowId, state }) => ({ rowId, state })),
          "pages must show every row once, in ascending row id, in its state",
        );
      }
    },
  },
  {
    id: "PAGE-01",
    level: 1,
    intent: "an empty page does not advance, and reading on from it misses nothing",
    async run(t) {
      const { outbox } = t;
      assert.deepEqual(
        await outbox.page(),
        { entries: [], cursor: 0 },
        "the page of an empty store must be empty",
      );
      const { rowId } = await enqueued(t);
      assert.deepEqual(
        await outbox.page({ after: rowId + 500 }),
        { entries: [], cursor: rowId + 500 },
        "an empty page must answer the cursor it was given",
      );
      const end = await outbox.page({ after: rowId });
      assert.deepEqual(end, { entries: [], cursor: rowId }, "an empty page must not advance the cursor");
      const next = await enqueued(t);
      const { entries } = await outbox.page({ after: end.cursor });
      assert.deepEqual(
        entries.map((entry) => entry.rowId),
        [next.rowId],
        "the next page must start after the cursor, exclusive",
      );
    },
  },
  {
    id: "PAGE-01",
    level: 1,
    intent: "pages go on across gaps, and hold one stream if asked",
    async run(t) {
      const { session, outbox } = t;
      const rowIds: number[] = [];
      for (let n = 0; n < 6; n++) {
        const stream = n % 2 === 0 ? "orders" : "orders-eu";
        rowIds.push((await enqueued(t, event({ stream }))).rowId);
      }
      const ofStream: (readonly [number, string])[] = [];
      for (let after = 0; ; ) {
        const { entries, cursor } = await outbox.page({ stream: "orders", after, limit: 2 });
        if (entries.length === 0) break;
        assert.ok(cursor > after, "the cursor must rise with every page of a stream");
        ofStream.push(...entries.map(({ rowId, stream }) => [rowId, stream] as const));
        after = cursor;
      }
      assert.deepEqual(
        ofStream,
        [rowIds[0], rowIds[2], rowIds[4]].map((rowId) => [rowId, "orders"]),
        "pages of a stream must show all of that stream, and nothing else",
      );
      const middle = rowIds.slice(2, 4);
      for (const rowId of middle) await outbox.quarantine(rowId, { reason: "to be pruned" });
      for (const rowId of middle) await session.faults.overwriteDelivery(rowId, { quarantinedAt: 1_000_000 });
      assert.equal(
        (await outbox.prune({ olderThanMs: 60_000, quarantined: true })).pruned,
        2,
        "two rows must go",
      );
      const page = await outbox.page({ after: rowIds[1] ?? 0, limit: 1 });
      assert.equal(page.entries[0]?.rowId, rowIds[4], "a page must go on across a gap");
    },
  },
  {
    id: "PAGE-02",
    level: 1,
    intent:
      "an event without its delivery is an INTEGRITY error with a cursor past it, and hides no other row",
    async run(t) {
      const { session, outbox } = t;
      const rowIds = await enqueuedMany(t, 6);
      const damaged = [rowIds[2], rowIds[5]] as readonly number[];
      for (const rowId of damaged) await session.faults.deleteDelivery(rowId);
      const healthy = rowIds.filter((rowId) => !damaged.includes(rowId));
      for (const handle of [outbox, outbox.admin()]) {
        for (const limit of [1, 2, 100]) {
          const { seen, errors } = await walk(handle, limit);
          assert.deepEqual(
            errors,
            damaged,
            "every damaged row must be an INTEGRITY error, never silently missing",
          );
          assert.deepEqual(seen, healthy, "a damaged row must not hide the rows beside it");
        }
      }
      const shown: number[] = [];
      const error = await refused("a snapshot with a damaged row", ["INTEGRITY"], async () => {
        for await (const { rowId } of await outbox.snapshot()) shown.push(rowId);
      });
      assert.equal(
        error.cursor,
        damaged[0],
        "the INTEGRITY error of a snapshot must carry the cursor past the row",
      );
      assert.deepEqual(shown, rowIds.slice(0, 2), "a snapshot must show the rows before a damaged one");
      if (t.capabilities.tail) {
        const tailed: number[] = [];
        const failure = await refused("a tail with a damaged row", ["INTEGRITY"], async () => {
          for await (const { rowId } of outbox.tail()) {
            tailed.push(rowId);
            assert.ok(tailed.length <= 2, "a tail must not pass over a damaged row in silence");
          }
        });
        assert.equal(
          failure.cursor,
          damaged[0],
          "the INTEGRITY error of a tail must carry the cursor past the row",
        );
        assert.deepEqual(tailed, rowIds.slice(0, 2), "a tail must show the rows before a damaged one");
      }
    },
  },
  {
    id: "PAGE-02",
    level: 1,
    intent: "reconcile gives an event that lost its delivery a pending one, and changes no other",
    async run(t) {
      const { session, outbox } = t;
      const admin = outbox.admin();
      const [first = 0, second = 0] = await enqueuedMany(t, 2);
      await session.faults.deleteDelivery(second);
      const before = await session.probe.deliveries();
      assert.deepEqual(
        await outbox.inspect(second),
        { outcome: "missingDelivery", rowId: second },
        "inspect must say that the delivery is missing",
      );
      assert.deepEqual(
        await admin.reconcile(second),
        { outcome: "reconciled" },
        "reconcile must mend the row",
      );
      const row = await deliveryOf(session, second);
      assert.deepEqual(
        [row.state, row.tenant, row.token, row.deliveredAt, row.quarantinedAt],
        ["pending", "default", null, null, null],
        "reconcile must create a pending delivery of the event's tenant",
      );
      assert.deepEqual(
        (await session.probe.deliveries()).filter(({ rowId }) => rowId !== second),
        before,
        "reconcile must leave every other row byte-identical",
      );
      await unchanged("a second reconcile", session, async () => {
        assert.deepEqual(
          await admin.reconcile(second),
          { outcome: "alreadyPresent" },
          "a second reconcile must say so",
        );
        assert.deepEqual(
          await admin.reconcile(second + 1_000_000),
          { outcome: "notFound" },
          "reconcile must not invent events",
        );
      });
      const { entries } = await outbox.page();
      assert.deepEqual(
        entries.map(({ rowId }) => rowId),
        [first, second],
        "a reconciled row must be on its page",
      );
      const claims = await outbox.claim({ worker: "w1" });
      assert.equal(claims.length, 2, "a reconciled row must be claimable");
    },
  },
  {
    id: "PAGE-05",
    level: 1,
    intent:
      "a cursor is a row id: kept as a number, it goes on over another connection, even if its row is gone",
    async run(t) {
      const { session, outbox } = t;
      const rowIds = await enqueuedMany(t, 6);
      const { cursor } = await outbox.page({ limit: 3 });
      assert.equal(cursor, rowIds[2], "a cursor must be the row id of the last entry");
      const kept: number = JSON.parse(JSON.stringify(cursor));
      const other = await t.connect();
      const rest = async () => (await other.outbox.page({ after: kept })).entries.map(({ rowId }) => rowId);
      assert.deepEqual(await rest(), rowIds.slice(3), "a kept cursor must go on over another connection");
      const claims = await outbox.claim({ worker: "w1", limit: 3 });
      await outbox.ack(claims);
      for (const { rowId } of claims)
        await session.faults.overwriteDelivery(rowId, { deliveredAt: 1_000_000 });
      assert.equal(
        (await outbox.prune({ olderThanMs: 60_000 })).pruned,
        3,
        "the rows up to the cursor must go",
      );
      assert.deepEqual(await rest(), rowIds.slice(3), "a cursor whose row is gone must go on where it was");
      const next = await enqueued(t);
      assert.deepEqual(
        await rest(),
        [...rowIds.slice(3), next.rowId],
        "later events must come after the cursor",
      );
    },
  },
  ...snapshotCases,
  ...tailCases,
];

async function oneOfEveryState(t: CaseContext): Promise<void> {
  const { outbox } = t;
  await enqueuedMany(t, 4);
  const [first, second] = [await claimed(outbox), await claimed(outbox), await claimed(outbox)];
  await outbox.ack(first);
  await outbox.quarantine(second, { reason: "gave up" });
  await enqueued(t, event(), { delayMs: 60_000 });
}

/** Reads to the end, going on after every damaged row. */
async function walk(
  handle: Pick<Outbox, "page">,
  limit: number,
): Promise<{ seen: number[]; errors: number[] }> {
  const seen: number[] = [];
  const errors: number[] = [];
  for (let after = 0, calls = 0; ; calls++) {
    assert.ok(calls < 50, "reading on after an INTEGRITY error must come to an end");
    try {
      const { entries, cursor } = await handle.page({ after, limit });
      if (entries.length === 0) return { seen, errors };
      seen.push(...entries.map(({ rowId }) => rowId));
      after = cursor;
    } catch (error) {
      assert.ok(
        isDovecoteError(error, "INTEGRITY"),
        `a damaged row must be an INTEGRITY error, got ${String(error)}`,
      );
      assert.ok(
        error.cursor !== undefined && error.cursor > after,
        "an INTEGRITY error must carry a cursor past the row",
      );
      errors.push(error.cursor);
      after = error.cursor;
    }
  }
}
