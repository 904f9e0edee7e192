/** What a relay tells about itself. */
import { callSafely } from "../call-safely.ts";
import type { Claim } from "../claim.ts";
import type { Failure } from "../driver.ts";
import { DovecoteError, isDovecoteError } from "../errors.ts";

/** How a claim ended. `confirmed: false`: the reply was lost, and the row was found as it should be (RELAY-04). */
interface Ended {
  readonly claim: Claim;
  readonly confirmed: boolean;
}

/**
 * Called as things happen, synchronously. What a hook throws is reported to `error`, and stops nothing. Claims carry
 * their token, which no log will print.
 */
export interface RelayHooks {
  /** Claimed, one call per claim; a suspect is one whose last holder let its lease expire. */
  claimed?(event: { readonly claim: Claim; readonly suspect: boolean }): void;
  /** Its handler starts. */
  started?(event: { readonly claim: Claim }): void;
  delivered?(event: Ended): void;
  retried?(event: Ended & { readonly delayMs: number; readonly failure: Failure }): void;
  released?(event: Ended & { readonly delayMs: number }): void;
  quarantined?(event: Ended & { readonly reason: string; readonly failure?: Failure }): void;
  /** The outcome of its handler, if there is one, was discarded; somebody else decides now (RELAY-03). */
  lostClaim?(event: { readonly claim: Claim; readonly error: DovecoteError }): void;
  /** One renewal of every claim in hand: how many live on, how many were lost. */
  renewed?(event: { readonly renewed: number; readonly lost: number }): void;
  /** Something failed that the relay goes on after: the database was not reachable, a hook threw. */
  error?(event: { readonly error: DovecoteError; readonly doing: string }): void;
  /** Nothing was due; asked again after `waitMs`, or earlier when woken. */
  idle?(event: { readonly waitMs: number }): void;
  /** Old events were removed. */
  pruned?(event: { readonly rows: number }): void;
  /** Idempotency keys and marks of the inbox that were worth nothing any more were removed. */
  swept?(event: { readonly rows: number }): void;
}

export class Hooks {
  readonly #hooks: RelayHooks;

  constructor(hooks: RelayHooks) {
    this.#hooks = hooks;
  }

  call<Name extends keyof RelayHooks>(name: Name, ...args: Parameters<NonNullable<RelayHooks[Name]>>): void {
    const hook = this.#hooks[name] as ((...given: unknown[]) => unknown) | undefined;
    if (hook === undefined) return;
    const failed = (thrown: unknown): void => {
      if (name !== "error") this.error(thrown, `the hook ${name}`);
    };
    callSafely(() => hook(...args), failed);
  }

  error(thrown: unknown, doing: string): void {
    const error = isDovecoteError(thrown)
      ? thrown
      : new DovecoteError("DRIVER_FAILURE", `${doing} failed`, { cause: thrown });
    this.call("error", { error, doing });
  }
}
