/** One connection that listens, from its socket to its end. */
import { connect, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { DovecoteError } from "@dovecote/core";
import postgresClient from "postgres";

/** What postgres.js made of the options of a client: hosts and ports are lists there, and it takes them back. */
export type ClientOptions = object & {
  readonly host?: unknown;
  readonly port?: unknown;
  readonly path?: unknown;
  readonly socket?: unknown;
  readonly ssl?: unknown;
};

export interface Listening {
  readonly client: ClientOptions;
  readonly channel: string;
  readonly heartbeatMs: number;
  /** Ends it. */
  readonly end: AbortSignal;
  readonly onListening: () => void;
  readonly onNotify: () => void;
}

/** For a connection, and for every answer. */
const ANSWER_MS = 5000;

/**
 * Listens until the connection is lost, or does not answer, or is ended.
 *
 * @throws always: why it is over.
 */
export async function listen({
  client: settings,
  channel,
  heartbeatMs,
  end,
  onListening,
  onNotify,
}: Listening): Promise<never> {
  const over = new AbortController();
  const onEnd = (): void => over.abort(new DovecoteError("CLOSED", "subscribe: it was closed meanwhile"));
  end.addEventListener("abort", onEnd, { once: true });
  if (end.aborted) onEnd();
  const { signal } = over;
  const sockets = new Sockets(settings, signal);
  const client = postgresClient({
    ...settings,
    ...OWN,
    socket: () => sockets.open().catch((error: unknown) => fail(over, error)),
    onnotify: onNotify,
    onclose: () => over.abort(lost("the listening connection was lost")),
  } as object);
  const answered = async <T>(query: PromiseLike<T>): Promise<T> => {
    const timer = setTimeout(() => over.abort(lost(`no answer within ${ANSWER_MS} ms`)), ANSWER_MS);
    try {
      return await unless(signal, query);
    } finally {
      clearTimeout(timer);
    }
  };
  try {
    await answered(client.unsafe(`listen ${channel}`));
    onListening();
    for (;;) {
      await delay(heartbeatMs, undefined, { signal }).catch(() => {});
      signal.throwIfAborted();
      const kept = await answered(client.unsafe("select 1 from pg_listening_channels()"));
      if (kept.length === 0) throw lost("the server forgot that it listens: is there a pooler in between?");
    }
  } finally {
    end.removeEventListener("abort", onEnd);
    over.abort();
    void client.end({ timeout: 0 });
    sockets.destroy();
  }
}

/** What its settings must not be those of the application's client: that one keeps its own, and hears of nothing (LIFE-04). */
const OWN = {
  max: 1,
  idle_timeout: null,
  max_lifetime: null,
  connect_timeout: ANSWER_MS / 1000,
  fetch_types: false,
  backoff: () => 0,
  parameters: {},
  shared: { retries: 0, typeArrayMap: {} },
  debug: false,
  onparameter: undefined,
  onnotice: () => {},
};

/**
 * As postgres.js makes them, but kept in hand: a peer that is silent never answers to the end of a connection, and the
 * process would wait for it.
 */
class Sockets {
  readonly #settings: ClientOptions;
  readonly #over: AbortSignal;
  readonly #open = new Set<Socket>();

  constructor(settings: ClientOptions, over: AbortSignal) {
    this.#settings = settings;
    this.#over = over;
  }

  /** The first host that takes a connection. */
  async open(): Promise<Socket> {
    this.#over.throwIfAborted();
    const { host, port, path, socket: make } = this.#settings;
    if (typeof make === "function") return this.#keep((await make(this.#settings)) as Socket);
    if (typeof path === "string") return this.#connected(connect({ path }));
    const ports = [port].flat();
    const addresses = [host].flat().map((name, index) => ({
      host: String(name),
      port: Number(ports[index] ?? ports[0]),
    }));
    let failure: unknown;
    for (const address of addresses) {
      try {
        // postgres.js takes the name that a certificate must have from its socket.
        return await this.#connected(Object.assign(connect(address), address));
      } catch (error) {
        failure = error;
      }
    }
    throw failure;
  }

  destroy(): void {
    for (const socket of this.#open) socket.destroy();
  }

  #keep(socket: Socket): Socket {
    this.#open.add(socket);
    socket.once("close", () => this.#open.delete(socket));
    if (this.#over.aborted) socket.destroy();
    return socket;
  }

  async #connected(socket: Socket): Promise<Socket> {
    this.#keep(socket);
    const connected = new Promise<void>((resolve, reject) => {
      socket.once("connect", resolve);
      socket.once("error", reject);
    });
    await unless(this.#over, connected);
    return socket;
  }
}

/** The answer, unless the signal aborts first; nothing is left behind on a signal that outlives it. */
async function unless<T>(signal: AbortSignal, work: PromiseLike<T>): Promise<T> {
  signal.throwIfAborted();
  const stopped = Promise.withResolvers<never>();
  const onAbort = (): void => stopped.reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([work, stopped.promise]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

/** postgres.js keeps the failure of a socket to itself where there are several hosts. */
function fail(over: AbortController, error: unknown): never {
  over.abort(error);
  throw error;
}

function lost(why: string): DovecoteError {
  return new DovecoteError("CONNECTION_LOST", `subscribe: ${why}`);
}
