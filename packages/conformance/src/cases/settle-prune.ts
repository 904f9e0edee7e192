import assert from "node:assert/strict";
import type { Case, CaseContext } from "../case.ts";
import { refused, unchanged } from "./expect.ts";
import { claimed, enqueued, enqueuedAndClaimed, enqueuedMany, event } from "./given.ts";

const HOUR_MS = 3600 * 1000;

export const pruneCases: readonly Case[] = [
  {
    id: "SETTLE-07",
    level: 1,
    intent: "prune removes delivered rows older than its bound with their events, and nothing else",
    async run(t) {
      const { session, outbox } = t;
      const old = await delivered(t, 61);
      const young = await delivered(t, 59);
      const kept = [young, ...(await everyOtherState(t))];
      const deliveries = (await session.probe.deliveries()).filter(({ rowId }) => rowId !== old);
      const events = (await session.probe.events()).filter(({ rowId }) => rowId !== old);
      assert.deepEqual(
        await outbox.prune({ olderThanMs: HOUR_MS }),
        { pruned: 1, more: false },
        "prune must remove the one row that is delivered and old",
      );
      assert.deepEqual(
        await session.probe.deliveries(),
        deliveries,
        "prune must leave every other delivery as it is",
      );
      assert.deepEqual(
        await session.probe.events(),
        events,
        "prune must remove the event with its delivery, alone",
      );
      assert.equal(events.length, kept.length, "every other event must be left");
      assert.deepEqual(await outbox.inspect(old), { outcome: "notFound" }, "a pruned row must be gone");
    },
  },
  {
    id: "SETTLE-07",
    level: 1,
    intent: "prune removes quarantined rows only if asked, and by the age of their quarantine",
    async run(t) {
      const { session, outbox } = t;
      const old = await quarantined(t, 61);
      await quarantined(t, 59);
      await everyOtherState(t);
      const bound = { olderThanMs: HOUR_MS };
      for (const options of [bound, { ...bound, quarantined: false }]) {
        const report = await unchanged("a prune without quarantined rows", session, () =>
          outbox.prune(options),
        );
        assert.deepEqual(
          report,
          { pruned: 0, more: false },
          "prune must leave quarantined rows unless it is asked",
        );
      }
      const rest = (await session.probe.deliveries()).filter(
        ({ rowId, state, quarantinedAt }) =>
          rowId !== old && !(state === "quarantined" && quarantinedAt === LONG_AGO),
      );
      const report = await outbox.prune({ ...bound, quarantined: true });
      assert.equal(report.pruned, 2, "prune must remove the quarantined rows that are old, and no other");
      assert.deepEqual(
        await session.probe.deliveries(),
        rest,
        "prune must leave every other delivery as it is",
      );
      assert.deepEqual(
        (await session.probe.events()).map(({ rowId }) => rowId),
        rest.map(({ rowId }) => rowId),
        "prune must remove events with their deliveries",
      );
    },
  },
  {
    id: "SETTLE-07",
    level: 1,
    intent: "prune works in batches of its limit, and says when to call again",
    async run(t) {
      const { session, outbox } = t;
      for (let n = 0; n < 5; n++) await delivered(t, 61);
      for (const [pruned, more, left] of [
        [2, true, 3],
        [2, true, 1],
        [1, false, 0],
        [0, false, 0],
      ]) {
        assert.deepEqual(
          await outbox.prune({ olderThanMs: HOUR_MS, limit: 2 }),
          { pruned, more },
          "prune must remove no more than its limit, and say whether its batch was full",
        );
        assert.equal(
          (await session.probe.deliveries()).length,
          left,
          "prune must remove no more than its limit, and whole deliveries",
        );
        assert.equal((await session.probe.events()).length, left, "prune must remove whole events");
      }
    },
  },
  {
    id: "SETTLE-07",
    level: 1,
    intent: "a tenant prunes its own rows alone; admin names a tenant, or says all",
    async run(t) {
      const { session, outbox } = t;
      const admin = outbox.admin();
      const acme = outbox.tenant("acme");
      await delivered(t, 61);
      for (let n = 0; n < 2; n++) {
        const { rowId } = await session.transaction((tx) => acme.enqueue(tx.handle, event()));
        await acme.ack(await acme.claim({ worker: "w1" }));
        await age(t, rowId, "deliveredAt", 61);
      }
      const bound = { olderThanMs: HOUR_MS };
      assert.equal((await outbox.prune(bound)).pruned, 1, "a tenant must prune its own row");
      assert.equal((await session.probe.events()).length, 2, "a tenant must not prune another tenant's rows");
      await unchanged("a prune by admin of a tenant without rows", session, () =>
        admin.prune({ ...bound, tenant: "nobody" }),
      );
      await refused("a prune by admin that names no tenant", ["INVALID_ARGUMENT"], () =>
        Reflect.apply(admin.prune, admin, [bound]),
      );
      assert.equal(
        (await admin.prune({ ...bound, tenant: "acme", limit: 1 })).pruned,
        1,
        "admin must prune a tenant",
      );
      assert.equal((await admin.prune({ ...bound, all: true })).pruned, 1, "admin must prune all tenants");
    },
  },
  {
    id: "SETTLE-07",
    level: 1,
    intent: "claims go on while prune works, and lose nothing to it",
    async run(t) {
      const { session, outbox } = t;
      const old = await enqueuedMany(t, 40);
      await outbox.ack(await outbox.claim({ worker: "w1", limit: 40 }));
      for (const rowId of old) await age(t, rowId, "deliveredAt", 61);
      const due = await enqueuedMany(t, 40);
      const worker = await t.connect();
      const pruning = async (): Promise<number> => {
        let total = 0;
        for (;;) {
          const { pruned, more } = await outbox.prune({ olderThanMs: HOUR_MS, limit: 3 });
          total += pruned;
          assert.ok(total <= old.length, "prune must remove old rows alone while claims go on");
          if (!more) return total;
        }
      };
      const working = async (): Promise<readonly number[]> => {
        const held: number[] = [];
        for (;;) {
          const claims = await worker.outbox.claim({ worker: "w2", limit: 3 });
          if (claims.length === 0) return held;
          await worker.outbox.ack(claims);
          assert.ok(held.length < due.length, "claims must get every due row once while prune works");
          held.push(...claims.map(({ rowId }) => rowId));
        }
      };
      const [pruned, held] = await Promise.all([pruning(), working()]);
      assert.equal(pruned, old.length, "prune must remove every old row while claims go on");
      assert.deepEqual(
        [...held].sort(ascending),
        due,
        "claims must get every due row once while prune works",
      );
      const rows = await session.probe.deliveries();
      assert.deepEqual(
        rows.map(({ rowId, state }) => [rowId, state]),
        due.map((rowId) => [rowId, "delivered"]),
        "what was delivered just now must stay",
      );
    },
  },
];

