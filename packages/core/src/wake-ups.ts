/** A subscription in the background, made again when it fails: whoever has it polls, and finds everything (WAKE-01). */
import { type Scheduler, Wake } from "./relay/scheduler.ts";

export type Subscribe = (listener: () => void) => Promise<{ close(): Promise<void> }>;

export interface WakeUpsOptions {
  readonly subscribe: Subscribe;
  /** Events may have become due. */
  readonly ring: () => void;
  readonly scheduler: Scheduler;
  readonly onError: (error: unknown, doing: string) => void;
}

/** Before it is tried again. */
const PAUSE_MS = 5000;

export class WakeUps {
  readonly #options: WakeUpsOptions;
  readonly #stop = new Wake();
  #stopped = false;
  #subscribing = false;
  #running: Promise<void> | undefined;

  constructor(options: WakeUpsOptions) {
    this.#options = options;
  }

  start(): void {
    this.#running = this.#run();
  }

  /** Resolves when nobody is called any more. A subscription that is under way is ended when it is there. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#stop.notify();
    if (!this.#subscribing) await this.#running;
  }

  async #run(): Promise<void> {
    const { scheduler, onError } = this.#options;
    while (!this.#stopped) {
      const subscription = await this.#subscribed();
      // What was committed before it listened has woken nobody.
      if (subscription !== undefined) this.#ring();
      await this.#stop.wait(scheduler, subscription === undefined ? PAUSE_MS : undefined);
      await subscription?.close().catch((error: unknown) => onError(error, "unsubscribe"));
    }
  }

  async #subscribed(): Promise<{ close(): Promise<void> } | undefined> {
    this.#subscribing = true;
    try {
      return await this.#options.subscribe(() => this.#ring());
    } catch (error) {
      if (!this.#stopped) this.#options.onError(error, "subscribe");
      return undefined;
    } finally {
      this.#subscribing = false;
    }
  }

  #ring(): void {
    if (!this.#stopped) this.#options.ring();
  }
}
