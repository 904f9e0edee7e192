/** Commands that add rows, take them away, and end leases behind the driver's back. */
import assert from "node:assert/strict";
import * as fc from "fast-check";
import { anyRow, command, latest, type ModelCommand } from "./command.ts";
import {
  change,
  type Given,
  store as keep,
  type Stream,
  storedAs,
  type Tenant,
  visibleRows,
} from "./state.ts";
import { FAR_MS } from "./store.ts";

const HOUR_MS = 3600 * 1000;

export const tenants: fc.Arbitrary<Tenant> = fc.constantFrom("a", "b");
export const streams: fc.Arbitrary<Stream> = fc.constantFrom("x", "y");

/** Few identities, so that they come again. */
const given: fc.Arbitrary<Given> = fc.record({
  id: fc.constantFrom("1", "2", "3", "4", "5", "6", "7"),
  stream: streams,
  data: fc.constantFrom(1, 1, 1, 2),
});

const enqueue: fc.Arbitrary<ModelCommand> = fc
  .record({
    tenant: tenants,
    events: fc.array(given, { minLength: 1, maxLength: 3 }),
    later: fc.constantFrom(false, false, true),
    undo: fc.constantFrom(false, false, false, true),
  })
  .map(enqueueCommand);

interface Enqueue {
  readonly tenant: Tenant;
  readonly events: readonly Given[];
  readonly later: boolean;
  readonly undo: boolean;
}

export function enqueueCommand({ tenant, events, later, undo }: Enqueue): ModelCommand {
  return command({
    text: `enqueue(${tenant}, ${JSON.stringify(events)}${later ? ", later" : ""}${undo ? ", rolled back" : ""})`,
    async run(model, store) {
      const tx = await store.session.begin();
      const outcomes = await store.tenant(tenant).enqueueMany(
        tx.handle,
        events.map(({ id, stream, data }) => ({
          ...{ id, data, source: "/model", type: "model" },
          stream: store.stream(stream),
        })),
        { delayMs: later ? FAR_MS : 0 },
      );
      await (undo ? tx.rollback() : tx.commit());
      const before = new Map(model.rows);
      const { highestRowId } = model;
      for (const [index, event] of events.entries()) {
        const outcome = outcomes[index];
        const { rowId = 0 } = outcome ?? {};
        const expected = storedAs(model, tenant, event) ?? { outcome: "enqueued", rowId };
        assert.deepEqual(outcome, { ...expected, id: event.id }, "an enqueue must answer as the model does");
        if (expected.outcome !== "enqueued") continue;
        assert.ok(rowId > highestRowId, `row id ${rowId} must be above ${highestRowId}, the highest so far`);
        assert.ok(!model.rows.has(rowId), `row id ${rowId} must be drawn once`);
        keep(model, { ...event, rowId, tenant, scheduled: later });
        model.highestRowId = Math.max(model.highestRowId, rowId);
      }
      if (!undo) return;
      model.rows.clear();
      for (const [rowId, row] of before) model.rows.set(rowId, row);
      // An id that was rolled back may be drawn again.
      model.highestRowId = highestRowId;
    },
  });
}

const expire: fc.Arbitrary<ModelCommand> = fc
  .uniqueArray(fc.nat(9), { minLength: 1, maxLength: 4 })
  .map((places) =>
    command({
      text: `expireLeases(${places})`,
      possible: ({ rows }) => [...rows.values()].some(({ state }) => state === "claimed"),
      async run(model, store) {
        const claimed = visibleRows(model, "admin").filter(({ state }) => state === "claimed");
        const rows = places.map((place) => latest(claimed, place));
        await store.session.faults.expireLeases(rows.map(({ rowId }) => rowId));
        for (const row of rows) change(model, row, { expired: true });
      },
    }),
  );

const prune: fc.Arbitrary<ModelCommand> = fc
  .record({
    tenant: tenants,
    aged: fc.array(fc.nat(9), { minLength: 1, maxLength: 4 }),
    quarantined: fc.boolean(),
  })
  .map(({ tenant, aged, quarantined }) =>
    command({
      text: `prune(${tenant}${quarantined ? ", quarantined" : ""}) after the rows ${aged} had aged`,
      possible: anyRow,
      async run(model, store) {
        const longAgo = (await store.session.probe.now()) - 2 * HOUR_MS * 1000;
        const all = visibleRows(model, "admin");
        const rows = new Set(aged.map((place) => latest(all, place)));
        for (const { rowId, state } of rows) {
          if (state !== "delivered" && state !== "quarantined") continue;
          const column = state === "delivered" ? "deliveredAt" : "quarantinedAt";
          await store.session.faults.overwriteDelivery(rowId, { [column]: longAgo });
        }
        const stored = await store.deliveries();
        const old = (at: number | null = null): boolean => at !== null && at <= longAgo;
        const gone = visibleRows(model, tenant).filter(({ rowId }) => {
          const { deliveredAt, quarantinedAt } = stored.get(rowId) ?? {};
          return old(deliveredAt) || (quarantined && old(quarantinedAt));
        });
        const report = await store.tenant(tenant).prune({ olderThanMs: HOUR_MS, quarantined });
        assert.deepEqual(
          report,
          { pruned: gone.length, more: false },
          "a prune must remove as many rows as in the model",
        );
        for (const { rowId } of gone) model.rows.delete(rowId);
      },
    }),
  );

export const enqueueCommands: readonly fc.Arbitrary<ModelCommand>[] = [
  enqueue,
  enqueue,
  enqueue,
  expire,
  expire,
  prune,
];
