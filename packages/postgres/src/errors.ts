/** From SQLSTATE and the client's codes to typed errors. Which of them are retryable is decided here. */
import { DovecoteError, type ErrorCode, type ErrorDetails, isDovecoteError } from "@dovecote/core";

interface Meaning {
  readonly code: ErrorCode;
  readonly text: string;
  readonly details?: ErrorDetails;
}

/** The statement may have been applied: it was sent, and its reply was lost. */
const LOST: Meaning = {
  code: "CONNECTION_LOST",
  text: "the connection was lost",
  details: { ambiguous: true },
};
const UNREACHABLE: Meaning = {
  code: "STORE_UNAVAILABLE",
  text: "the server cannot be reached",
  details: { retryable: true },
};

/** By SQLSTATE, or by the code of the client or of the operating system. */
const MEANINGS: Readonly<Record<string, Meaning>> = {
  "40001": { code: "SERIALIZATION_FAILURE", text: "the transaction conflicts with another one" },
  "40P01": { code: "SERIALIZATION_FAILURE", text: "the transaction was the victim of a deadlock" },
  "55P03": { code: "STORE_BUSY", text: "a lock was not available in time" },
  "57014": { code: "STORE_BUSY", text: "the statement was cancelled, or took longer than its timeout" },
  "53300": {
    code: "STORE_UNAVAILABLE",
    text: "the server has no connection left",
    details: { retryable: true },
  },
  "57P01": LOST,
  "57P02": LOST,
  "57P03": UNREACHABLE,
  "25006": {
    code: "STORE_READ_ONLY",
    text: "the transaction is read-only: a standby, or a server being failed over",
  },
  "53100": { code: "STORE_FULL", text: "the server's disk is full" },
  "53200": { code: "STORE_UNAVAILABLE", text: "the server is out of memory", details: { retryable: true } },
  "42501": { code: "PERMISSION_DENIED", text: "the role may not do this" },
  "28000": { code: "PERMISSION_DENIED", text: "the server refuses the role" },
  "28P01": { code: "PERMISSION_DENIED", text: "the server refuses the password" },
  "3D000": { code: "STORE_UNAVAILABLE", text: "the database does not exist" },
  "25P02": { code: "TX_CLOSED", text: "the transaction was aborted by an earlier error" },
  "2200H": { code: "COUNTER_OVERFLOW", text: "the row ids are used up" },
  "23503": { code: "INTEGRITY", text: "a foreign key was violated" },
  CONNECTION_CLOSED: LOST,
  CONNECTION_DESTROYED: LOST,
  ECONNRESET: LOST,
  EPIPE: LOST,
  CONNECTION_ENDED: { code: "CLOSED", text: "the client was ended" },
  CONNECT_TIMEOUT: UNREACHABLE,
  ECONNREFUSED: UNREACHABLE,
  ENOENT: UNREACHABLE,
  ENOTFOUND: UNREACHABLE,
  EHOSTUNREACH: UNREACHABLE,
  ETIMEDOUT: UNREACHABLE,
};

/** Undefined table, schema, column or function, and a violated check: the schema is not what it was (SCHEMA-05). */
const SCHEMA_FAULTS: ReadonlySet<string> = new Set([
  "42P01",
  "3F000",
  "42703",
  "42883",
  "42P10",
  "23514",
  "23502",
]);

/** A Dovecote error for whatever was thrown; `doing` says what was being done. */
export function toDovecoteError(thrown: unknown, doing: string): DovecoteError {
  if (isDovecoteError(thrown)) return thrown;
  const code = codeOf(thrown);
  const meaning = MEANINGS[code];
  if (meaning !== undefined) {
    return new DovecoteError(meaning.code, `${doing}: ${meaning.text}`, {
      ...meaning.details,
      cause: thrown,
    });
  }
  if (isSchemaFault(thrown)) {
    return new DovecoteError("SCHEMA_MISMATCH", `${doing}: the schema is not as migrate() made it`, {
      cause: thrown,
    });
  }
  return new DovecoteError("DRIVER_FAILURE", `${doing}: Postgres failed`, { cause: thrown });
}

/** A later statement of a call failed, and an earlier one had been committed: what was applied is not known to the caller. */
export function afterWrite(thrown: unknown, doing: string): never {
  const { code, message, retryable } = toDovecoteError(thrown, doing);
  throw new DovecoteError(code, message, { retryable, ambiguous: true, cause: thrown });
}

export function isSchemaFault(thrown: unknown): boolean {
  return SCHEMA_FAULTS.has(codeOf(thrown));
}

/** The server did nothing, and may do it when asked again. */
export function isTransient(thrown: unknown): boolean {
  const code = codeOf(thrown);
  return code === "40001" || code === "40P01";
}

/** The connection is gone, or goes now: nothing that is sent on it will be answered. Its close may be yet to be reported. */
export function isConnectionLoss(thrown: unknown): boolean {
  const { severity } =
    typeof thrown === "object" && thrown !== null ? (thrown as { severity?: unknown }) : {};
  // What a function of the server raises under such a code leaves the connection alive.
  return (
    MEANINGS[codeOf(thrown)] === LOST &&
    (severity === undefined || severity === "FATAL" || severity === "PANIC")
  );
}

function codeOf(thrown: unknown): string {
  const { code } = typeof thrown === "object" && thrown !== null ? (thrown as { code?: unknown }) : {};
  return typeof code === "string" ? code : "";
}
