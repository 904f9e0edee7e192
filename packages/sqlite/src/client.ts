/**
 * What this driver needs of a SQLite client, declared structurally: better-sqlite3's `Database` fits, and no type of
 * another package leaks into ours.
 */
import { DovecoteError } from "@dovecote/core";

export interface SqliteStatement {
  run(...parameters: unknown[]): { readonly changes: number; readonly lastInsertRowid: number | bigint };
  get(...parameters: unknown[]): unknown;
  all(...parameters: unknown[]): unknown[];
  safeIntegers(on: boolean): unknown;
}

/** One connection to a SQLite database, such as a better-sqlite3 `Database`. */
export interface SqliteClient {
  /** The file, or `:memory:`. */
  readonly name: string;
  readonly open: boolean;
  readonly inTransaction: boolean;
  prepare(sql: string): SqliteStatement;
  exec(sql: string): unknown;
  close(): unknown;
}

/** A drizzle database or transaction over better-sqlite3. */
export interface DrizzleSqlite {
  readonly _: object;
  run(query: never): unknown;
  transaction(callback: never): unknown;
}

/** A transaction of {@link Dovecote.transaction}: good for its callback alone, afterwards `TX_CLOSED` (TX-09). */
export interface SqliteTransaction<Client extends SqliteClient = SqliteClient> {
  /** The connection of the transaction, for the application's own statements. */
  readonly client: Client;
}

/** Whatever can be handed to `enqueue`: a client or a drizzle handle with an open transaction, or our own. */
export type SqliteHandle = SqliteClient | DrizzleSqlite | SqliteTransaction;

/** Our own transaction. Knows when it ended, which a bare connection cannot. */
export class OwnTransaction<Client extends SqliteClient> implements SqliteTransaction<Client> {
  readonly #client: Client;
  #open = true;

  constructor(client: Client) {
    this.#client = client;
  }

  get client(): Client {
    if (!this.#open)
      throw new DovecoteError("TX_CLOSED", "this transaction has ended; its handle cannot be used again");
    return this.#client;
  }

  end(): void {
    this.#open = false;
  }
}

/**
 * The connection behind a handle. Drizzle keeps its client in `session.client` (an internal of 0.45 and of 1.0, both
 * tested); it is recognised by the symbol it registers, so that it never has to be imported.
 *
 * @throws `INVALID_ARGUMENT` if it is neither, `TX_CLOSED` for a transaction of ours that ended.
 */
export function clientOf(handle: unknown): SqliteClient {
  if (handle instanceof OwnTransaction) return handle.client;
  if (isClient(handle)) return handle;
  const inner = isDrizzle(handle) ? handle.session?.client : undefined;
  if (isClient(inner)) return inner;
  const message = "the transaction handle must be a better-sqlite3 Database or a drizzle handle over one";
  throw new DovecoteError(
    "INVALID_ARGUMENT",
    `${message}, got ${handle === null ? "null" : `a ${typeof handle}`}`,
    {
      path: "tx",
    },
  );
}

function isClient(value: unknown): value is SqliteClient {
  return (
    typeof value === "object" &&
    value !== null &&
    typeof (value as SqliteClient).prepare === "function" &&
    typeof (value as SqliteClient).exec === "function" &&
    typeof (value as SqliteClient).inTransaction === "boolean"
  );
}

function isDrizzle(value: unknown): value is { readonly session?: { readonly client?: unknown } } {
  if (typeof value !== "object" || value === null) return false;
  const made: unknown = value.constructor;
  return typeof made === "function" && Symbol.for("drizzle:entityKind") in made;
}
