import { override } from "@dovecote/conformance";
import type { SqliteMutant } from "./define.ts";

export const life: readonly SqliteMutant[] = [
  {
    name: "a-claim-sets-the-busy-timeout",
    breaks: "LIFE-04",
    because: /must leave the client its settings/,
    wrap: (driver, client) =>
      override(driver, {
        async claim(...request) {
          client.pragma("busy_timeout = 1234");
          return driver.claim(...request);
        },
      }),
  },
  {
    name: "close-closes-the-callers-client",
    breaks: "LIFE-04",
    because: /must be accepted/,
    wrap: (driver, client) =>
      override(driver, {
        async close() {
          await driver.close();
          client.close();
        },
      }),
  },
];
