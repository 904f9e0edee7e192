/** Removes old rows from time to time, one bounded batch after another, one relay at a time. */
import type { Hooks } from "./hooks.ts";
import type { RelayPlan } from "./options.ts";
import { type Scheduler, Wake } from "./scheduler.ts";

/** One batch; `busy` if another relay is at it. */
export type Prune = (
  olderThanMs: number,
) => Promise<{ readonly pruned: number; readonly more: boolean } | "busy">;

export class Housekeeping {
  readonly #prune: Prune;
  readonly #retention: NonNullable<RelayPlan["retention"]>;
  readonly #scheduler: Scheduler;
  readonly #hooks: Hooks;
  readonly #stop = new Wake();
  #stopped = false;
  #working: Promise<void> | undefined;

  constructor(
    prune: Prune,
    retention: NonNullable<RelayPlan["retention"]>,
    scheduler: Scheduler,
    hooks: Hooks,
  ) {
    this.#prune = prune;
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
    try {
      for (let more = true; more && !this.#stopped; ) {
        const batch = await this.#prune(this.#retention.deliveredMs);
        if (batch === "busy") return;
        if (batch.pruned > 0) this.#hooks.call("pruned", { rows: batch.pruned });
        more = batch.more;
        await this.#scheduler.turn();
      }
    } catch (error) {
      this.#hooks.error(error, "prune");
    }
  }
}
