import assert from "node:assert/strict";
import type { RedriveOptions } from "@dovecote/core";
import type { Case, Peer } from "../case.ts";
import type { Session } from "../define-harness.ts";
import { deliveryOf, refused, unchanged } from "./expect.ts";
import { claimed, enqueued, enqueuedAndClaimed, enqueuedMany, event, expired } from "./given.ts";
import { FAILURE, SETTLINGS } from "./settling.ts";
import { assertTime, timed } from "./times.ts";

const MINUTE_US = 60_000_000;

export const redriveCases: readonly Case[] = [
  {
    id: "SETTLE-05",
    level: 1,
    intent: "redrive makes a quarantined row pending, with a new budget and its quarantine as last failure",
    async run(t) {
      const { session, outbox } = t;
      const first = await enqueuedAndClaimed(t);
      await outbox.retry(first, { failure: FAILURE });
      const claim = await claimed(outbox);
      await outbox.quarantine(claim, { reason: "the card was refused" });
      const quarantinedAt = (await session.probe.now()) - MINUTE_US;
      await session.faults.overwriteDelivery(claim.rowId, { quarantinedAt });
      const during = await timed(session, () => outbox.redrive(claim.rowId));
      const row = await deliveryOf(session, claim.rowId);
      assert.equal(row.state, "pending", "redrive must make a quarantined row pending");
      assertTime("the availability after a redrive", row.availableAt, during);
      assert.equal(row.attempts, 2, "redrive must keep the attempt");
      assert.equal(row.forgiven, row.attempts, "redrive must give a new budget: forgiven is the attempt");
      assert.equal(row.failureDetail, "the card was refused", "redrive must keep the quarantine's reason");
      assert.equal(row.failedAt, quarantinedAt, "redrive must keep the quarantine's time");
      assert.equal(row.failureCode, "quarantined", "a redriven quarantine must be found by its failure code");
      assert.deepEqual(
        [row.quarantinedAt, row.quarantineReason, row.token],
        [null, null, null],
        "redrive must clear the quarantine",
      );
      const next = await claimed(outbox);
      assert.equal(next.attempt - next.forgiven, 1, "a redriven row must start with an unused budget");
    },
  },
  {
    id: "SETTLE-05",
    level: 1,
    intent: "the redrive of a row that is not quarantined is illegal, and changes nothing",
    async run(t) {
      const { session, outbox } = t;
      const refuse = async (what: string, rowId: number, state: string) => {
        const error = await unchanged(what, session, () =>
          refused(what, ["ILLEGAL_TRANSITION"], () => outbox.redrive(rowId)),
        );
        assert.equal(error.state, state, `${what} must name the state`);
      };
      for (const { name, state, one } of SETTLINGS) {
        if (state === "quarantined") continue;
        const claim = await enqueuedAndClaimed(t);
        await one(outbox, claim);
        await refuse(`the redrive of a row that is not quarantined, after ${name}`, claim.rowId, state);
      }
      const { rowId: pending } = await enqueued(t);
      await refuse("the redrive of a row that was never quarantined", pending, "pending");
      const live = await claimed(outbox);
      await refuse("the redrive of a row that is claimed, not quarantined", live.rowId, "claimed");
      await session.faults.expireLeases([live.rowId]);
      await refuse("the redrive of an expired claim, not quarantined", live.rowId, "claimed");
      await unchanged("the redrive of no row", session, () =>
        refused("the redrive of no row", ["NOT_FOUND"], () => outbox.redrive(live.rowId + 1_000_000)),
      );
      await outbox.quarantine(await claimed(outbox), { reason: "gave up" });
      await unchanged("the redrive of another tenant's row", session, () =>
        refused("the redrive of another tenant's row", ["NOT_FOUND"], () =>
          outbox.tenant("acme").redrive(live.rowId),
        ),
      );
      await outbox.redrive(live.rowId);
      await refuse("a second redrive of a row that is no longer quarantined", live.rowId, "pending");
    },
  },
  {
    id: "SETTLE-05",
    level: 1,
    intent: "redrive by filter takes the oldest quarantines first, up to its cap, and nothing else",
    async run(t) {
      const { session, outbox } = t;
      await expired(t);
      const { rowId: lastBystander } = await enqueued(t);
      const before = await session.probe.deliveries();
      // The order of the quarantines is the opposite of that of the rows.
      const rows = await quarantinedRows(t, 5);
      const oldestFirst = [...rows].reverse();
      const first = await outbox.redrive({ limit: 2 });
      assert.deepEqual(
        first,
        { rowIds: oldestFirst.slice(0, 2), dryRun: false },
        "redrive must answer the rows of its cap, oldest quarantine first",
      );
      const states = await statesOf(session, oldestFirst);
      assert.deepEqual(
        states,
        ["pending", "pending", "quarantined", "quarantined", "quarantined"],
        "redrive must redrive no more than its cap",
      );
      const during = await timed(session, () => outbox.redrive({}));
      assert.deepEqual(
        during.result.rowIds,
        oldestFirst.slice(2),
        "the next redrive must take the rows left",
      );
      const row = await deliveryOf(session, oldestFirst[4] ?? 0);
      assertTime("the availability after a redrive by filter", row.availableAt, during);
      assert.equal(
        row.forgiven,
        row.attempts,
        "redrive by filter must give a new budget: forgiven is the attempt",
      );
      assert.equal(row.failureDetail, "gave up", "redrive by filter must keep the quarantine's reason");
      assert.deepEqual((await outbox.redrive({})).rowIds, [], "nothing must be left to redrive");
      const after = await session.probe.deliveries();
      assert.deepEqual(
        after.filter(({ rowId }) => rowId <= lastBystander),
        before,
        "redrive by filter must leave rows that are not quarantined byte-identical",
      );
    },
  },
  {
    id: "SETTLE-05",
    level: 1,
    intent: "redrive by filter redrives a hundred rows unless it is told a number",
    async run(t) {
      const { session, outbox } = t;
      await enqueuedMany(t, 101);
      await outbox.quarantine(await outbox.claim({ worker: "w1", limit: 101 }), { reason: "gave up" });
      assert.equal((await outbox.redrive({})).rowIds.length, 100, "redrive must be capped by default");
      const left = (await session.probe.deliveries()).filter(({ state }) => state === "quarantined");
      assert.equal(left.length, 1, "redrive must redrive no more than its default cap");
    },
  },
  {
    id: "SETTLE-05",
    level: 1,
    intent: "a dry run answers what would be redriven, and changes nothing",
    async run(t) {
      const { session, outbox } = t;
      await quarantinedRows(t, 4);
      const dry = await unchanged("a dry run of redrive", session, () =>
        outbox.redrive({ limit: 3, dryRun: true }),
      );
      assert.equal(dry.dryRun, true, "a dry run must say that it is one");
      const { rowIds, dryRun } = await outbox.redrive({ limit: 3 });
      assert.equal(dryRun, false, "a redrive must say that it is no dry run");
      assert.deepEqual(dry.rowIds, rowIds, "a dry run must answer exactly what the redrive then redrives");
    },
  },
  {
    id: "SETTLE-05",
    level: 1,
    intent: "redrive by filter is exact about stream, failure code and tenant",
    async run(t) {
      const { session, outbox } = t;
      const acme = outbox.tenant("acme");
      const rowOf = async (stream: string, code: string): Promise<number> => {
        const { rowId } = await enqueued(t, event({ stream }));
        await outbox.quarantine(await claimed(outbox), { reason: "gave up", failure: { code, detail: "-" } });
        return rowId;
      };
      const wanted = await rowOf("orders", "E_CARD");
      const otherCode = await rowOf("orders", "E_ADDRESS");
      const otherStream = await rowOf("invoices", "E_CARD");
      const prefix = await rowOf("orders-eu", "E_CARD_EU");
      const foreign = await session.transaction((tx) => acme.enqueue(tx.handle, event()));
      await acme.quarantine(foreign.rowId, { reason: "gave up" });
      const redriven = async (filter: RedriveOptions) => (await outbox.redrive(filter)).rowIds;
      assert.deepEqual(
        await redriven({ stream: "orders", failureCode: "E_CARD" }),
        [wanted],
        "redrive by stream and failure code must take exactly the rows with both",
      );
      assert.deepEqual(await redriven({ stream: "orders" }), [otherCode], "redrive by stream must be exact");
      assert.deepEqual(
        await redriven({ failureCode: "E_CARD" }),
        [otherStream],
        "redrive by code must be exact",
      );
      assert.deepEqual(await redriven({}), [prefix], "a tenant's redrive must be about its own rows");
      assert.equal(
        (await deliveryOf(session, foreign.rowId)).state,
        "quarantined",
        "another tenant's row must stay quarantined",
      );
      const { rowIds } = await outbox.admin().redrive({ tenant: "acme" });
      assert.deepEqual(rowIds, [foreign.rowId], "admin must redrive the rows of the tenant it names");
    },
  },
];

/** Quarantined rows in ascending row id; the later a row, the older its quarantine. */
export async function quarantinedRows(t: Peer, count: number): Promise<readonly number[]> {
  const { session, outbox } = t;
  const rowIds: number[] = [];
  for (let n = 0; n < count; n++) {
    const { rowId } = await enqueued(t);
    await outbox.quarantine(rowId, { reason: "gave up" });
    const quarantinedAt = (await session.probe.now()) - (n + 1) * MINUTE_US;
    await session.faults.overwriteDelivery(rowId, { quarantinedAt });
    rowIds.push(rowId);
  }
  return rowIds;
}

export async function statesOf(session: Session, rowIds: readonly number[]): Promise<readonly string[]> {
  const rows = await session.probe.deliveries();
  return rowIds.map((id) => rows.find(({ rowId }) => rowId === id)?.state ?? "gone");
}
