/** Connections that the driver opens itself. */
import Database from "better-sqlite3";
import type { SqliteClient } from "./client.ts";
import { LOCK_WAIT_MS } from "./connection.ts";
import { toDovecoteError } from "./errors.ts";

/** How far a commit is on disk when it returns: `full` survives a power cut, `normal` may lose the last commits. */
export type Synchronous = "full" | "normal";

/** @throws `STORE_UNAVAILABLE` for a directory, a missing one, or a file that must be there. */
export function openWritable(path: string, synchronous: Synchronous): SqliteClient {
  try {
    const client: SqliteClient = new Database(path, { timeout: LOCK_WAIT_MS });
    client.exec("pragma foreign_keys = on");
    client.exec(`pragma synchronous = ${synchronous}`);
    return client;
  } catch (error) {
    throw toDovecoteError(error, "open");
  }
}

/** A connection for reading alone: snapshots and the watcher of commits. */
export function openReadOnly(path: string): SqliteClient {
  try {
    return new Database(path, { readonly: true, fileMustExist: true, timeout: LOCK_WAIT_MS });
  } catch (error) {
    throw toDovecoteError(error, "open");
  }
}
