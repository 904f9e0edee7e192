/** From what `node:sqlite` throws to typed errors. Which of them are retryable is decided by their code (ERR-02). */
import { DovecoteError, type ErrorCode, isDovecoteError } from "@dovecote/core";

/** By SQLite's primary result code, the low byte of `errcode`. */
const CODES: Readonly<Record<number, readonly [code: ErrorCode, message: string]>> = {
  3: ["PERMISSION_DENIED", "the operating system denies access to the database"],
  5: ["STORE_BUSY", "the database is locked by another connection"],
  6: ["STORE_BUSY", "the database is locked by this connection"],
  8: ["STORE_READ_ONLY", "the database is read-only"],
  10: ["STORE_UNAVAILABLE", "the database file cannot be read or written"],
  11: ["STORE_CORRUPT", "the database file is damaged"],
  13: ["STORE_FULL", "the database or its disk is full; nothing was written"],
  14: ["STORE_UNAVAILABLE", "the database file cannot be opened"],
  23: ["PERMISSION_DENIED", "an authorizer denies access to the database"],
  26: ["STORE_CORRUPT", "the file is not a SQLite database"],
};

/** `SQLITE_CONSTRAINT_CHECK`, an extended code. */
const VIOLATED_CHECK = 275;

/** `cause` is redacted by the error itself; messages of ours name no value, since a value can be a token (ERR-04). */
export function toDovecoteError(thrown: unknown, doing: string): DovecoteError {
  if (isDovecoteError(thrown)) return thrown;
  const failed = (code: ErrorCode, message: string): DovecoteError =>
    new DovecoteError(code, `${doing}: ${message}`, { cause: thrown });
  const { code, errcode, message } = nativeParts(thrown);
  const known = CODES[errcode & 0xff];
  if (known !== undefined) return failed(...known);
  if (isSchemaFault(thrown)) return failed("SCHEMA_MISMATCH", "the schema is not as migrate() made it");
  // Misuse of a connection, and integers that JavaScript has no number for, carry no code of SQLite.
  if (message === "database is not open") return failed("CLOSED", "the connection was closed");
  if (code === "ERR_OUT_OF_RANGE") return failed("COUNTER_OVERFLOW", "a stored integer is beyond 2^53");
  return failed("DRIVER_FAILURE", "SQLite failed");
}

/** Whether the schema's marker has to be read again: something is undefined, or a CHECK was violated (SCHEMA-05). */
export function isSchemaFault(thrown: unknown): boolean {
  const { errcode, message } = nativeParts(thrown);
  return errcode === VIOLATED_CHECK || /no such (table|column|index)|has no column/.test(message);
}

/** `BEGIN` was refused because a transaction is open: it has no result code of its own. */
export function isInTransaction(thrown: unknown): boolean {
  return nativeParts(thrown).message.includes("within a transaction");
}

function nativeParts(thrown: unknown): {
  readonly code: unknown;
  readonly errcode: number;
  readonly message: string;
} {
  if (!(thrown instanceof Error)) return { code: undefined, errcode: 0, message: "" };
  const { code, errcode } = thrown as { readonly code?: unknown; readonly errcode?: unknown };
  return { code, errcode: typeof errcode === "number" ? errcode : 0, message: thrown.message };
}
