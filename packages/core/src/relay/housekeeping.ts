/** Removes from time to time what is worth nothing any more, one bounded batch after another. */
import type { Hooks } from "./hooks.ts";
import type { RelayPlan } from "./options.ts";
import { type Scheduler, Wake } from "./scheduler.ts";

/** One batch; `busy` if another relay is at it. */
type Batch = { readonly removed: number; readonly more: boolean } | "busy";

/** What can be removed. */
export interface Removing {
  /** Delivered events. One relay at a time. */
  prune(olderThanMs: number): Promise<Batch>;
  /**
   * Idempotency keys, and marks of the inbox. Any number of relays at a time: each skips what others are at. `undefined`:
   * the driver has none.
   */
  readonly sweep: (() => Promise<Batch>) | undefined;
}

export class Housekeeping {
  readonly #store: Removing;
  readonly #retention: NonNullable<RelayPlan["retention"]>;
  readonly #scheduler: Scheduler;
  readonly #hooks: Hooks;
  readonly #stop = new Wake();
  #stopped = false;
  #working: Promise<void> | undefined;

  constructor(
    store: Removing,
    retention: NonNullable<RelayPlan["retention"]>,
    scheduler: Scheduler,
    hooks: Hooks,
  ) {
    this.#store = store;
    this.#retention = retention;
    this.#scheduler = scheduler;
    this.#hooks = hooks;
  }

  start(): void {
    this.#working = this.#work();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#stop.notify();
    await this.#working;
  }

  async #work(): Promise<void> {
    const { everyMs } = this.#retention;
    while (!this.#stopped) {
      // Relays that were started together do not meet every time.
      await this.#stop.wait(this.#scheduler, everyMs * (0.75 + this.#scheduler.random() / 2));
      if (!this.#stopped) await this.#tidy();
    }
  }

  async #tidy(): Promise<void> {
    const { deliveredMs, keys } = this.#retention;
    if (deliveredMs !== undefined) {
      await this.#remove("prune", "pruned", () => this.#store.prune(deliveredMs));
    }
    const { sweep } = this.#store;
    if (keys && sweep !== undefined) await this.#remove("sweep", "swept", sweep);
  }

  async #remove(doing: string, hook: "pruned" | "swept", next: () => Promise<Batch>): Promise<void> {
    try {
      for (let more = true; more && !this.#stopped; ) {
        const batch = await next();
        if (batch === "busy") return;
        if (batch.removed > 0) this.#hooks.call(hook, { rows: batch.removed });
        more = batch.more;
        await this.#scheduler.turn();
      }
    } catch (error) {
      this.#hooks.error(error, doing);
    }
  }
}
