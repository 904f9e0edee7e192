import { override, sqlMutant } from "@dovecote/conformance";
import { quoteIdentifier } from "../../src/schema.ts";
import { type PostgresMutant, readThenInsert } from "./define.ts";

export const identity: readonly PostgresMutant[] = [
  sqlMutant(
    "sql-enqueue-reads-then-inserts",
    "ID-04",
    /a loser must not be refused with DRIVER_FAILURE/,
    "enqueue",
    ...readThenInsert,
  ),
  {
    name: "row-ids-counted-from-what-is-left",
    breaks: "ID-08",
    because: /row id \d+ must be above/,
    wrap: (driver, client, schema) =>
      override(driver, {
        async prune(request) {
          const pruned = await driver.prune(request);
          const events = `${quoteIdentifier(schema)}.dovecote_events`;
          await client.unsafe(`select setval(pg_get_serial_sequence('${events}', 'row_id'),
            coalesce(max(row_id), 0) + 1, false) from ${events}`);
          return pruned;
        },
      }),
  },
];
