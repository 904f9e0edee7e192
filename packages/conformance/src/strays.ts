/**
 * Errors that nobody caught while a case ran, such as a driver's rejection that it forgot to handle. They are the
 * case's failure: left alone, they would end the process and the run with it.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { setImmediate } from "node:timers/promises";
import { TimeLimitError } from "./within.ts";

/** The case whose work an error comes from; none for what was begun outside of all. */
const origin = new AsyncLocalStorage<AbortController>();

export class Strays {
  #current: AbortController | undefined;
  readonly #abandoned = new WeakSet<AbortController>();
  readonly #onRejection = this.#listener("a rejection that nobody handled");
  readonly #onException = this.#listener("an exception that nobody caught");

  constructor() {
    process.on("unhandledRejection", this.#onRejection);
    process.on("uncaughtException", this.#onException);
  }

  /** Runs a case. The signal is aborted by the first error that nobody caught, and the case fails with it. */
  async during(body: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const current = new AbortController();
    this.#current = current;
    try {
      await origin.run(current, () => body(current.signal));
      // Rejections are reported once everything that was ready has run.
      await setImmediate();
      current.signal.throwIfAborted();
    } catch (error) {
      if (error instanceof TimeLimitError || current.signal.aborted) this.#abandoned.add(current);
      throw error;
    } finally {
      this.#current = undefined;
    }
  }

  stop(): void {
    process.off("unhandledRejection", this.#onRejection);
    process.off("uncaughtException", this.#onException);
  }

  #listener(what: string): (error: unknown) => void {
    return (error) => {
      const from = origin.getStore();
      // What was left behind half-done is not the next case's failure: it was reported when it was abandoned.
      if (from !== undefined && this.#abandoned.has(from)) return;
      const reason = error instanceof Error ? error.message : String(error);
      this.#current?.abort(new Error(`${what} while the case ran: ${reason}`, { cause: error }));
    };
  }
}
