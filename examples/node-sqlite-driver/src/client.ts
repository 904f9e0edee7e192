/** Connections: those that the store opens, and what an application hands to `enqueue`. */
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { DovecoteError, invalid } from "@dovecote/core";
import { isInTransaction, toDovecoteError } from "./errors.ts";

/**
 * How long SQLite itself may wait for a lock. It blocks the event loop for all of it (CLAIM-08), so that longer waits
 * are asynchronous: see `lock-wait.ts`.
 */
const LOCK_WAIT_MS = 10;

/** What can be handed to `enqueue`: a connection with an open transaction, or the handle of our own transaction. */
export type NodeSqliteHandle = DatabaseSync | NodeSqliteTransaction;

/** A transaction of `dovecote.transaction(fn)`: good for its callback alone, afterwards `TX_CLOSED` (TX-09). */
export class NodeSqliteTransaction {
  readonly #client: DatabaseSync;
  #open = true;

  constructor(client: DatabaseSync) {
    this.#client = client;
  }

  /** The connection of the transaction, for the application's own statements. */
  get client(): DatabaseSync {
    if (!this.#open)
      throw new DovecoteError("TX_CLOSED", "this transaction has ended; its handle cannot be used again");
    return this.#client;
  }

  /** For the driver. */
  end(): void {
    this.#open = false;
  }
}

/** The connection behind a handle. Its type is checked here, and nowhere earlier: only a driver knows its handles. */
export function clientOf(handle: unknown): DatabaseSync {
  if (handle instanceof NodeSqliteTransaction) return handle.client;
  if (handle instanceof DatabaseSync) return handle;
  throw invalid("tx", "a DatabaseSync of node:sqlite with an open transaction", `a ${typeof handle}`);
}

/** Whether a transaction is open. `isTransaction` came with Node 22.16; before, a `BEGIN` that is refused says it. */
export function hasTransaction(client: {
  readonly isTransaction?: boolean;
  exec(sql: string): void;
}): boolean {
  if (client.isTransaction !== undefined) return client.isTransaction;
  try {
    client.exec("begin"); // takes no lock yet
  } catch (error) {
    if (isInTransaction(error)) return true;
    throw error;
  }
  client.exec("rollback");
  return false;
}

/** @throws `STORE_UNAVAILABLE` if there is no such directory, `STORE_CORRUPT` if the file is no database. */
export function openWritable(path: string): DatabaseSync {
  const client = open(path, false);
  if (fileOf(client) !== "") return client;
  client.close();
  throw invalid("path", "the path of a file: a database in memory belongs to one connection", path);
}

/** For snapshots. */
export function openReadOnly(path: string): DatabaseSync {
  return open(path, true);
}

function open(path: string, readOnly: boolean): DatabaseSync {
  let client: DatabaseSync | undefined;
  try {
    client = new DatabaseSync(path, { readOnly });
    client.exec(`pragma busy_timeout = ${LOCK_WAIT_MS}`);
    client.prepare("select name from sqlite_schema").get(); // the first statement that reads the file
    return client;
  } catch (error) {
    client?.close();
    throw toDovecoteError(error, "open");
  }
}

/**
 * A statement that answers objects and numbers. A caller's connection may have been opened with other defaults. An
 * integer beyond 2^53 is then an error, and never rounded: a rounded row id would name another row.
 */
export function prepare(client: DatabaseSync, sql: string): StatementSync {
  const statement = client.prepare(sql);
  statement.setReadBigInts(false);
  statement.setAllowBareNamedParameters(true);
  statement.setReturnArrays?.(false); // came with Node 22.16, as did the default that it undoes
  return statement;
}

/** The full path of the main database as SQLite resolved it; empty for one in memory. */
export function fileOf(client: DatabaseSync): string {
  const row = prepare(client, "select file from pragma_database_list where name = 'main'").get();
  return String(row?.file ?? "");
}
