import assert from "node:assert/strict";
import type { DeliveryState } from "@dovecote/core";
import type { Case, CaseContext } from "../case.ts";
import type { ProbedDelivery } from "../define-harness.ts";
import { claimed, enqueued, enqueuedAndClaimed } from "./given.ts";
import { withoutSchema } from "./schema-report.ts";
import { FAILURE } from "./settling.ts";

type Columns = Partial<Omit<ProbedDelivery, "rowId">>;

const TOKEN = "ab".repeat(16);
const TIME = 1_700_000_000_000_000;

/** One wrong column each: what no delivery in the state may be changed to. */
const INVALID: Readonly<Record<DeliveryState, readonly Columns[]>> = {
  pending: [
    { token: TOKEN },
    { worker: "w1" },
    { expiresAt: TIME },
    { token: TOKEN, worker: "w1", expiresAt: TIME },
    { deliveredAt: TIME },
    { quarantinedAt: TIME },
    { quarantineReason: "no reason" },
    { quarantinedAt: TIME, quarantineReason: "no reason" },
    { state: "claimed" },
    { state: "delivered" },
    { state: "quarantined" },
    { state: "claimed", token: TOKEN, worker: "w1" },
    { state: "claimed", token: TOKEN, expiresAt: TIME },
    { state: "claimed", worker: "w1", expiresAt: TIME },
    { state: "quarantined", quarantinedAt: TIME },
    { state: "quarantined", quarantineReason: "no time" },
  ],
  claimed: [
    { token: null },
    { worker: null },
    { expiresAt: null },
    { deliveredAt: TIME },
    { quarantinedAt: TIME },
    { quarantineReason: "no reason" },
    { state: "pending" },
    { state: "delivered" },
    { state: "quarantined" },
    { state: "delivered", deliveredAt: TIME },
    { state: "quarantined", quarantinedAt: TIME, quarantineReason: "with its claim" },
  ],
  delivered: [
    { deliveredAt: null },
    { token: TOKEN },
    { worker: "w1" },
    { expiresAt: TIME },
    { quarantinedAt: TIME },
    { quarantineReason: "no reason" },
    { state: "pending" },
    { state: "claimed" },
    { state: "quarantined" },
  ],
  quarantined: [
    { quarantinedAt: null },
    { quarantineReason: null },
    { token: TOKEN },
    { worker: "w1" },
    { expiresAt: TIME },
    { deliveredAt: TIME },
    { state: "pending" },
    { state: "claimed" },
    { state: "delivered" },
  ],
};

export const schemaStateCases: readonly Case[] = [
  {
    id: "SCHEMA-07",
    level: 1,
    intent: "the database itself refuses columns that do not belong to a state, and states that do not exist",
    async run(t) {
      if (!t.capabilities.durable) return withoutSchema(t);
      const rows = await oneOfEachState(t);
      for (const state of Object.keys(INVALID) as DeliveryState[]) {
        for (const columns of INVALID[state]) await refusedByDatabase(t, state, rows[state], columns);
        const unheardOf = { state: "unheard-of" as DeliveryState };
        await refusedByDatabase(t, state, rows[state], unheardOf);
      }
    },
  },
  {
    id: "SCHEMA-07",
    level: 1,
    intent: "the database itself refuses half a failure",
    async run(t) {
      if (!t.capabilities.durable) return withoutSchema(t);
      const { rowId } = await enqueued(t);
      await refusedByDatabase(t, "pending", rowId, { failureCode: FAILURE.code });
      await refusedByDatabase(t, "pending", rowId, { failureDetail: FAILURE.detail });
      await t.outbox.retry(await claimed(t.outbox), { failure: FAILURE, delayMs: 60_000 });
      await refusedByDatabase(t, "pending", rowId, { failureCode: null });
      await refusedByDatabase(t, "pending", rowId, { failureDetail: null });
    },
  },
];

async function oneOfEachState(t: CaseContext): Promise<Readonly<Record<DeliveryState, number>>> {
  const { outbox } = t;
  const delivered = await enqueuedAndClaimed(t);
  await outbox.ack(delivered);
  const quarantined = await enqueuedAndClaimed(t);
  await outbox.quarantine(quarantined, { reason: "gave up" });
  const held = await enqueuedAndClaimed(t);
  const pending = await enqueued(t);
  return {
    pending: pending.rowId,
    claimed: held.rowId,
    delivered: delivered.rowId,
    quarantined: quarantined.rowId,
  };
}

async function refusedByDatabase(
  { session }: CaseContext,
  state: DeliveryState,
  rowId: number,
  columns: Columns,
): Promise<void> {
  const what = `a ${state} delivery changed to ${JSON.stringify(columns)}`;
  const before = await session.probe.deliveries();
  await assert.rejects(
    () => session.faults.overwriteDelivery(rowId, columns),
    `${what} must be refused by the database itself`,
  );
  assert.deepEqual(await session.probe.deliveries(), before, `${what} must leave every row byte-identical`);
}
