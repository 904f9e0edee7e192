import { override, sqlMutant } from "@dovecote/conformance";
import type { SqliteMutant } from "./define.ts";

export const settle: readonly SqliteMutant[] = [
  sqlMutant(
    "sql-redrive-keeps-budget",
    "SETTLE-05",
    /forgiven|budget/,
    "redrive",
    "forgiven = attempts,",
    "",
  ),
  sqlMutant(
    "sql-redrive-any-state",
    "SETTLE-05",
    /quarantined|redrive/,
    "redrive",
    "and state = 'quarantined'",
    "",
  ),
  sqlMutant(
    "sql-prune-leaves-the-event",
    "SETTLE-07",
    /the event with its delivery/,
    "pruneEvent",
    "where row_id = :rowId",
    "where row_id = :rowId and false",
  ),
  {
    name: "redrive-commits-by-itself",
    breaks: "SETTLE-05",
    because: /open transaction must not be visible|rolled back/,
    wrap: (driver, client) =>
      override(driver, {
        redriveIn(tx, tenant, rowId) {
          const outcome = driver.redriveIn(tx, tenant, rowId);
          client.exec("commit; begin immediate");
          return outcome;
        },
      }),
  },
];
