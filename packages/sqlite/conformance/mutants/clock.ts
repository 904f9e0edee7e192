import { sqlMutant } from "@dovecote/conformance";
import type { SqliteMutant } from "./define.ts";

export const clock: readonly SqliteMutant[] = [
  // As if the time had been read when the transaction began.
  sqlMutant(
    "sql-enqueue-at-an-earlier-time",
    "CLOCK-03",
    /of an old transaction/,
    "insertDelivery",
    ":now + :delay",
    ":now - 40000 + :delay",
  ),
];
