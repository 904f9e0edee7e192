/** What becomes of a claim, by what its handler did. */
import { checkOptions, checkWhole, orDefault } from "../arguments.ts";
import { BOUNDS } from "../bounds.ts";
import type { Failure } from "../driver.ts";
import { captureFailure } from "./capture.ts";

const BRAND: unique symbol = Symbol.for("dovecote.relay.verdict") as never;

/** What a handler throws to say what becomes of its event. Works across two copies of the package. */
abstract class Verdict extends Error {
  constructor(message: string) {
    super(message);
    Object.defineProperty(this, BRAND, { value: true });
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

  /** @throws `INVALID_ARGUMENT` */
  constructor(given: { readonly delayMs: number; readonly reason?: string }) {
    const options = checkOptions(given, ["delayMs", "reason"], "options");
    super(typeof options.reason === "string" && options.reason !== "" ? options.reason : "to be tried later");
    this.delayMs = checkWhole(options.delayMs, BOUNDS.delayMs, "options.delayMs");
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
    super(typeof reason === "string" && reason !== "" ? reason : "quarantined by its handler");
  }
}

/**
 * Thrown by a handler: given back unused, as if it had not been claimed. Counts no attempt.
 *
 * @example
 * throw new Release({ delayMs: 1000 });
 */
export class Release extends Verdict {
  override readonly name = "Release";
  /** 0 to 30 days, default 0. */
  readonly delayMs: number;

  /** @throws `INVALID_ARGUMENT` */
  constructor(given: { readonly delayMs?: number } = {}) {
    super("released by its handler");
    const options = checkOptions(given, ["delayMs"], "options");
    this.delayMs = checkWhole(orDefault(options.delayMs, 0), BOUNDS.delayMs, "options.delayMs");
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
  const verdict = asVerdict(thrown);
  if (verdict?.name === "Release") return { action: "release", delayMs: verdict.delayMs };
  const failure = captureFailure(thrown, secret);
  if (verdict?.name === "Quarantine") return { action: "quarantine", reason: failure.detail };
  if (budget.used >= budget.max) {
    const reason = `given up after ${budget.used} attempts, of ${budget.max}`;
    return { action: "quarantine", reason, failure };
  }
  return { action: "retry", delayMs: verdict?.delayMs ?? budget.delayMs(), failure };
}

function asVerdict(thrown: unknown): RetryLater | Release | Quarantine | undefined {
  try {
    if (typeof thrown !== "object" || thrown === null) return undefined;
    if ((thrown as { [BRAND]?: unknown })[BRAND] !== true) return undefined;
    return thrown as RetryLater | Release | Quarantine;
  } catch {
    return undefined; // a proxy, or a getter that throws
  }
}
