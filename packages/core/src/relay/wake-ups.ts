/** The relay's subscription to wake-ups: in the background, and again when it fails. Polling finds everything (WAKE-01). */
import type { Hooks } from "./hooks.ts";
import { type Scheduler, Wake } from "./scheduler.ts";

export type Subscribe = (listener: () => void) => Promise<{ close(): Promise<void> }>;

/** Before it is tried again. */
const PAUSE_MS = 5000;

export class WakeUps {
  readonly #subscribe: Subscribe;
  readonly #ring: () => void;
  readonly #scheduler: Scheduler;
  readonly #hooks: Hooks;
  readonly #stop = new Wake();
  #stopped = false;
  #running: Promise<void> | undefined;

  constructor(subscribe: Subscribe, ring: () => void, scheduler: Scheduler, hooks: Hooks) {
    this.#subscribe = subscribe;
    this.#ring = ring;
    this.#scheduler = scheduler;
    this.#hooks = hooks;
  }

  start(): void {
    this.#running = this.#run();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#stop.notify();
    await this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#stopped) {
      const subscription = await this.#subscribed();
      // What was committed before it listened has woken nobody.
      if (subscription !== undefined) this.#ring();
      await this.#stop.wait(this.#scheduler, subscription === undefined ? PAUSE_MS : undefined);
      await subscription?.close().catch((error: unknown) => this.#hooks.error(error, "unsubscribe"));
    }
  }

  async #subscribed(): Promise<{ close(): Promise<void> } | undefined> {
    try {
      return await this.#subscribe(this.#ring);
    } catch (error) {
      this.#hooks.error(error, "subscribe");
      return undefined;
    }
  }
}
