/**
 * What this driver needs of its clients, declared structurally: no type of another package leaks into ours, and whoever
 * has a connection with an open transaction and can run a text with parameters can enqueue.
 */
import { setImmediate as immediate } from "node:timers/promises";
import { DovecoteError } from "@dovecote/core";

/** A query of postgres.js: runs when it is awaited. */
export interface PostgresJsQuery extends PromiseLike<readonly unknown[]> {
  raw(): PromiseLike<readonly (readonly (Uint8Array | null)[])[]>;
}

interface QueryOptions {
  readonly prepare?: boolean;
  readonly simple?: boolean;
}

/** The root of a postgres.js client: the pool. */
export interface PostgresJs {
  readonly typed?: (value: never, type: number) => unknown;
  unsafe(text: string, parameters?: never[], options?: QueryOptions): PostgresJsQuery;
  reserve(): Promise<PostgresJsReserved>;
  end(options?: { timeout?: number }): Promise<void>;
}

/** What can send a statement: a client, or the connection of a transaction. */
export type PostgresJsConnection = Pick<PostgresJs, "unsafe" | "typed">;

/** A connection of one's own, of `sql.reserve()`. */
export interface PostgresJsReserved {
  unsafe(text: string, parameters?: never[], options?: QueryOptions): PostgresJsQuery;
  release(): void;
}

/** The transaction of `sql.begin(fn)`. */
export interface PostgresJsTransaction {
  unsafe(text: string, parameters?: never[], options?: QueryOptions): PostgresJsQuery;
  savepoint(...given: never[]): unknown;
}

/** A drizzle transaction over postgres.js; a drizzle database has no `rollback`. */
export interface DrizzlePostgresTransaction {
  readonly _: object;
  rollback(): never;
}

/**
 * Any other client with an open transaction: node-postgres's `Client` and `PoolClient` fit as they are, Kysely with
 * `{ query: (text, values) => trx.executeQuery(CompiledQuery.raw(text, values)) }`. A pool does not fit.
 */
export interface PostgresExecutor {
  query(text: string, parameters: string[]): Promise<{ readonly rows: readonly object[] }>;
  readonly totalCount?: never;
}

/** A transaction of `dovecote.transaction(fn)`: good for its callback alone, afterwards `TX_CLOSED` (TX-09). */
export interface PostgresTransaction<Client extends PostgresJs = PostgresJs> {
  /** The connection of the transaction, for the application's own statements: a postgres.js tag. */
  readonly sql: Awaited<ReturnType<Client["reserve"]>>;
}

/** Whatever can be handed to `enqueue`. */
export type PostgresHandle =
  | PostgresJsTransaction
  | PostgresJsReserved
  | DrizzlePostgresTransaction
  | PostgresExecutor
  | PostgresTransaction;

/** A row as texts, by position. */
export type Row = readonly (string | null)[];

/** Runs one statement and answers its rows as texts. */
export type Run = (text: string, parameters: readonly (string | null)[]) => Promise<readonly Row[]>;

/**
 * How to run a statement on a connection of postgres.js. Parsers, and transforms of columns and values, have no part in
 * `raw`; a transform of rows has, and may have made an object of it.
 */
export function runOf(client: PostgresJsConnection): Run {
  return async (text, parameters) => {
    const typed = parameters.map((value) => given(client, value));
    const rows = await client.unsafe(text, typed as never[], { prepare: true }).raw();
    return rows.map((row) =>
      (Array.isArray(row) ? row : Object.values(row)).map((value: Uint8Array | null) =>
        value === null ? null : decoder.decode(value),
      ),
    );
  };
}

/** The type `unknown`: the statement's casts decide, and no serializer that the application made for text is called. */
const UNKNOWN = 705;

const decoder = new TextDecoder();

/**
 * postgres.js reports a broken socket before it takes the connection out of the pool. Whoever calls again at once would
 * be sent on it, and wait for ever: 22 of 25 times with a pool of one. The close comes after the first turn of the loop.
 */
