/** Commands of an operator: redrives, quarantines without a claim, and everything that only reads. */
import assert from "node:assert/strict";
import * as fc from "fast-check";
import { oneByOne, via } from "./claim-commands.ts";
import { anyRow, command, latest, type ModelCommand } from "./command.ts";
import { streams, tenants } from "./enqueue-commands.ts";
import { quarantinePending, redrive, visibleRows } from "./state.ts";

const optionalStream = fc.option(streams, { nil: undefined });

/** On one row, by its id. */
const byRow: fc.Arbitrary<ModelCommand> = fc
  .record({
    via,
    among: fc.constantFrom("fit", "fit", "all"),
    place: fc.nat(9),
    what: fc.constantFrom("redrive", "redrive", "quarantine"),
  })
  .map(({ via, among, place, what }) =>
    command({
      text: `${what}(${via}, row ${place} of ${among})`,
      possible: anyRow,
      async run(model, store) {
        const all = visibleRows(model, "admin");
        const fit = all.filter(({ state }) => state === (what === "redrive" ? "quarantined" : "pending"));
        const { rowId } = latest(among === "fit" && fit.length > 0 ? fit : all, place);
        const handle = store.via(via);
        const reason = "by an operator";
        const expected =
          what === "redrive" ? redrive(model, via, rowId) : quarantinePending(model, via, rowId, reason);
        const outcomes = await oneByOne([
          () => (what === "redrive" ? handle.redrive(rowId) : handle.quarantine(rowId, { reason })),
        ]);
        assert.deepEqual(outcomes, [expected], `${what} of one row must be judged as in the model`);
      },
    }),
  );

const redriveMany: fc.Arbitrary<ModelCommand> = fc
  .record({
    tenant: tenants,
    stream: optionalStream,
    failureCode: fc.constantFrom(undefined, undefined, "A", "quarantined"),
    limit: fc.integer({ min: 1, max: 3 }),
    dryRun: fc.constantFrom(false, false, true),
  })
  .map(({ tenant, stream, failureCode, limit, dryRun }) =>
    command({
      text: `redrive(${tenant}, ${JSON.stringify({ stream, failureCode, limit, dryRun })})`,
      async run(model, store) {
        const matching = visibleRows(model, tenant, stream).filter(
          (row) =>
            row.state === "quarantined" && (failureCode === undefined || row.failureCode === failureCode),
        );
        const rows = (await store.inOrderOf("quarantinedAt", matching)).slice(0, limit);
        const rowIds = rows.map(({ rowId }) => rowId);
        const report = await store.tenant(tenant).redrive({
          ...{ limit, dryRun },
          ...(stream !== undefined && { stream: store.stream(stream) }),
          ...(failureCode !== undefined && { failureCode }),
        });
        assert.deepEqual(report, { rowIds, dryRun }, "a redrive must take the rows that the model takes");
        if (!dryRun) for (const rowId of rowIds) redrive(model, tenant, rowId);
      },
    }),
  );

const read: fc.Arbitrary<ModelCommand> = fc
  .record({
    tenant: tenants,
    stream: optionalStream,
    place: fc.nat(9),
    limit: fc.integer({ min: 1, max: 4 }),
  })
  .map(({ tenant, stream, place, limit }) =>
    command({
      text: `page(${tenant}, ${JSON.stringify({ stream, after: place, limit })})`,
      possible: anyRow,
      async run(model, store) {
        const { rowId: after } = latest(visibleRows(model, "admin"), place);
        const expected = visibleRows(model, tenant, stream)
          .filter(({ rowId }) => rowId > after)
          .slice(0, limit)
          .map(({ rowId, id, state, attempt }) => ({ rowId, id, state, attempt }));
        const options = { after, limit, ...(stream !== undefined && { stream: store.stream(stream) }) };
        const { entries, cursor } = await store.tenant(tenant).page(options);
        assert.deepEqual(
          entries.map(({ rowId, event, delivery: { state, attempt } }) => ({
            ...{ rowId, state, attempt },
            id: "id" in event ? event.id : undefined,
          })),
          expected,
          "a page must show the rows of the model",
        );
        assert.equal(cursor, expected.at(-1)?.rowId ?? after, "a cursor must stand at the last row");
      },
    }),
  );

const stats: fc.Arbitrary<ModelCommand> = tenants.map((tenant) =>
  command({
    text: `stats(${tenant})`,
    async run(model, store) {
      const rows = visibleRows(model, tenant);
      const count = (matches: (row: (typeof rows)[number]) => boolean) => ({
        count: rows.filter(matches).length,
        exact: true,
      });
      const { oldestDueMs, ...counts } = await store.tenant(tenant).stats();
      const due = count(({ state, scheduled }) => state === "pending" && !scheduled);
      assert.deepEqual(
        counts,
        {
          due,
          scheduled: count(({ state, scheduled }) => state === "pending" && scheduled),
          claimed: count(({ state, expired }) => state === "claimed" && !expired),
          expired: count(({ expired }) => expired),
          quarantined: count(({ state }) => state === "quarantined"),
          exhausted: count(() => false),
        },
        "stats must count the rows of the model",
      );
      assert.equal(oldestDueMs !== undefined, due.count > 0, "there is an oldest due row if one is due");
    },
  }),
);

export const operatorCommands: readonly fc.Arbitrary<ModelCommand>[] = [
  byRow,
  byRow,
  byRow,
  redriveMany,
  read,
  stats,
];
