/** What a store is made with: its options, and the state that its handles share. */
import { checkName, checkOptions, checkWhole, invalid, orDefault } from "./arguments.ts";
import { BOUNDS } from "./bounds.ts";
import type { Driver } from "./driver.ts";
import { DovecoteError } from "./errors.ts";
import type { Redact } from "./failure.ts";
import type { OpenSnapshots } from "./snapshot.ts";
import type { RandomBytes } from "./token.ts";

/** Options of {@link createDovecote}, and of every driver's factory. */
export interface DovecoteOptions {
  /** The most that an event may weigh: UTF-8 bytes of its attributes and extensions, plus data. Default 65,536. */
  readonly maxEventBytes?: number;
  /** The most of an answer that is recorded, headers and body together. 1 byte to 64 MiB, default 2 MiB. */
  readonly maxAnswerBytes?: number;
  /**
   * Makes the digests of idempotency keys an HMAC, so that short ones cannot be guessed from a copy of the database. At least
   * 16 bytes, a text as its UTF-8 bytes; the same for every process. With another one no key is known any more.
   */
  readonly keySecret?: Uint8Array | string;
  /** Takes secrets out of failure details and quarantine reasons before they are stored. */
  readonly redact?: Redact;
  /** Where tokens come from, for tests. Default: the operating system's CSPRNG. */
  readonly randomBytes?: RandomBytes;
}

/**
 * Checks the options of a driver's factory before the driver opens anything: those of the store, and beside them the
 * driver's own members, which come back for the driver to check.
 *
 * @throws `INVALID_ARGUMENT`, also for an unknown member.
 */
export function checkStoreOptions(
  given: unknown,
  driverMembers: readonly string[] = [],
): { readonly store: DovecoteOptions; readonly driver: Record<string, unknown> } {
  const members = ["maxEventBytes", "maxAnswerBytes", "keySecret", "redact", "randomBytes", ...driverMembers];
  const { maxEventBytes, maxAnswerBytes, keySecret, redact, randomBytes, ...driver } = checkOptions(
    given,
    members,
    "options",
  );
  if (redact !== undefined && typeof redact !== "function")
    throw invalid("options.redact", "a function", redact);
  if (randomBytes !== undefined && typeof randomBytes !== "function") {
    throw invalid("options.randomBytes", "a function", randomBytes);
  }
  const store: DovecoteOptions = {
    maxEventBytes: checkWhole(
      orDefault(maxEventBytes, BOUNDS.eventBytes),
      BOUNDS.maxEventBytes,
      "options.maxEventBytes",
    ),
    maxAnswerBytes: checkWhole(
      orDefault(maxAnswerBytes, BOUNDS.answerBytes),
      BOUNDS.maxAnswerBytes,
      "options.maxAnswerBytes",
    ),
    ...(keySecret !== undefined && { keySecret: checkSecret(keySecret) }),
    ...(redact !== undefined && { redact: redact as Redact }),
    ...(randomBytes !== undefined && { randomBytes: randomBytes as RandomBytes }),
  };
  return { store, driver };
}

const SHORTEST_SECRET = 16;

function checkSecret(value: unknown): Uint8Array {
  const bytes = typeof value === "string" ? new TextEncoder().encode(value) : value;
  if (bytes instanceof Uint8Array && bytes.length >= SHORTEST_SECRET) return new Uint8Array(bytes);
  throw invalid("options.keySecret", `at least ${SHORTEST_SECRET} bytes`, `a ${typeof value}`);
}

/** What every handle of a store shares. */
export interface Store<Tx, Sync extends boolean, Own extends Tx = Tx> {
  readonly driver: Driver<Tx, Sync, Own>;
  readonly maxEventBytes: number;
  readonly maxAnswerBytes: number;
  readonly keySecret: Uint8Array | undefined;
  readonly redact: Redact | undefined;
  readonly randomBytes: RandomBytes;
  readonly snapshots: OpenSnapshots;
  closing: Promise<void> | undefined;
  /** Aborts when the store is closed: whoever waits is told. */
  readonly closed: AbortController;
}

export function closed(): DovecoteError {
  return new DovecoteError("CLOSED", "the store was closed");
}

export function checkTenant(value: unknown, path: string): string {
  return checkName(value, BOUNDS.tenantBytes, path);
}