const LONG_AGO = 1_000_000;

const ascending = (a: number, b: number): number => a - b;

async function age(
  { session }: CaseContext,
  rowId: number,
  column: "deliveredAt" | "quarantinedAt",
  minutes: number,
): Promise<void> {
  const then = (await session.probe.now()) - minutes * 60_000_000;
  await session.faults.overwriteDelivery(rowId, { [column]: then });
}

async function delivered(t: CaseContext, minutesAgo: number): Promise<number> {
  const claim = await enqueuedAndClaimed(t);
  await t.outbox.ack(claim);
  await age(t, claim.rowId, "deliveredAt", minutesAgo);
  return claim.rowId;
}

async function quarantined(t: CaseContext, minutesAgo: number): Promise<number> {
  const { rowId } = await enqueued(t);
  await t.outbox.quarantine(rowId, { reason: "gave up" });
  await age(t, rowId, "quarantinedAt", minutesAgo);
  return rowId;
}

/** A very old row of every state but delivered: age alone must not make a row prunable. */
async function everyOtherState(t: CaseContext): Promise<readonly number[]> {
  const { session, outbox } = t;
  const retried = await enqueuedAndClaimed(t);
  await outbox.retry(retried, { failure: { code: "E_OLD", detail: "long ago" } });
  await session.faults.overwriteDelivery(retried.rowId, { availableAt: LONG_AGO, failedAt: LONG_AGO });
  const expired = await claimed(outbox);
  await session.faults.overwriteDelivery(expired.rowId, { availableAt: LONG_AGO, expiresAt: LONG_AGO });
  const quarantinedRow = await enqueued(t);
  await outbox.quarantine(quarantinedRow.rowId, { reason: "gave up" });
  await session.faults.overwriteDelivery(quarantinedRow.rowId, {
    availableAt: LONG_AGO,
    quarantinedAt: LONG_AGO,
  });
  const pending = await enqueued(t);
  await session.faults.overwriteDelivery(pending.rowId, { availableAt: LONG_AGO });
  return [expired.rowId, quarantinedRow.rowId, pending.rowId];
}
