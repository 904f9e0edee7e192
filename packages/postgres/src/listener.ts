/**
 * Wake-ups by LISTEN, on a connection of its own: a pooler that lends connections by the transaction forgets a LISTEN, and
 * a pool may close whatever connection it was on.
 *
 * A connection that dies silently looks like one on which nothing happens. So it is asked for an answer every few seconds,
 * and replaced where none comes; after each replacement listeners are woken, since what was sent meanwhile is lost
 * (WAKE-02).
 */
import { createHash } from "node:crypto";
import { connect, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { DovecoteError, Listeners } from "@dovecote/core";
import postgresClient from "postgres";
import { toDovecoteError } from "./errors.ts";

/** What postgres.js made of the options of a client: hosts and ports are lists there, and it takes them back. */
export type ClientOptions = object & {
  readonly host?: unknown;
  readonly port?: unknown;
  readonly path?: unknown;
  readonly socket?: unknown;
};

export interface ListenerOptions {
  /** Of the client whose settings the connection has, from its `options`. */
  readonly client: ClientOptions;
  readonly channel: string;
  /** Hears of a connection that was lost or refused, before it is made again. */
  readonly onError?: (error: DovecoteError) => void;
  readonly heartbeatMs?: number;
}

/** With the time for an answer: how late a silent death is noticed, at most. The contract says 15 s. */
const HEARTBEAT_MS = 5000;
const ANSWER_MS = 5000;
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
  /** Which of several hosts is next. */
  #attempt = 0;

  constructor(options: ListenerOptions) {
    this.#options = options;
  }

  /**
   * Resolves once the server listens.
   *
   * @throws whatever the first connection fails with; a later one is made again until it holds.
   */
  async subscribe(call: () => void): Promise<() => Promise<void>> {
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
    end.signal.addEventListener("abort", () => first.reject(closed()));
    first.promise.catch(() => {}); // whoever subscribed is told
    void this.#keepListening(end, first);
    return first.promise;
  }

  async #keepListening(end: AbortController, first: PromiseWithResolvers<void>): Promise<void> {
    const { onError } = this.#options;
    let listened = false;
    let pauseMs: number = PAUSE_MS.first;
    while (!end.signal.aborted) {
      try {
        await this.#live(end.signal, () => {
          pauseMs = PAUSE_MS.first;
          // The first time nobody has missed anything.
          if (listened) this.#listeners.ring();
          listened = true;
          first.resolve();
        });
      } catch (error) {
        if (end.signal.aborted) return;
        const failure = toDovecoteError(error, "subscribe");
        if (!listened) {
          first.reject(failure);
          if (this.#end === end) this.#stop();
          return;
        }
        report(onError, failure);
        await delay(pauseMs * (0.5 + Math.random() / 2), undefined, { signal: end.signal }).catch(() => {});
        pauseMs = Math.min(2 * pauseMs, PAUSE_MS.longest);
      }
    }
  }

  /** One connection, from LISTEN to its end. Rejects when it is lost, and resolves when it was to end. */
  async #live(end: AbortSignal, onListening: () => void): Promise<void> {
    const { channel, heartbeatMs = HEARTBEAT_MS } = this.#options;
    const lost = Promise.withResolvers<never>();
    lost.promise.catch(() => {}); // whatever waits is told
    const ended = new Promise<"ended">((resolve) => {
      end.addEventListener("abort", () => resolve("ended"), { once: true });
    });
    const { client, drop } = this.#connect(() =>
      lost.reject(new DovecoteError("CONNECTION_LOST", "subscribe: the listening connection was lost")),
    );
    const answered = <T>(query: PromiseLike<T>): Promise<T | "ended"> =>
      within(ANSWER_MS, Promise.race([query, lost.promise, ended]));
    try {
      if ((await answered(client.unsafe(`listen ${channel}`))) === "ended") return;
      onListening();
      while (!end.aborted) {
        const pause = delay(heartbeatMs, undefined, { signal: end }).catch(() => {});
        await Promise.race([pause, lost.promise]);
        if (end.aborted) return;
        const kept = await answered(client.unsafe(`select 1 from pg_listening_channels()`));
        if (kept === "ended") return;
        if (kept.length === 0) {
          const message =
            "subscribe: the server forgot that this connection listens; a pooler may stand between";
          throw new DovecoteError("CONNECTION_LOST", message);
        }
      }
    } finally {
      drop();
    }
  }

  #connect(onLost: () => void): { readonly client: postgresClient.Sql; readonly drop: () => void } {
    const { client: inherited } = this.#options;
    let socket: Socket | undefined;
    let dropped = false;
    const options = {
      ...inherited,
      max: 1,
      idle_timeout: null,
      max_lifetime: null,
      fetch_types: false,
      backoff: () => 0,
      shared: { retries: 0, typeArrayMap: {} },
      connect_timeout: ANSWER_MS / 1000,
      socket: async (given: ClientOptions) => {
        socket = await this.#open(given);
        if (dropped) socket.destroy();
        return socket;
      },
      onnotify: () => this.#listeners.ring(),
      onclose: onLost,
    };
    const client = postgresClient(options as object);
    return {
      client,
      drop: () => {
        dropped = true;
        void client.end({ timeout: 0 });
        // A peer that is silent never answers to the end of the connection, and the process would wait for it.
        socket?.destroy();
      },
    };
  }

  /** As postgres.js does it, but with a socket in hand. Each attempt takes the next host. */
  async #open({ host, port, path }: ClientOptions): Promise<Socket> {
    const { socket: make } = this.#options.client;
    if (typeof make === "function") return (await make(this.#options.client)) as Socket;
    const [hosts, ports] = [[host].flat(), [port].flat()];
    const index = this.#attempt++ % hosts.length;
    const address = { host: String(hosts[index]), port: Number(ports[index] ?? ports[0]) };
    // postgres.js takes the name that a certificate must have from its socket.
    const socket = typeof path === "string" ? connect({ path }) : Object.assign(connect(address), address);
    await within(
      ANSWER_MS,
      new Promise<void>((resolve, reject) => {
        socket.once("connect", resolve);
        socket.once("error", reject);
      }),
    ).catch((error: unknown) => {
      socket.destroy();
      throw error;
    });
    return socket;
  }
}

async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  const done = new AbortController();
  const late = delay(ms, undefined, { signal: done.signal }).then(() => {
    throw new DovecoteError("CONNECTION_LOST", `subscribe: the server did not answer within ${ms} ms`);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    late.catch(() => {});
    done.abort();
  }
}

function report(onError: ListenerOptions["onError"], error: DovecoteError): void {
  try {
    onError?.(error);
  } catch {
    // Documented: what it throws is ignored.
  }
}

function closed(): DovecoteError {
  return new DovecoteError("CLOSED", "subscribe: it was closed meanwhile");
}
