/** From what better-sqlite3 throws to typed errors. Which of them are retryable is decided by their code. */
import { DovecoteError, type ErrorCode, isDovecoteError } from "@dovecote/core";

/** By primary result code; extended codes (`SQLITE_BUSY_SNAPSHOT`) begin with it. Longer prefixes come first. */
const CODES: readonly (readonly [prefix: string, code: ErrorCode, message: string])[] = [
  ["SQLITE_BUSY", "STORE_BUSY", "the database is locked by another connection"],
  ["SQLITE_LOCKED", "STORE_BUSY", "the database is locked by this connection"],
  ["SQLITE_FULL", "STORE_FULL", "the database or its disk is full; nothing was written"],
  ["SQLITE_READONLY", "STORE_READ_ONLY", "the database is read-only"],
  ["SQLITE_CANTOPEN", "STORE_UNAVAILABLE", "the database file cannot be opened"],
  ["SQLITE_IOERR", "STORE_UNAVAILABLE", "the database file cannot be read or written"],
  ["SQLITE_NOTADB", "STORE_CORRUPT", "the file is not a SQLite database"],
  ["SQLITE_CORRUPT", "STORE_CORRUPT", "the database file is damaged"],
  ["SQLITE_PERM", "PERMISSION_DENIED", "the operating system denies access to the database"],
  ["SQLITE_AUTH", "PERMISSION_DENIED", "an authorizer denies access to the database"],
];

/** A Dovecote error for whatever was thrown; `while` says what was being done. */
export function toDovecoteError(thrown: unknown, doing: string): DovecoteError {
  if (isDovecoteError(thrown)) return thrown;
  const { code, message } = nativeParts(thrown);
  for (const [prefix, mapped, text] of CODES) {
    if (code.startsWith(prefix)) return new DovecoteError(mapped, `${doing}: ${text}`, { cause: thrown });
  }
  // better-sqlite3 reports misuse of a connection as a bare TypeError (H14).
  if (message.includes("busy executing a query")) {
    return new DovecoteError("STORE_BUSY", `${doing}: an iterator is open on the connection`, {
      cause: thrown,
    });
  }
  if (message.includes("connection is not open")) {
    return new DovecoteError("CLOSED", `${doing}: the database connection was closed`, { cause: thrown });
  }
  if (message.includes("directory does not exist")) {
    return new DovecoteError("STORE_UNAVAILABLE", `${doing}: the directory does not exist`, {
      cause: thrown,
    });
  }
  if (isSchemaFault(thrown)) {
    return new DovecoteError("SCHEMA_MISMATCH", `${doing}: the schema is not as migrate() made it`, {
      cause: thrown,
    });
  }
  return new DovecoteError("DRIVER_FAILURE", `${doing}: SQLite failed`, { cause: thrown });
}

/** Whether the schema's marker must be read again: an undefined table, column or index, or a violated CHECK (SCHEMA-05). */
export function isSchemaFault(thrown: unknown): boolean {
  const { code, message } = nativeParts(thrown);
  return code === "SQLITE_CONSTRAINT_CHECK" || /no such (table|column|index)|has no column/.test(message);
}

/** Whether to try again later: a lock is held elsewhere, or an iterator is open on this connection. */
export function isBusy(thrown: unknown): boolean {
  const { code, message } = nativeParts(thrown);
  return /^SQLITE_(BUSY|LOCKED)/.test(code) || message.includes("busy executing a query");
}

function nativeParts(thrown: unknown): { readonly code: string; readonly message: string } {
  if (!(thrown instanceof Error)) return { code: "", message: "" };
  const { code } = thrown as { code?: unknown };
  return { code: typeof code === "string" ? code : "", message: thrown.message };
}
