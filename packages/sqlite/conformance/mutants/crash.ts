import { override } from "@dovecote/conformance";
import type { SqliteMutant } from "./define.ts";

export const crash: readonly SqliteMutant[] = [
  {
    name: "enqueue-commits-before-the-caller",
    breaks: "CRASH-01",
    because: /a kill before the commit must leave no/,
    wrap: (driver, client) =>
      override(driver, {
        enqueue(tx, tenant, rows) {
          const outcomes = driver.enqueue(tx, tenant, rows);
          client.exec("commit; begin immediate");
          return outcomes;
        },
      }),
  },
];
