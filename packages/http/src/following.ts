/** Steps that a synchronous transaction takes at once, and an asynchronous one when the step before is done. */
import { isThenable } from "@dovecote/core";

/** At once where the first step answers at once. */
export function following<T, U>(
  first: () => T | Promise<T>,
  next: (answer: T) => U | Promise<U>,
  failed: (error: unknown) => never,
): U | Promise<U> {
  try {
    const answer = first();
    return isThenable(answer) ? Promise.resolve(answer).then(next).catch(failed) : next(answer as T);
  } catch (error) {
    return failed(error);
  }
}
