/**
 * Wake-ups by LISTEN, on a connection of its own: a pooler that lends connections by the transaction forgets a LISTEN, and
 * a pool may close whatever connection it was on.
 *
 * A connection that dies silently looks like one on which nothing happens. So it is asked for an answer every few seconds,
 * and replaced where none comes; after each replacement listeners are woken, since what was sent meanwhile is lost
 * (WAKE-02).
 */
import { createHash } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { callSafely, DovecoteError, Listeners } from "@dovecote/core";
import { toDovecoteError } from "./errors.ts";
import { type ClientOptions, listen } from "./listening-connection.ts";

export interface ListenerOptions {
  /** Of the client whose settings the connection has, from its `options`. */
  readonly client: ClientOptions;
  readonly channel: string;
  /** Hears of a connection that was lost or refused, before it is made again. */
  readonly onError?: (error: DovecoteError) => void;
  readonly heartbeatMs?: number;
}

/** With the time for an answer, 5 s: how late a silent death is noticed, at most. The contract says 15 s. */
const HEARTBEAT_MS = 5000;
/** Before the connection is made again, jittered; doubled by each failure up to the longer one. */
const PAUSE_MS = { first: 50, longest: 1000 } as const;

/** Of one schema: identifiers end at 63 bytes, so that its name does not always fit. */
export function channelOf(schema: string): string {
  return `dovecote_${createHash("sha256").update(schema).digest("hex").slice(0, 32)}`;
}

export class Listener {
  readonly #options: ListenerOptions;
  readonly #listeners = new Listeners();
  /** Ends the connection; there is one while somebody listens. */
  #end: AbortController | undefined;
  /** Settles when the first LISTEN was answered, or refused. */
  #listening: Promise<void> | undefined;
  #closed = false;

  constructor(options: ListenerOptions) {
    this.#options = options;
  }

  /**
   * Resolves once the server listens; while a connection that was lost is made again at once, since its listeners are
   * called when it is.
   *
   * @throws whatever the first connection fails with; a later one is made again until it holds.
   */
  async subscribe(call: () => void): Promise<() => Promise<void>> {
    if (this.#closed) throw closed();
    const remove = this.#listeners.add(call);
    const unsubscribe = (): void => {
      if (remove() && this.#listeners.size === 0) this.#stop();
    };
    this.#listening ??= this.#start();
    try {
      await this.#listening;
    } catch (error) {
      unsubscribe();
      throw error;
    }
    return async () => unsubscribe();
  }

  close(): void {
    this.#closed = true;
    this.#listeners.clear();
    this.#stop();
  }

  #stop(): void {
    this.#end?.abort();
    this.#end = undefined;
    this.#listening = undefined;
  }

  #start(): Promise<void> {
    const end = new AbortController();
    this.#end = end;
    const first = Promise.withResolvers<void>();
    end.signal.addEventListener("abort", () => first.reject(closed()), { once: true });
    first.promise.catch(() => {}); // whoever subscribed is told
    void this.#keepListening(end, first);
    return first.promise;
  }

  async #keepListening(end: AbortController, first: PromiseWithResolvers<void>): Promise<void> {
    const { client, channel, heartbeatMs = HEARTBEAT_MS, onError } = this.#options;
    const { signal } = end;
    let listened = false;
    let pauseMs: number = PAUSE_MS.first;
    const onListening = (): void => {
      pauseMs = PAUSE_MS.first;
      // The first time nobody has missed anything.
      if (listened) this.#listeners.ring();
      listened = true;
      first.resolve();
    };
    const onNotify = (): void => this.#listeners.ring();
    while (!signal.aborted) {
      try {
        await listen({ client, channel, heartbeatMs, end: signal, onListening, onNotify });
      } catch (error) {
        if (signal.aborted) return;
        const failure = toDovecoteError(error, "subscribe");
        if (!listened) {
          first.reject(failure);
          if (this.#end === end) this.#stop();
          return;
        }
        if (onError !== undefined) callSafely(() => onError(failure));
        await delay(pauseMs * (0.5 + Math.random() / 2), undefined, { signal }).catch(() => {});
        pauseMs = Math.min(2 * pauseMs, PAUSE_MS.longest);
      }
    }
  }
}

function closed(): DovecoteError {
  return new DovecoteError("CLOSED", "subscribe: it was closed meanwhile");
}
