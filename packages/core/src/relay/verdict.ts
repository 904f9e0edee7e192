/** What becomes of a claim, by what its handler did. */
import { checkBoolean, checkOptions, checkWhole, orDefault } from "../arguments.ts";
import { BOUNDS } from "../bounds.ts";
import type { Failure } from "../driver.ts";
import { BRAND, type VerdictKind, verdictKind } from "./brand.ts";
import { captureFailure } from "./capture.ts";

/** What a handler throws to say what becomes of its event. Works across two copies of the package. */
abstract class Verdict extends Error {
  constructor(kind: VerdictKind, message: string) {
    super(message);
    Object.defineProperty(this, BRAND, { value: kind });
  }
}

/**
 * Thrown by a handler: tried again, after a delay of the handler's choice. Counts as an attempt.
 *
 * @example
 * throw new RetryLater({ delayMs: 60_000, reason: "rate limited" });
 */
export class RetryLater extends Verdict {
  override readonly name = "RetryLater";
  /** 0 to 30 days. */
  readonly delayMs: number;
  /** Where the relay's own backoff is longer, that one. */
  readonly atLeast: boolean;

  /** @throws `INVALID_ARGUMENT` */
  constructor(given: { readonly delayMs: number; readonly reason?: string; readonly atLeast?: boolean }) {
    const options = checkOptions(given, ["delayMs", "reason", "atLeast"], "options");
    const reason =
      typeof options.reason === "string" && options.reason !== "" ? options.reason : "to be tried later";
    super("retryLater", reason);
    this.delayMs = checkWhole(options.delayMs, BOUNDS.delayMs, "options.delayMs");
    this.atLeast = checkBoolean(orDefault(options.atLeast, false), "options.atLeast");
  }
}

/**
 * Thrown by a handler: never tried again, until an operator redrives it.
 *
 * @example
 * throw new Quarantine("the customer does not exist");
 */
export class Quarantine extends Verdict {
  override readonly name = "Quarantine";

  constructor(reason: string) {
    super("quarantine", typeof reason === "string" && reason !== "" ? reason : "quarantined by its handler");
  }
}

const RELEASED_FOR_MS = 1000;

/**
 * Thrown by a handler: given back unused, as if it had not been claimed. Counts no attempt.
 *
 * @example
 * throw new Release({ delayMs: 1000 });
 */
export class Release extends Verdict {
  override readonly name = "Release";
  /** 0 to 30 days, default 1000: one that comes back at once would be claimed again at once. */
  readonly delayMs: number;

  /** @throws `INVALID_ARGUMENT` */
  constructor(given: { readonly delayMs?: number } = {}) {
    super("release", "released by its handler");
    const options = checkOptions(given, ["delayMs"], "options");
    this.delayMs = checkWhole(orDefault(options.delayMs, RELEASED_FOR_MS), BOUNDS.delayMs, "options.delayMs");
  }
}

/** How a claim is to be settled. */
export type Ending =
  | { readonly action: "ack" }
  | { readonly action: "retry"; readonly delayMs: number; readonly failure: Failure }
  | { readonly action: "release"; readonly delayMs: number }
  | { readonly action: "quarantine"; readonly reason: string; readonly failure?: Failure };

export interface Budget {
  /** Attempts used, this one included. */
  readonly used: number;
  readonly max: number;
  /** How long to wait before the next one. */
  delayMs(): number;
}

/** Nothing that is thrown can keep a claim from being settled (RELAY-06). */
export function endingOf(thrown: unknown, budget: Budget, secret: string): Ending {
  const kind = verdictKind(thrown);
  if (kind === "release") return { action: "release", delayMs: (thrown as Release).delayMs };
  const failure = captureFailure(thrown, secret);
  if (kind === "quarantine") return { action: "quarantine", reason: failure.detail };
  if (budget.used >= budget.max) {
    const reason = `given up after ${budget.used} attempts, of ${budget.max}`;
    return { action: "quarantine", reason, failure };
  }
  const { delayMs, atLeast } = kind === "retryLater" ? (thrown as RetryLater) : { delayMs: 0, atLeast: true };
  return { action: "retry", delayMs: atLeast ? Math.max(delayMs, budget.delayMs()) : delayMs, failure };
}
