import { override, sqlMutant } from "@dovecote/conformance";
import type { SqliteMutant } from "./define.ts";

export const identity: readonly SqliteMutant[] = [
  sqlMutant(
    "sql-insert-ignores-rivals",
    "ID-04",
    /a loser must not be refused with DRIVER_FAILURE/,
    "insertEvent",
    "on conflict (tenant_id, source, event_id) do nothing",
    "",
  ),
  {
    name: "row-ids-counted-from-what-is-left",
    breaks: "ID-08",
    because: /row id \d+ must be above/,
    wrap: (driver, client) =>
      override(driver, {
        async prune(request) {
          const pruned = await driver.prune(request);
          // As a primary key without AUTOINCREMENT would be.
          client.exec("delete from sqlite_sequence where name = 'dovecote_events'");
          return pruned;
        },
      }),
  },
];
