import { sqlMutant } from "@dovecote/conformance";
import type { PostgresMutant } from "./define.ts";

export const clock: readonly PostgresMutant[] = [
  sqlMutant(
    "sql-enqueue-at-begin",
    "CLOCK-03",
    /in an old transaction/,
    "enqueue",
    "decode(data, 'hex'), clock_timestamp(), identity_digest",
    "decode(data, 'hex'), now(), identity_digest",
  ),
  sqlMutant(
    "sql-redrive-at-begin",
    "CLOCK-03",
    /a redrive in an old transaction/,
    "redrive",
    "available_at = clock_timestamp()",
    "available_at = now()",
  ),
  sqlMutant(
    "sql-time-in-the-zone-of-the-session",
    "CLOCK-04",
    /instant that is stored/,
    "pageTenant",
    "extract(epoch from d.available_at)",
    "extract(epoch from d.available_at::timestamp)",
  ),
];
