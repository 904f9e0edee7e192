/**
 * What this driver needs of its clients, declared structurally: no type of another package leaks into ours, and whoever
 * has a connection with an open transaction and can run a text with parameters can enqueue.
 */
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
  unsafe(text: string, parameters?: never[], options?: QueryOptions): PostgresJsQuery;
  reserve(): Promise<PostgresJsReserved>;
  end(options?: { timeout?: number }): Promise<void>;
  readonly options: { readonly max: number; readonly prepare: boolean };
}

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

/** How to run a statement on a connection of postgres.js: its parsers and transforms have no part in `raw`. */
export function runOf(client: Pick<PostgresJs, "unsafe">): Run {
  return async (text, parameters) => {
    const rows = await client.unsafe(text, parameters as never[], { prepare: true }).raw();
    return rows.map((row) => row.map((value) => (value === null ? null : decoder.decode(value))));
  };
}

const decoder = new TextDecoder();

/**
 * How to run a statement with one text column in a caller's transaction.
 *
 * @throws `INVALID_ARGUMENT` if the handle is none.
 */
export function answersOf(
  handle: unknown,
): (text: string, parameters: readonly (string | null)[]) => Promise<readonly string[]> {
  const client = isDrizzle(handle) ? handle.session?.client : handle;
  if (hasMethod(client, "unsafe")) {
    const run = runOf(client as Pick<PostgresJs, "unsafe">);
    return async (text, parameters) => (await run(text, parameters)).map(([answer]) => String(answer));
  }
  if (hasMethod(client, "query")) {
    return async (text, parameters) => {
      const executor = client as PostgresExecutor;
      const { rows } = await inTurn(executor, () => executor.query(text, parameters as string[]));
      return rows.map((row) => String(Object.values(row)[0]));
    };
  }
  const message =
    "the transaction handle must be one of postgres.js, drizzle, or node-postgres, or have a query method";
  throw new DovecoteError(
    "INVALID_ARGUMENT",
    `${message}, got ${handle === null ? "null" : `a ${typeof handle}`}`,
    {
      path: "tx",
    },
  );
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
