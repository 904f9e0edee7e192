import { override } from "@dovecote/conformance";
import type { SqliteMutant } from "./define.ts";

export const life: readonly SqliteMutant[] = [
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
