/** Exponential backoff with full jitter: whoever failed together does not come back together. */
import type { Scheduler } from "./scheduler.ts";

/** Beyond every bound there is; a base of 0 times infinity is no number. */
const LARGEST_EXPONENT = 40;

export interface Backoff {
  /** The upper bound after the first failure, in ms; it doubles with every further one. */
  readonly baseMs: number;
  /** The upper bound never exceeds this, in ms. */
  readonly maxMs: number;
}

/** Whole ms in [0, min(maxMs, baseMs × 2^(failures − 1))]. Any number of failures is fine. */
export function backoffMs({ baseMs, maxMs }: Backoff, failures: number, { random }: Scheduler): number {
  const bound = Math.min(maxMs, baseMs * 2 ** Math.min(LARGEST_EXPONENT, Math.max(0, failures - 1)));
  return Math.floor(random() * (bound + 1));
}
