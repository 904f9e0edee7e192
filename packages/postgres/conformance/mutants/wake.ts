import { override, sqlMutant } from "@dovecote/conformance";
import type { PostgresMutant } from "./define.ts";

const DAY_MS = 24 * 60 * 60 * 1000;

export const wake: readonly PostgresMutant[] = [
  {
    name: "listens-without-a-heartbeat",
    breaks: "WAKE-02",
    because: /a silent connection did not hear of must wake/,
    listener: { heartbeatMs: DAY_MS },
  },
  {
    name: "listens-again-without-a-catch-up",
    breaks: "WAKE-02",
    because: /must wake the subscriber/,
    wrap: (driver) =>
      override(driver, {
        async subscribe(listener) {
          // In the case the first call is of a commit, and the second one the catch-up.
          let calls = 0;
          return driver.subscribe(() => {
            calls += 1;
            if (calls !== 2) listener();
          });
        },
      }),
  },
  sqlMutant(
    "sql-notifies-nobody",
    "WAKE-01",
    /must wake the subscriber/,
    "enqueue",
    "pg_notify($4::text, '')",
    "$4::text",
  ),
];
