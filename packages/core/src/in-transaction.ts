/** Answers of calls in the caller's transaction, which are there at once on a synchronous driver. */
import type { InTransaction } from "./driver.ts";

/** Applies `fn` to an answer, now or when it arrives. */
export function after<Sync extends boolean, T, U>(
  answer: InTransaction<Sync, T>,
  fn: (value: T) => U,
): InTransaction<Sync, U> {
  return (answer instanceof Promise ? answer.then(fn) : fn(answer as T)) as InTransaction<Sync, U>;
}

/** What can be awaited: a promise, and a query of a query builder that runs when somebody awaits it. */
export function isThenable(value: unknown): value is PromiseLike<unknown> {
  if ((typeof value !== "object" && typeof value !== "function") || value === null) return false;
  return typeof (value as { then?: unknown }).then === "function";
}
