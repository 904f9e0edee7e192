/** Where the relay takes its time from; tests bring their own. */
export interface Scheduler {
  /** Milliseconds of a clock that never goes back. */
  now(): number;
  /** Calls back once, after so many ms; the answer cancels it. */
  after(ms: number, callback: () => void): () => void;
  /** Lets timers and everything else of the process have their turn. */
  turn(): Promise<void>;
  /** Uniform in [0, 1). */
  random(): number;
}

/** The longest delay of a timer; a longer one would fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export const systemScheduler: Scheduler = {
  now: () => performance.now(),
  after(ms, callback) {
    const timer = setTimeout(callback, Math.min(Math.max(0, ms), LONGEST_TIMER_MS));
    return () => clearTimeout(timer);
  },
  turn: () =>
    new Promise((resolve) => {
      setImmediate(resolve);
    }),
  random: () => Math.random(),
};

/** Something that is waited for by one, and may happen before: a wake-up is never lost between two waits. */
export class Wake {
  #happened = false;
  #resolve: (() => void) | undefined;

  notify(): void {
    this.#happened = true;
    this.#resolve?.();
  }

  /** Until the next notification, one that came since the last wait included, or until so many ms have passed. */
  async wait(scheduler: Scheduler, ms: number = Number.POSITIVE_INFINITY): Promise<"notified" | "elapsed"> {
    let cancel: (() => void) | undefined;
    if (!this.#happened) {
      await new Promise<void>((resolve) => {
        this.#resolve = resolve;
        if (ms !== Number.POSITIVE_INFINITY) cancel = scheduler.after(ms, resolve);
      });
    }
    cancel?.();
    this.#resolve = undefined;
    const notified = this.#happened;
    this.#happened = false;
    return notified ? "notified" : "elapsed";
  }
}
