import { type ClaimRef, DovecoteError, isDovecoteError, type RenewOptions } from "@dovecote/core";
import type { Outbox } from "../../case.ts";
import type { AnyDriver } from "../../define-harness.ts";
import { breaking, breakingOutbox } from "./breaking.ts";
import type { SemanticMutant } from "./define.ts";

export const errors: readonly SemanticMutant[] = [
  breaking("errors-as-the-database-throws-them", "ERR-01", /with a DovecoteError/, (driver) =>
    failing(driver, (error) => new Error(error.message)),
  ),
  breaking(
    "errors-with-the-row-in-their-cause",
    "ERR-01",
    /must not keep detail/,
    (driver) =>
      failing(driver, (error) => {
        if (error.cause instanceof Error) Object.assign(error.cause, { detail: "Failing row contains …" });
        return error;
      }),
    { durable: true },
  ),
  breaking("every-error-is-retryable", "ERR-02", /must not be retryable/, (driver) =>
    failing(driver, ({ code, message }) => new DovecoteError(code, message, { retryable: true })),
  ),
  breaking("no-error-is-retryable", "ERR-02", /must be retryable/, (driver) =>
    failing(driver, ({ code, message }) => new DovecoteError(code, message, { retryable: false })),
  ),
  breaking("full-disk-not-told-apart", "ERR-02", /must be refused with STORE_FULL/, (driver) =>
    failing(driver, (error) =>
      error.code === "STORE_FULL" ? new DovecoteError("DRIVER_FAILURE", error.message) : error,
    ),
  ),
  breakingOutbox(
    "limits-clamped-in-silence",
    "ERR-03",
    /must be refused with INVALID_ARGUMENT/,
    (outbox) => ({
      claim: (options) =>
        outbox.claim({
          ...options,
          ...(typeof options?.limit === "number" && { limit: Math.min(1000, Math.max(1, options.limit)) }),
        }),
    }),
  ),
  breakingOutbox("arguments-checked-after-a-look", "ERR-03", /before any I\/O/, (outbox) => ({
    async claim(options) {
      await outbox.stats();
      return outbox.claim(options);
    },
  })),
  breakingOutbox("claims-show-their-token", "ERR-04", /must hold no token/, (outbox) => ({
    claim: async (options) =>
      (await outbox.claim(options)).map((claim) => ({ ...claim, text: claim.token.reveal() })),
  })),
  breakingOutbox("errors-name-the-token", "ERR-04", /must hold no token/, (outbox) => ({
    renew: (async (claim: ClaimRef, options?: RenewOptions) => {
      try {
        return await outbox.renew(claim, options);
      } catch (error) {
        if (!isDovecoteError(error)) throw error;
        throw new DovecoteError(error.code, `${error.message}: ${String(claim.token)}`);
      }
    }) as Outbox["renew"],
  })),
];

/** The driver's own errors, made into others; thrown or rejected, as they came. */
function failing(driver: AnyDriver, change: (error: DovecoteError) => unknown): Partial<AnyDriver> {
  const changed = (error: unknown): unknown => (isDovecoteError(error) ? change(error) : error);
  const fail = (error: unknown): never => {
    throw changed(error);
  };
  return {
    enqueue(tx, tenant, rows) {
      try {
        const answer = driver.enqueue(tx, tenant, rows);
        return answer instanceof Promise ? answer.catch(fail) : answer;
      } catch (error) {
        return fail(error);
      }
    },
    claim: (request) => driver.claim(request).catch(fail),
    renew: (tenant, items) => driver.renew(tenant, items).catch(fail),
    settle: (tenant, items) => driver.settle(tenant, items).catch(fail),
    prune: (request) => driver.prune(request).catch(fail),
    page: (request) => driver.page(request).catch(fail),
  };
}
