/** Connections that the driver opens itself. */
import Database from "better-sqlite3";
import type { SqliteClient } from "./client.ts";
import { LOCK_WAIT_MS } from "./connection.ts";
import { toDovecoteError } from "./errors.ts";

/** How far a commit is on disk when it returns: `full` survives a power cut, `normal` may lose the last commits. */
export type Synchronous = "full" | "normal";

/** @throws `STORE_UNAVAILABLE` for a directory, a missing one, or a file that must be there. */
export function openWritable(path: string, synchronous: Synchronous): SqliteClient {
  const client = open(path, { timeout: LOCK_WAIT_MS });
  try {
    client.exec("pragma foreign_keys = on");
    client.exec(`pragma synchronous = ${synchronous}`);
    return client;
  } catch (error) {
    client.close(); // it was opened, and turned out to be no database
    throw toDovecoteError(error, "open");
  }
}

/** A connection for reading alone: snapshots and the watcher of commits. */
export function openReadOnly(path: string): SqliteClient {
  return open(path, { readonly: true, fileMustExist: true, timeout: LOCK_WAIT_MS });
}

function open(path: string, options: Database.Options): SqliteClient {
  try {
    return new Database(path, options);
  } catch (error) {
    throw toDovecoteError(error, "open");
  }
}
