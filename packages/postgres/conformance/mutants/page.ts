import { override, sqlMutant } from "@dovecote/conformance";
import type { StoredRow, TailPage } from "@dovecote/core";
import type { PostgresMutant } from "./define.ts";

export const page: readonly PostgresMutant[] = [
  {
    name: "snapshot-keeps-its-connection",
    breaks: "PAGE-03",
    because: /must be answered/,
    wrap: (driver) =>
      override(driver, {
        snapshot: async () => ({ ...(await driver.snapshot()), close: async () => {} }),
      }),
  },
  {
    name: "tail-by-high-water-mark",
    breaks: "PAGE-04",
    because: /must wait for row|must yield/,
    wrap: (driver) =>
      override(driver, {
        tail: async (request) => asTail(await driver.page(request)),
      }),
  },
  {
    name: "tail-behind-a-transaction-id-horizon",
    breaks: "PAGE-04",
    because: /must wait for row|must yield/,
    wrap: (driver, client, schema) =>
      override(driver, {
        // Transaction ids are drawn at the first write, row ids later: an older transaction may draw the higher one.
        async tail(request) {
          const settled = await client<{ rowId: number }[]>`select row_id::float8 as "rowId"
            from ${client(schema)}.dovecote_events
            where xmin::text::bigint < pg_snapshot_xmin(pg_current_snapshot())::text::bigint`;
          const final = new Set(settled.map(({ rowId }) => rowId));
          return asTail((await driver.page(request)).filter(({ rowId }) => final.has(rowId)));
        },
      }),
  },
  sqlMutant(
    "sql-tail-that-waits-for-nobody",
    "PAGE-04",
    /must wait for row|must yield|must report/,
    "writers",
    "mode = 'RowExclusiveLock'",
    "mode = 'AccessExclusiveLock'",
  ),
  {
    name: "snapshot-cursor-above-what-is-open",
    breaks: "PAGE-06",
    because: /the tail must yield row/,
    wrap: (driver) =>
      override(driver, {
        async snapshot() {
          const snapshot = await driver.snapshot();
          return { ...snapshot, cursor: snapshot.lastRowId };
        },
      }),
  },
];

function asTail(rows: readonly StoredRow[]): TailPage {
  const lastRowId = rows.at(-1)?.rowId ?? 0;
  return { rows, upTo: lastRowId, lastRowId, heldBackMs: 0 };
}
