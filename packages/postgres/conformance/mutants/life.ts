import { override } from "@dovecote/conformance";
import type { PostgresMutant } from "./define.ts";

export const life: readonly PostgresMutant[] = [
  {
    name: "stats-sets-a-time-limit",
    breaks: "LIFE-04",
    because: /must leave the client its settings/,
    wrap: (driver, client) =>
      override(driver, {
        async stats(...request) {
          await client`set statement_timeout = '5s'`;
          return driver.stats(...request);
        },
      }),
  },
  {
    name: "close-ends-the-callers-client",
    breaks: "LIFE-04",
    because: /must be accepted/,
    wrap: (driver, client) =>
      override(driver, {
        async close() {
          await driver.close();
          await client.end({ timeout: 0 });
        },
      }),
  },
];