export async function untilClosed(): Promise<void> {
  await immediate();
  await immediate();
}

/** Runs a statement with one text column, and answers that column. */
export type Answers = (text: string, parameters: readonly (string | null)[]) => Promise<readonly string[]>;

/** A connection of the caller's that has a transaction open, as far as anybody can tell. */
export interface CallersConnection {
  readonly answers: Answers;
  /** Makes the setting of a guard; answers false if the handle has lost its connection. */
  arm(value: string): Promise<boolean>;
}

/** Handles that share a transaction share the setting: each adds its own value. */
const ARM = `select set_config('dovecote.transaction',
  concat_ws(' ', nullif(current_setting('dovecote.transaction', true), ''), $1::text), true) as answer`;

/**
 * How to run statements on a caller's handle.
 *
 * @throws `INVALID_ARGUMENT` if the handle is none.
 */
export function callersConnection(handle: unknown): CallersConnection {
  const client = isDrizzle(handle) ? handle.session?.client : handle;
  if (hasMethod(client, "unsafe")) {
    const connection = client as PostgresJsConnection;
    const run = runOf(connection);
    return {
      answers: async (text, parameters) => (await run(text, parameters)).map(([answer]) => String(answer)),
      arm: (value) => armAlive(connection, value),
    };
  }
  if (hasMethod(client, "query")) {
    const executor = client as PostgresExecutor;
    const answers: Answers = async (text, parameters) => {
      const { rows } = await inTurn(executor, () => executor.query(text, parameters as string[]));
      return rows.map((row) => String(Object.values(row)[0]));
    };
    return { answers, arm: async (value) => (await answers(ARM, [value])).length === 1 };
  }
  const message =
    "the transaction handle must be one of postgres.js, drizzle, or node-postgres, or have a query method";
  const received = handle === null ? "null" : `a ${typeof handle}`;
  throw new DovecoteError("INVALID_ARGUMENT", `${message}, got ${received}`, { path: "tx" });
}

/**
 * postgres.js sends what is written on a handle that has lost its connection, or whose transaction has ended, on
 * whatever that connection does by now. What tells such a handle: a query behind one that has to be described first
 * waits in the handle's own queue, and only whoever holds the connection has that queue served.
 */
async function armAlive(connection: PostgresJsConnection, value: string): Promise<boolean> {
  const arming = connection.unsafe(ARM, [given(connection, value)] as never[], { prepare: false }).raw();
  const witness = connection.unsafe("select 1", [], { simple: true });
  const sent = arming.then(() => (witness as { readonly state?: unknown }).state !== null);
  // Sends it; on a lost handle it never settles, and is forgotten.
  witness.then(
    () => {},
    () => {},
  );
  return sent;
}

function given(connection: Pick<PostgresJs, "typed">, value: string | null): unknown {
  return connection.typed?.(value as never, UNKNOWN) ?? value;
}

/** What each client was given last. */
const turns = new WeakMap<PostgresExecutor, Promise<unknown>>();

/** One query at a time: node-postgres 8 warns of one that comes while another runs, its version 9 will refuse it. */
function inTurn<T>(client: PostgresExecutor, send: () => Promise<T>): Promise<T> {
  const sent = (turns.get(client) ?? Promise.resolve()).then(send);
  turns.set(
    client,
    sent.catch(() => {}),
  );
  return sent;
}

/** Drizzle keeps its client in `session.client`; it is recognised by the symbol it registers, without importing it. */
function isDrizzle(value: unknown): value is { readonly session?: { readonly client?: unknown } } {
  if (typeof value !== "object" || value === null) return false;
  const made: unknown = value.constructor;
  return typeof made === "function" && Symbol.for("drizzle:entityKind") in made;
}

function hasMethod(value: unknown, name: string): boolean {
  if ((typeof value !== "object" && typeof value !== "function") || value === null) return false;
  return typeof (value as Record<string, unknown>)[name] === "function";
}
