/** Sessions with settings of their own: whatever is set there, the same calls have the same effect. */
import assert from "node:assert/strict";
import { isDecoded } from "@dovecote/core";
import type { Case, CaseContext, Peer } from "../case.ts";
import type { ProbedDelivery } from "../define-harness.ts";
import { deliveryOf, refused, unchanged } from "./expect.ts";
import { claimed, enqueued, enqueuedMany, event } from "./given.ts";
import { FAILURE } from "./settling.ts";
import { assertTime, timed } from "./times.ts";
import { accepted, assertStored } from "./written.ts";

const MINUTE_MS = 60_000;
const LONG_AGO = 1_000_000;

export const hostileCases: readonly Case[] = [
  {
    id: "TX-01",
    level: 1,
    intent: "an enqueue over a session with hostile settings stores the same, together with the business row",
    async run(t) {
      const { session, outbox } = t;
      const there = await hostile(t);
      const bytes = Uint8Array.from({ length: 256 }, (_, byte) => byte);
      const given = event({
        id: "by\\slash",
        data: bytes,
        subject: "it's a \\ 'null' NULL",
        time: "2024-03-10T02:30:00.123+05:45",
      });
      const tx = await there.session.begin();
      await tx.writeBusinessRow("written with the event");
      const first = await accepted("an enqueue", () => there.outbox.enqueue(tx.handle, given));
      const many = await accepted("an enqueue of a batch", () =>
        there.outbox.enqueueMany(tx.handle, [event({ id: "null", data: null }), given]),
      );
      await tx.commit();
      assert.deepEqual(
        many.map(({ outcome }) => outcome),
        ["enqueued", "alreadyEnqueued"],
        "a batch must be answered as on any session",
      );
      await assertStored(session, "by a session with hostile settings", ["by\\slash", "null"]);
      assert.deepEqual(
        await session.probe.businessRows(),
        ["written with the event"],
        "the business row must commit with its event",
      );
      for (const reader of [outbox, there.outbox]) {
        const found = await accepted("inspect", () => reader.inspect(first.rowId));
        assert.ok(
          found.outcome === "found" && isDecoded(found.entry.event),
          "the event must be found and decoded",
        );
        const { subject, time, data } = found.entry.event;
        assert.deepEqual(
          [subject, time, data],
          [given.subject, given.time, bytes],
          "the event must come back as it was given",
        );
      }
    },
  },
  {
    id: "CLAIM-01",
    level: 1,
    intent:
      "never more than `limit` rows become claimed under hostile settings of the planner and stale statistics",
    async run(t) {
      const { session } = t;
      const few = await enqueuedMany(t, 3);
      const there = await hostile(t);
      // What the planner knows of was three rows.
      const many = [...few, ...(await enqueuedMany(t, 1000))];
      for (const [step, limit] of [3, 1, 7].entries()) {
        const worker = `pending-${step}`;
        await claimsExactly(
          t,
          worker,
          limit,
          await accepted("a claim", () => there.outbox.claim({ worker, limit, leaseMs: MINUTE_MS })),
        );
      }
      await session.faults.expireLeases(many);
      for (const [step, limit] of [1, 4].entries()) {
        const worker = `mixed-${step}`;
        await claimsExactly(
          t,
          worker,
          limit,
          await accepted("a claim", () => there.outbox.admin().claim({ worker, limit, stream: "orders" })),
        );
      }
    },
  },
  {
    id: "CLAIM-07",
    level: 1,
    intent: "a session with hostile settings claims in the same order",
    async run(t) {
      const { session } = t;
      const there = await hostile(t);
      const ids = await enqueuedMany(t, 8);
      await t.outbox.claim({ worker: "w1", limit: 3, leaseMs: MINUTE_MS });
      const now = await session.probe.now();
      // Expiry and availability run against the row ids.
      for (const [place, rowId] of ids.entries()) {
        const at = now - (place + 1) * LONG_AGO;
        await session.faults.overwriteDelivery(rowId, place < 3 ? { expiresAt: at } : { availableAt: at });
      }
      const claims = await accepted("a claim", () =>
        there.outbox.claim({ worker: "w2", limit: 6, leaseMs: MINUTE_MS }),
      );
      const expired = ids.slice(0, 3).toReversed();
      const pending = ids.slice(3).toReversed().slice(0, 3);
      assert.deepEqual(
        claims.map(({ rowId, reclaimed }) => [rowId, reclaimed]),
        [...expired.map((rowId) => [rowId, true]), ...pending.map((rowId) => [rowId, false])],
        "expired claims must come first, then pending rows, each by their time",
      );
      await unchanged("a settlement of its stale claims", session, async () => {
        const lost = claims.map(({ rowId }) => ({ rowId, attempt: 1, token: "0".repeat(32) }));
        const outcomes = await there.outbox.ack(lost);
        assert.ok(
          outcomes.every(({ outcome }) => outcome === "lostClaim"),
          "a wrong token must be refused there as well",
        );
      });
    },
  },
  {
    id: "LEASE-03",
    level: 1,
    intent: "a renewal over a session with hostile settings sets the expiry to database time plus the lease",
    async run(t) {
      const there = await hostile(t);
      await enqueuedMany(t, 2);
      const claims = await there.outbox.claim({ worker: "w1", leaseMs: MINUTE_MS, shared: true });
      const during = await timed(t.session, () =>
        there.outbox.renew(claims, { leaseMs: 5 * MINUTE_MS, shared: false }),
      );
      for (const [index, { rowId }] of claims.entries()) {
        const row = await deliveryOf(t.session, rowId);
        assertTime("the expiry after a renewal", row.expiresAt, during, 5 * MINUTE_MS);
        assert.equal(row.shared, false, "a renewal must make the claim unshared");
        const outcome = during.result[index];
        assert.ok(outcome?.outcome === "applied", "a renewal must apply");
        assert.equal(
          outcome.expiresAt.getTime(),
          Math.floor((row.expiresAt ?? 0) / 1000),
          "a renewal must answer what is stored",
        );
      }
    },
  },
  {
    id: "FENCE-08",
    level: 1,
    intent: "a mixed batch over a session with hostile settings is settled and answered as on any other",
    async run(t) {
      const { session } = t;
      const there = await hostile(t);
      const ids = await enqueuedMany(t, 5);
      const claims = await there.outbox.claim({ worker: "w1", leaseMs: MINUTE_MS });
      const [acked, retried, released, quarantined, stale] = claims;
      assert.ok(acked && retried && released && quarantined && stale, "five events must be claimable");
      const detail = "it's a \\ 'null' NULL {";
      const during = await timed(session, () =>
        there.outbox.settle([
          { action: "ack", claim: { ...stale, token: acked.token } },
          { action: "quarantine", claim: quarantined, reason: detail },
          { action: "release", claim: released, delayMs: MINUTE_MS },
          { action: "retry", claim: retried, failure: { ...FAILURE, detail }, delayMs: MINUTE_MS },
          { action: "ack", claim: acked },
        ]),
      );
      assert.deepEqual(
        during.result.map(({ outcome }) => outcome),
        ["lostClaim", "applied", "applied", "applied", "applied"],
        "outcomes must come in the order of the batch",
      );
      const rows = await session.probe.deliveries();
      assert.deepEqual(
        rows.map(({ rowId, state }) => [rowId, state]),
        ids.map((rowId, place) => [rowId, STATES[place]]),
        "each item must have its own effect",
      );
      const [done, again, later, poisoned] = rows;
      assertTime("the time of a delivery", done?.deliveredAt ?? null, during);
      assertTime("the availability after a retry", again?.availableAt ?? null, during, MINUTE_MS);
      assertTime("the availability after a release", later?.availableAt ?? null, during, MINUTE_MS);
      assertTime("the time of a quarantine", poisoned?.quarantinedAt ?? null, during);
      assert.deepEqual(
        [again?.failureDetail, poisoned?.quarantineReason],
        [detail, detail],
        "texts must be stored as they were given",
      );
    },
  },
  {
    id: "SETTLE-05",
    level: 1,
    intent: "redrive over a session with hostile settings takes the oldest quarantines first, up to its cap",
    async run(t) {
      const { session, outbox } = t;
      const there = await hostile(t);
      const ids = await enqueuedMany(t, 5);
      await outbox.quarantine(ids, { reason: "gave up" });
      const now = await session.probe.now();
      for (const [place, rowId] of ids.entries())
        await session.faults.overwriteDelivery(rowId, { quarantinedAt: now - (place + 1) * LONG_AGO });
      const oldest = ids.slice(-3).toReversed();
      const during = await timed(session, () => there.outbox.redrive({ limit: 2 }));
      assert.deepEqual(
        during.result.rowIds,
        oldest.slice(0, 2),
        "redrive must take the oldest quarantines first",
      );
      await accepted("the redrive of one row", () => there.outbox.redrive(oldest[2] ?? 0));
      const rows = await session.probe.deliveries();
      assert.deepEqual(
        rows.map(({ state }) => state),
        ["quarantined", "quarantined", "pending", "pending", "pending"],
        "redrive must keep to its cap",
      );
      const { availableAt, failureDetail, failedAt } = rows.at(-1) as ProbedDelivery;
      assertTime("the availability after a redrive", availableAt, during);
      assert.deepEqual(
        [failureDetail, failedAt],
        ["gave up", now - 5 * LONG_AGO],
        "redrive must keep the quarantine",
      );
      const tx = await there.session.begin();
      const { rowIds } = await there.outbox.redriveIn(tx.handle, {});
      await tx.commit();
      assert.deepEqual(
        rowIds,
        ids.slice(0, 2).toReversed(),
        "a redrive in a transaction must take what is left",
      );
    },
  },
  {
    id: "SETTLE-07",
    level: 1,
    intent: "prune over a session with hostile settings removes its limit of old rows, and nothing else",
    async run(t) {
      const { session, outbox } = t;
      const there = await hostile(t);
      const ids = await enqueuedMany(t, 6);
      await outbox.ack(await outbox.claim({ worker: "w1", limit: 4 }));
      for (const rowId of ids.slice(0, 3))
        await session.faults.overwriteDelivery(rowId, { deliveredAt: LONG_AGO });
      const bound = { olderThanMs: MINUTE_MS };
      assert.deepEqual(
        await there.outbox.prune({ ...bound, limit: 2 }),
        { pruned: 2, more: true },
        "prune must keep to its limit",
      );
      assert.deepEqual(
        await there.outbox.prune({ ...bound, limit: 2 }),
        { pruned: 1, more: false },
        "prune must remove what is old, and no more",
      );
      const left = ids.slice(3);
      assert.deepEqual(
        (await session.probe.deliveries()).map(({ rowId }) => rowId),
        left,
        "prune must leave every other delivery",
      );
      assert.deepEqual(
        (await session.probe.events()).map(({ rowId }) => rowId),
        left,
        "prune must remove events with their deliveries",
      );
    },
  },
  {
    id: "PAGE-01",
    level: 1,
    intent: "pages, lists and snapshots over a session with hostile settings show the same",
    async run(t) {
      const { outbox } = t;
      const there = await hostile(t);
      const ids = await enqueuedMany(t, 7);
      await outbox.ack(await claimed(outbox));
      await outbox.quarantine(ids.slice(2, 4), { reason: "gave up" });
      const seen: unknown[] = [];
      const expected: unknown[] = [];
      for (let after = 0; seen.length < ids.length; ) {
        const page = await accepted("a page", () => there.outbox.page({ after, limit: 2 }));
        expected.push(...(await outbox.page({ after, limit: 2 })).entries);
        assert.ok(page.cursor > after, "the cursor must rise with every page");
        seen.push(...page.entries);
        after = page.cursor;
      }
      assert.deepEqual(seen, expected, "a page must show what it shows on any session");
      for (const state of ["pending", "claimed", "delivered", "quarantined"] as const)
        assert.deepEqual(
          await there.outbox.list({ state }),
          await outbox.list({ state }),
          "a list must show what it shows on any session",
        );
      const shown: number[] = [];
      for await (const { rowId } of await there.outbox.snapshot({ pageSize: 2 })) shown.push(rowId);
      assert.deepEqual(shown, ids, "a snapshot must show every row");
    },
  },
  {
    id: "CLAIM-13",
    level: 1,
    intent: "stats over a session with hostile settings count the same",
    async run(t) {
      const { session, outbox } = t;
      const there = await hostile(t);
      const ids = await enqueuedMany(t, 6);
      await enqueued(t, event(), { delayMs: MINUTE_MS });
      const [, expired] = await outbox.claim({ worker: "w1", limit: 2, leaseMs: MINUTE_MS });
      await session.faults.expireLeases([expired?.rowId ?? 0]);
      await outbox.quarantine(ids[2] ?? 0, { reason: "gave up" });
      await session.faults.overwriteDelivery(ids[3] ?? 0, { attempts: 2_147_483_647 });
      const { oldestDueMs, ...counts } = await accepted("stats", () => there.outbox.stats());
      const one = { count: 1, exact: true };
      assert.deepEqual(
        counts,
        {
          due: { count: 2, exact: true },
          scheduled: one,
          claimed: one,
          expired: one,
          quarantined: one,
          exhausted: one,
        },
        "stats must count every row where it belongs",
      );
      assert.ok(oldestDueMs !== undefined && oldestDueMs >= 0, "the age of the oldest due row must be told");
      await refused("the redrive of a row that is not quarantined", ["ILLEGAL_TRANSITION"], () =>
        there.outbox.redrive(ids[3] ?? 0),
      );
    },
  },
];

/** In the order of the claims of FENCE-08's batch. */
const STATES = ["delivered", "pending", "pending", "quarantined", "claimed"] as const;

function hostile(t: CaseContext): Promise<Peer> {
  return t.connect({}, { hostile: true });
}

/** What became claimed is looked up in the table, and is what was answered. */
async function claimsExactly(
  { session }: CaseContext,
  worker: string,
  limit: number,
  answered: readonly { readonly rowId: number }[],
): Promise<void> {
  const held = (await session.probe.deliveries()).filter((row) => row.worker === worker);
  assert.equal(
    held.length,
    limit,
    `a claim with limit ${limit} must not claim more than that, nor fewer, but ${held.length} rows became claimed`,
  );
  assert.deepEqual(
    answered.map(({ rowId }) => rowId).toSorted((a, b) => a - b),
    held.map(({ rowId }) => rowId),
    "a claim must answer exactly the rows that became claimed",
  );
}
