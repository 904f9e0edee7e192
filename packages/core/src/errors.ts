/**
 * The one error class of the project. The `code` is stable and is what programs branch on; the message is for people
 * and may change.
 */

/** Every code a rejection can carry (ERR-01). */
export type ErrorCode =
  | "INVALID_ARGUMENT"
  | "INVALID_EVENT"
  | "EVENT_TOO_LARGE"
  | "TX_REQUIRED"
  | "TX_CLOSED"
  | "TX_OPEN"
  | "TX_ASYNC"
  | "TX_FOREIGN"
  | "IDENTITY_CONFLICT"
  | "NOT_FOUND"
  | "ILLEGAL_TRANSITION"
  | "LOST_CLAIM"
  | "COUNTER_OVERFLOW"
  | "ENTROPY_UNAVAILABLE"
  | "SCHEMA_MISSING"
  | "SCHEMA_TOO_OLD"
  | "SCHEMA_TOO_NEW"
  | "SCHEMA_MISMATCH"
  | "INTEGRITY"
  | "STORE_BUSY"
  | "STORE_FULL"
  | "STORE_READ_ONLY"
  | "STORE_UNAVAILABLE"
  | "STORE_CORRUPT"
  | "SERIALIZATION_FAILURE"
  | "CONNECTION_LOST"
  | "PERMISSION_DENIED"
  | "CLOSED"
  | "RELAY_RUNNING"
  | "RELAY_STOPPED"
  | "DELIVERY_TIMEOUT"
  | "UNSUPPORTED"
  | "DRIVER_FAILURE";

/**
 * The codes after which the same call may succeed if it is made again (ERR-02); in a transaction of the caller's, the
 * whole transaction.
 */
const RETRYABLE: ReadonlySet<ErrorCode> = new Set(["STORE_BUSY", "SERIALIZATION_FAILURE", "CONNECTION_LOST"]);

/** What an error may say beyond its code and message. */
export interface ErrorDetails {
  /** The native error behind this one; only a redacted copy of it is kept (see {@link redactCause}). */
  readonly cause?: unknown;
  /** Overrides the default of the code. */
  readonly retryable?: boolean;
  /** The statement was sent and its reply was lost: it may or may not have been applied (FENCE-13). */
  readonly ambiguous?: boolean;
  /** The row the error is about. */
  readonly rowId?: number;
  /** The state the row was found in, for `ILLEGAL_TRANSITION`. */
  readonly state?: string;
  /** Which argument or attribute was refused, as a path such as `event.extensions.ratio`. */
  readonly path?: string;
  /** Where a reader goes on after the row it could not read, for `INTEGRITY` (PAGE-02). */
  readonly cursor?: number;
  /** Which immutable fields differ, for `IDENTITY_CONFLICT` (ID-03). */
  readonly fields?: readonly string[];
}

const BRAND: unique symbol = Symbol.for("dovecote.error") as never;

/**
 * What every rejected call carries.
 *
 * @example
 * try {
 *   await shop.ack(claim);
 * } catch (error) {
 *   if (isDovecoteError(error, "LOST_CLAIM")) return; // somebody else delivers this event now
 *   throw error;
 * }
 */
export class DovecoteError extends Error {
  override readonly name = "DovecoteError";
  readonly code: ErrorCode;
  readonly retryable: boolean;
  readonly ambiguous: boolean;
  declare readonly rowId?: number;
  declare readonly state?: string;
  declare readonly path?: string;
  declare readonly cursor?: number;
  declare readonly fields?: readonly string[];

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    const { cause, retryable, ambiguous, ...rest } = details;
    super(message, cause === undefined ? undefined : { cause: redactCause(cause) });
    this.code = code;
    this.retryable = retryable ?? RETRYABLE.has(code);
    this.ambiguous = ambiguous ?? false;
    Object.assign(this, rest);
    Object.defineProperty(this, BRAND, { value: true });
  }
}

/**
 * Whether a value is a Dovecote error, and optionally one of the given codes. Works across two copies of the package,
 * where `instanceof` would not.
 *
 * @example
 * if (isDovecoteError(error, "STORE_BUSY")) await later();
 */
export function isDovecoteError(error: unknown, ...codes: ErrorCode[]): error is DovecoteError {
  if (!(error instanceof Error) || (error as { [BRAND]?: unknown })[BRAND] !== true) return false;
  return codes.length === 0 || codes.includes((error as DovecoteError).code);
}

/** The members of a native error that are safe to keep: none of them can hold a row, a parameter or a statement. */
const SAFE_MEMBERS = [
  "code",
  "constraint_name",
  "constraint",
  "table_name",
  "table",
  "errno",
  "syscall",
] as const;

const URL_CREDENTIALS = /\b([a-z][a-z0-9+.-]*:\/\/)[^\s/@]*@/gi;

/**
 * A copy of a native error without what may hold secrets. Database errors carry the failing row (`detail`), the
 * statement and its parameters: a CHECK violation on Postgres prints the whole row, claim token included. Kept are
 * name, message, code, constraint, table and stack, with credentials taken out of URLs (ERR-01, ERR-04).
 */
export function redactCause(native: unknown): Error {
  if (isDovecoteError(native)) return native;
  if (!(native instanceof Error)) return new Error(`a non-error of type ${typeof native} was thrown`);
  const copy = new Error(redactUrls(String(native.message)));
  copy.name = native.name;
  if (typeof native.stack === "string") copy.stack = redactUrls(native.stack);
  for (const member of SAFE_MEMBERS) {
    const value = (native as unknown as Record<string, unknown>)[member];
    if (typeof value === "string" || typeof value === "number") {
      Object.defineProperty(copy, member, { value, enumerable: true });
    }
  }
  return copy;
}

function redactUrls(text: string): string {
  return text.replace(URL_CREDENTIALS, "$1[redacted]@");
}
