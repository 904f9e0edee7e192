import { override } from "@dovecote/conformance";
import { DovecoteError, isDovecoteError } from "@dovecote/core";
import type { PostgresMutant } from "./define.ts";

export const crash: readonly PostgresMutant[] = [
  {
    name: "enqueue-commits-before-the-caller",
    breaks: "CRASH-01",
    because: /a kill before the commit must leave no/,
    wrap: (driver) =>
      override(driver, {
        enqueue: (_tx, tenant, rows) => driver.transaction((tx) => driver.enqueue(tx, tenant, rows)),
      }),
  },
  {
    name: "severed-claims-are-final",
    breaks: "CRASH-07",
    because: /must be retryable/,
    wrap: (driver) =>
      override(driver, {
        claim: (request) =>
          driver.claim(request).catch((error: unknown) => {
            if (!isDovecoteError(error)) throw error;
            throw new DovecoteError(error.code, error.message, { retryable: false });
          }),
      }),
  },
];
