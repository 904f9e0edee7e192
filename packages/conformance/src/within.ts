/** Waiting, but not for ever: a promise that never settles is left behind, and so is one that nobody waits for any more. */

export class TimeLimitError extends Error {
  override readonly name = "TimeLimitError";
}

export interface Patience {
  readonly limitMs: number;
  /** Ends the waiting early, with its reason. */
  readonly signal?: AbortSignal | undefined;
}

export async function within<T>(
  what: string,
  { limitMs, signal }: Patience,
  promise: PromiseLike<T>,
): Promise<T> {
  const ended = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => ended.reject(new TimeLimitError(`${what} did not settle within ${limitMs / 1000} s`)),
    limitMs,
  );
  const onAbort = (): void => ended.reject(signal?.reason);
  if (signal?.aborted) onAbort();
  signal?.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([promise, ended.promise]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
  }
}
