import type { Micros } from "./driver.ts";

/** A database time as a `Date` for people. Rounds down to the millisecond; never goes back into a predicate. */
export function toDate(micros: Micros): Date {
  return new Date(Math.floor(micros / 1000));
}
