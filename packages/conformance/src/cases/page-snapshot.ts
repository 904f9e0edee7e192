import assert from "node:assert/strict";
import type { Entry, Snapshot } from "@dovecote/core";
import type { Case, CaseContext, Peer } from "../case.ts";
import { refused } from "./expect.ts";
import { claimed, enqueued, enqueuedMany } from "./given.ts";
import { promptly } from "./waiting.ts";

/** More than any pool holds by default: what leaks a connection runs out of them. */
const OPENED = 24;

export const snapshotCases: readonly Case[] = [
  {
    id: "PAGE-03",
    level: 2,
    intent: "a snapshot sees one state across its pages, and ends at its own upper bound",
    async run(t) {
      const { session, outbox, capabilities } = t;
      const rowIds = await enqueuedMany(t, 7);
      await outbox.ack(await claimed(outbox));
      await outbox.quarantine(await claimed(outbox), { reason: "gave up" });
      await claimed(outbox);
      const rows = await session.probe.deliveries();
      const writer = await t.connect();
      const snapshot = await outbox.snapshot({ pageSize: 2 });
      assert.ok(
        snapshot.cursor <= (rowIds.at(-1) ?? 0),
        "the cursor of a snapshot must not lie above what it shows",
      );
      await changeEverything(writer, capabilities.snapshotIsolation === "snapshot");
      const seen: Entry[] = [];
      for await (const entry of snapshot) {
        seen.push(entry);
        assert.ok(
          seen.length <= rowIds.length,
          "a snapshot must end at its own upper bound while others write",
        );
        await enqueued(writer);
      }
      assert.deepEqual(
        seen.map(({ rowId }) => rowId),
        rowIds,
        "a snapshot must show every row up to its upper bound once, in ascending row id",
      );
      if (capabilities.snapshotIsolation === "snapshot") {
        assert.deepEqual(
          seen.map(({ delivery }) => [delivery.state, delivery.attempt]),
          rows.map(({ state, attempts }) => [state, attempts]),
          "a snapshot must show the state of its start on every page",
        );
      }
    },
  },
  {
    id: "PAGE-03",
    level: 2,
    intent: "a snapshot of an empty store, and one opened before any event, show nothing",
    async run(t) {
      const snapshot = await t.outbox.snapshot();
      const later = await enqueued(await t.connect());
      assert.ok(
        snapshot.cursor < later.rowId,
        "the cursor of an empty snapshot must lie below every later row",
      );
      for await (const { rowId } of snapshot) {
        assert.fail(`a snapshot must not show row ${rowId}, which was committed after its start`);
      }
    },
  },
  {
    id: "PAGE-03",
    level: 2,
    intent: "a snapshot releases its connection on completion, break, error, close and dispose",
    async run(t) {
      const { session, outbox } = t;
      const rowIds = await enqueuedMany(t, 5);
      for (const [way, leave] of WAYS_OUT) {
        let last: Snapshot | undefined;
        for (let n = 0; n < OPENED; n++) {
          const snapshot = await promptly(session, `snapshot ${n} after others were left by ${way}`, () =>
            outbox.snapshot({ pageSize: 2 }),
          );
          // Nothing but the way out itself may have to release it.
          await leave(snapshot);
          last = snapshot;
        }
        await works(t, `after snapshots were left by ${way}`);
        await last?.close();
      }
      await session.faults.deleteDelivery(rowIds[3] ?? 0);
      for (let n = 0; n < OPENED; n++) {
        const snapshot = await promptly(session, `snapshot ${n} after others failed`, () =>
          outbox.snapshot({ pageSize: 2 }),
        );
        await refused("a snapshot with a damaged row", ["INTEGRITY"], () => readAll(snapshot));
      }
      await works(t, "after snapshots failed");
    },
  },
];

const WAYS_OUT: readonly (readonly [string, (snapshot: Snapshot) => Promise<void>])[] = [
  ["completion", readAll],
  [
    "break",
    async (snapshot) => {
      for await (const _ of snapshot) break;
    },
  ],
  [
    "an error in the loop",
    async (snapshot) => {
      const thrown = new Error("the reader failed");
      await assert.rejects(async () => {
        for await (const _ of snapshot) throw thrown;
      }, thrown);
    },
  ],
  ["close", (snapshot) => snapshot.close()],
  ["dispose", async (snapshot) => snapshot[Symbol.asyncDispose]()],
];

async function readAll(snapshot: Snapshot): Promise<void> {
  for await (const _ of snapshot);
}

/** Everything that needs a connection, or a connection without an open reader, still goes. */
async function works(t: CaseContext, when: string): Promise<void> {
  const { session, outbox } = t;
  await promptly(session, `a transaction ${when}`, () => enqueued(t));
  const claims = await promptly(session, `a claim ${when}`, () => outbox.claim({ worker: "w1" }));
  assert.ok(claims.length > 0, `a claim ${when} must find the event`);
  await promptly(session, `an ack ${when}`, () => outbox.ack(claims));
}

/** Moves every row to another state, and with `prune` removes one. */
async function changeEverything({ session, outbox }: Peer, prune: boolean): Promise<void> {
  const before = await session.probe.deliveries();
  await outbox.redrive({});
  await session.faults.expireLeases(
    before.filter(({ state }) => state === "claimed").map(({ rowId }) => rowId),
  );
  await outbox.ack(await outbox.claim({ worker: "w2" }));
  if (!prune) return;
  const [first] = before;
  assert.ok(first?.state === "delivered", "the first row must be delivered already");
  await session.faults.overwriteDelivery(first.rowId, { deliveredAt: 1_000_000 });
  assert.equal((await outbox.prune({ olderThanMs: 60_000 })).pruned, 1, "one row must be pruned");
}
