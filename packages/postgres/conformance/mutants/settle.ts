import { override, sqlMutant } from "@dovecote/conformance";
import type { PostgresMutant } from "./define.ts";

export const settle: readonly PostgresMutant[] = [
  sqlMutant(
    "sql-redrive-keeps-budget",
    "SETTLE-05",
    /forgiven|budget/,
    "redrive",
    "forgiven = attempts,",
    "",
  ),
  sqlMutant(
    "sql-prune-leaves-the-event",
    "SETTLE-07",
    /delivered and old|the event with its delivery/,
    "pruneDelivered",
    "where row_id = any (array(select event_row_id from removed))",
    "where false and row_id = any (array(select event_row_id from removed))",
  ),
  {
    name: "redrive-on-another-connection",
    breaks: "SETTLE-05",
    because: /open transaction must not be visible|rolled back/,
    wrap: (driver) => override(driver, { redriveIn: (_tx, tenant, rowId) => driver.redrive(tenant, rowId) }),
  },
];
