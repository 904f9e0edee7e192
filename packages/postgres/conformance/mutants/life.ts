import { override } from "@dovecote/conformance";
import type { PostgresMutant } from "./define.ts";

export const life: readonly PostgresMutant[] = [
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
