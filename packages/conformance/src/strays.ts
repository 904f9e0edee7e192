/**
 * Errors that nobody caught while a case ran, such as a driver's rejection that it forgot to handle. They are the
 * case's failure: left alone, they would end the process and the run with it.
 */
export interface Strays {
  /** Aborted by the first of them. */
  readonly signal: AbortSignal;
  stop(): void;
}

export function watchForStrays(): Strays {
  const controller = new AbortController();
  const on = (what: string) => (error: unknown) => {
    const reason = error instanceof Error ? error.message : String(error);
    controller.abort(new Error(`${what} while the case ran: ${reason}`, { cause: error }));
  };
  const onRejection = on("a rejection that nobody handled");
  const onException = on("an exception that nobody caught");
  process.on("unhandledRejection", onRejection);
  process.on("uncaughtException", onException);
  return {
    signal: controller.signal,
    stop() {
      process.off("unhandledRejection", onRejection);
      process.off("uncaughtException", onException);
    },
  };
}
