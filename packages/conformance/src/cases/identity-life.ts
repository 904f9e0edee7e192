/** ID-08, ID-10 and ID-11: row ids over time, and what is no content. */
import assert from "node:assert/strict";
import { BOUNDS } from "@dovecote/core";
import type { Case } from "../case.ts";
import { deliveryOf, refused } from "./expect.ts";
import { claimed, enqueued, enqueuedMany, event } from "./given.ts";
import { identityDataCases } from "./identity-data.ts";
import { accepted, deliveredLongAgo, eventOf, nothingWritten } from "./written.ts";

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;
const MICROS_PER_MS = 1000;

export const identityLifeCases: readonly Case[] = [
  {
    id: "ID-08",
    level: 1,
    intent: "row ids rise, and none is used again after a prune",
    async run(t) {
      const { session, outbox, connect } = t;
      let highest = 0;
      const rises = (rowId: number, when: string): void => {
        assert.ok(
          Number.isSafeInteger(rowId) && rowId > highest,
          `row id ${rowId} must be above ${highest} ${when}`,
        );
        highest = rowId;
      };
      for (let i = 0; i < 3; i++) rises((await enqueued(t)).rowId, "in a later transaction");
      for (const rowId of await enqueuedMany(t, 5)) rises(rowId, "in a batch");
      await session.transaction((tx) => outbox.tenant("other").enqueue(tx.handle, event()));
      rises((await enqueued(t)).rowId, "after another tenant's");
      const open = await session.begin();
      await outbox.enqueue(open.handle, event());
      await open.rollback();
      rises((await enqueued(t)).rowId, "after a rollback");

      rises(await deliveredLongAgo(t), "before the prune");
      const { pruned } = await outbox.prune({ olderThanMs: MINUTE_MS });
      assert.equal(pruned, 1, "the delivered row must be pruned");
      rises((await enqueued(t)).rowId, "after the highest row was pruned");

      // The whole store: nothing is left in it that a counter could be read from.
      const deliveries = await session.probe.deliveries();
      const claimedIds = deliveries.filter(({ state }) => state === "claimed").map(({ rowId }) => rowId);
      await session.faults.expireLeases(claimedIds);
      const admin = outbox.admin();
      const claims = await admin.claim({ worker: "cleanup", limit: 1000 });
      await admin.quarantine(claims, { reason: "for the prune" });
      const longAgo = (await session.probe.now()) - HOUR_MS * MICROS_PER_MS;
      for (const { rowId } of claims)
        await session.faults.overwriteDelivery(rowId, { quarantinedAt: longAgo });
      await admin.prune({ all: true, olderThanMs: MINUTE_MS, quarantined: true });
      assert.deepEqual(await session.probe.events(), [], "the store must be empty");
      rises((await enqueued(t)).rowId, "after everything was pruned");
      rises((await enqueued(await connect())).rowId, "in another session");
    },
  },
  ...identityDataCases,
  {
    id: "ID-10",
    level: 1,
    intent: "a prune ends the identity: the same identity afterwards is a new event",
    async run(t) {
      const { session, outbox } = t;
      const same = event({ id: "pruned", data: "same" });
      const pruned = await deliveredLongAgo(t, same);
      await nothingWritten("the same event before the prune", session, async () => {
        const { outcome } = await enqueued(t, same);
        assert.equal(outcome, "alreadyEnqueued", "age alone must not end an identity");
      });
      await outbox.prune({ olderThanMs: MINUTE_MS });
      assert.deepEqual(await session.probe.events(), [], "the event must be pruned");

      const again = await enqueued(t, same);
      assert.equal(again.outcome, "enqueued", "a pruned identity must be free");
      assert.ok(
        again.rowId > pruned,
        `the new event must have a higher row id than ${pruned}, got ${again.rowId}`,
      );
      const claim = await claimed(outbox);
      assert.deepEqual([claim.rowId, claim.attempt], [again.rowId, 1], "the new event must start anew");

      await outbox.ack(claim);
      const longAgo = (await session.probe.now()) - HOUR_MS * MICROS_PER_MS;
      await session.faults.overwriteDelivery(again.rowId, { deliveredAt: longAgo });
      await outbox.prune({ olderThanMs: MINUTE_MS });
      const other = await accepted("other content", () => enqueued(t, { ...same, data: "other" }));
      assert.equal(other.outcome, "enqueued", "a pruned identity must be free for other content");
      assert.ok(other.rowId > again.rowId, "row ids must go on rising");
      assert.equal((await eventOf(session, other.rowId)).id, "pruned", "the new event must be stored");
    },
  },
  {
    id: "ID-11",
    level: 1,
    intent: "delayMs at enqueue sets the first availability by the database's clock",
    async run(t) {
      const { session, outbox } = t;
      const assertAvailable = async (
        rowId: number,
        from: number,
        until: number,
        delayMs: number,
      ): Promise<void> => {
        const { availableAt } = await deliveryOf(session, rowId);
        // A clock of the database may be read in whole milliseconds: one of them either way.
        const earliest = from + (delayMs - 1) * MICROS_PER_MS;
        const latest = until + (delayMs + 1) * MICROS_PER_MS;
        assert.ok(
          availableAt >= earliest && availableAt <= latest,
          `a delay of ${delayMs} ms must make it available from ${earliest} to ${latest}, got ${availableAt}`,
        );
      };
      for (const delayMs of [1, 1_500, MINUTE_MS + 7, BOUNDS.delayMs.max]) {
        const from = await session.probe.now();
        const { rowId } = await enqueued(t, event(), { delayMs });
        const [batched] = await session.transaction((tx) =>
          outbox.enqueueMany(tx.handle, [event()], { delayMs }),
        );
        const until = await session.probe.now();
        await assertAvailable(rowId, from, until, delayMs);
        assert.ok(batched !== undefined, "a batch of one must have one answer");
        await assertAvailable(batched.rowId, from, until, delayMs);
      }
      const from = await session.probe.now();
      const { rowId } = await enqueued(t, event());
      await assertAvailable(rowId, from, await session.probe.now(), 0);
    },
  },
  {
    id: "ID-11",
    level: 1,
    intent: "a delayed event is claimed when it is due, not before",
    async run(t) {
      const { session, outbox } = t;
      const { rowId } = await enqueued(t, event(), { delayMs: HOUR_MS });
      assert.deepEqual(await outbox.claim({ worker: "early" }), [], "a delayed event must not be claimed");
      const stats = await outbox.stats();
      assert.deepEqual(
        [stats.due.count, stats.scheduled.count],
        [0, 1],
        "a delayed event must count as scheduled",
      );
      await session.faults.overwriteDelivery(rowId, { availableAt: await session.probe.now() });
      const claim = await claimed(outbox);
      assert.deepEqual(
        [claim.rowId, claim.attempt],
        [rowId, 1],
        "a delayed event must be claimed once it is due",
      );
    },
  },
  {
    id: "ID-11",
    level: 1,
    intent: "delayMs is not content: the same event with another delay is already enqueued",
    async run(t) {
      const { session, outbox } = t;
      const given = event();
      const { rowId } = await enqueued(t, given, { delayMs: HOUR_MS });
      for (const delayMs of [0, MINUTE_MS, 2 * HOUR_MS]) {
        await nothingWritten(`the same event with a delay of ${delayMs} ms`, session, async () => {
          const again = await enqueued(t, given, { delayMs });
          assert.deepEqual(
            [again.outcome, again.rowId],
            ["alreadyEnqueued", rowId],
            "a delay must not be compared",
          );
          const [batched] = await session.transaction((tx) =>
            outbox.enqueueMany(tx.handle, [given], { delayMs }),
          );
          assert.equal(batched?.outcome, "alreadyEnqueued", "a delay must not be compared in a batch");
        });
      }
      for (const delayMs of [-1, 0.5, BOUNDS.delayMs.max + 1, Number.NaN]) {
        await nothingWritten(`a delay of ${delayMs} ms`, session, () =>
          refused(`a delay of ${delayMs} ms`, ["INVALID_ARGUMENT"], () => enqueued(t, event(), { delayMs })),
        );
      }
    },
  },
];
