/**
 * The public limits of contract 1. Everything is checked before any I/O: a breach is a typed error and nothing is
 * written. All lengths are UTF-8 bytes, all durations whole milliseconds.
 */

const SECOND = 1000;
const HOUR = 3600 * SECOND;
const DAY = 24 * HOUR;

/** An inclusive range of whole numbers. */
export interface Range {
  readonly min: number;
  readonly max: number;
}

/** Every bound of the contract by name. */
export interface Bounds {
  /** Rows of one claim, page, list, batch, redrive or prune. */
  readonly limit: Range;
  readonly leaseMs: Range;
  /** First availability at enqueue, backoff of a retry, delay of a release. */
  readonly delayMs: Range;
  readonly retentionMs: Range;
  readonly idBytes: number;
  readonly sourceBytes: number;
  /** `id` and `source` together: the identity is indexed (ID-07). */
  readonly identityBytes: number;
  readonly typeBytes: number;
  readonly subjectBytes: number;
  readonly dataschemaBytes: number;
  readonly datacontenttypeBytes: number;
  readonly partitionkeyBytes: number;
  readonly tenantBytes: number;
  readonly streamBytes: number;
  readonly workerBytes: number;
  readonly failureCodeBytes: number;
  readonly failureDetailBytes: number;
  readonly quarantineReasonBytes: number;
  /** Of an idempotency key, printable ASCII. */
  readonly idempotencyKeyBytes: number;
  readonly principalBytes: number;
  readonly methodBytes: number;
  readonly pathBytes: number;
  /** How long an expired answer is still known to have been. */
  readonly tombstoneMs: Range;
  /** Of a recorded answer. */
  readonly status: Range;
  /** Headers and body of a recorded answer; the default of `maxAnswerBytes`. */
  readonly answerBytes: number;
  /** What `maxAnswerBytes` may be set to. */
  readonly maxAnswerBytes: Range;
  /** Attributes, extensions and data of one event; the default of `maxEventBytes`. */
  readonly eventBytes: number;
  /** What `maxEventBytes` may be set to. */
  readonly maxEventBytes: Range;
  /** The highest attempt: a row that has reached it is never claimed again (CLAIM-13). */
  readonly attempt: number;
  readonly tokenBytes: number;
  /** How long an operation waits for a lock that somebody else holds, where the driver has to wait at all. */
  readonly busyBudgetMs: Range;
}

export const BOUNDS: Bounds = Object.freeze({
  limit: range(1, 1000),
  leaseMs: range(1, DAY),
  delayMs: range(0, 30 * DAY),
  retentionMs: range(1, 366 * DAY),
  idBytes: 1024,
  sourceBytes: 2048,
  identityBytes: 2048,
  typeBytes: 1024,
  subjectBytes: 2048,
  dataschemaBytes: 2048,
  datacontenttypeBytes: 255,
  partitionkeyBytes: 255,
  tenantBytes: 255,
  streamBytes: 255,
  workerBytes: 255,
  failureCodeBytes: 128,
  failureDetailBytes: 2048,
  quarantineReasonBytes: 2048,
  idempotencyKeyBytes: 255,
  principalBytes: 1024,
  methodBytes: 32,
  pathBytes: 8192,
  tombstoneMs: range(0, 366 * DAY),
  status: range(200, 599),
  answerBytes: 2 * 1024 * 1024,
  eventBytes: 65_536,
  maxEventBytes: range(1, 64 * 1024 * 1024),
  maxAnswerBytes: range(1, 64 * 1024 * 1024),
  attempt: 2_147_483_647,
  tokenBytes: 16,
  busyBudgetMs: range(0, 10 * 60 * SECOND),
});

function range(min: number, max: number): Range {
  return Object.freeze({ min, max });
}
