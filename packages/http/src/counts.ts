/** How requests fared, for an operator's metrics. */
import type { ProblemCode } from "./problem.ts";

/**
 * `created` and `released` were handled, `replayed` was answered from its record, `unkeyed` passed without a key,
 * `unprotected` passed because keys could not be checked, `aborted` lost its client before its body was whole, and the rest
 * were answered with that problem.
 */
export type Counted =
  | "created"
  | "released"
  | "replayed"
  | "unkeyed"
  | "unprotected"
  | "aborted"
  | ProblemCode;

/** Since the gate was made. What is not there did not happen. */
export type CountsByOutcome = Readonly<Partial<Record<Counted, number>>>;

export class Counts {
  readonly #counts = new Map<Counted, number>();

  add(outcome: Counted): void {
    this.#counts.set(outcome, (this.#counts.get(outcome) ?? 0) + 1);
  }

  snapshot(): CountsByOutcome {
    return Object.fromEntries(this.#counts);
  }
}
