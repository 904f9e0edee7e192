/** The claim of an event as callers hold it, and the proof that every later write carries. */
import { checkAttempt, checkRowId, invalid } from "./arguments.ts";
import type { ClaimedRow, ClaimProof } from "./driver.ts";
import { decodeEvent } from "./event/decode.ts";
import type { OutboxEvent, UndecodableEvent } from "./event/event.ts";
import { toDate } from "./micros.ts";
import { ClaimToken, tokenBytes } from "./token.ts";

/**
 * The exclusive, time-limited right to deliver one event. Plain data but for its token; the pair `(rowId, attempt)`
 * is the downstream fence: it only ever rises for an event.
 */
export interface Claim {
  readonly rowId: number;
  readonly tenant: string;
  readonly stream: string;
  /** Rises by one with every claim of the row (FENCE-04). */
  readonly attempt: number;
  /** Attempts that do not count: budget used = `attempt - forgiven`. */
  readonly forgiven: number;
  readonly token: ClaimToken;
  readonly worker: string;
  /** The previous claim of this row ended by expiry: its holder crashed, stalled, or was too slow. */
  readonly reclaimed: boolean;
  readonly shared: boolean;
  /** By the database's clock, for people: the database judges, not this date. */
  readonly expiresAt: Date;
  /** The event, or why its stored row could not be decoded (CLAIM-15); such a claim can still be settled. */
  readonly event: OutboxEvent | UndecodableEvent;
}

/**
 * What proves a claim: a `Claim`, or its three parts as handed over by another process.
 *
 * @example
 * await shop.ack({ rowId: 17, attempt: 2, token: "0f3c…32 hex digits" });
 */
export interface ClaimRef {
  readonly rowId: number;
  readonly attempt: number;
  readonly token: ClaimToken | string;
}

/** Whether the event of a claim could be decoded. */
export function isDecoded(event: OutboxEvent | UndecodableEvent): event is OutboxEvent {
  return !("undecodable" in event);
}

export function toClaim(row: ClaimedRow, worker: string, shared: boolean): Claim {
  return {
    rowId: row.rowId,
    tenant: row.tenant,
    stream: row.event.stream,
    attempt: row.attempt,
    forgiven: row.forgiven,
    token: new ClaimToken(row.token),
    worker,
    reclaimed: row.reclaimed,
    shared,
    expiresAt: toDate(row.expiresAt),
    event: decodeOrExplain(row.event),
  };
}

export function decodeOrExplain(record: Parameters<typeof decodeEvent>[0]): OutboxEvent | UndecodableEvent {
  try {
    return decodeEvent(record);
  } catch (error) {
    return { undecodable: error instanceof Error ? error.message : "the stored event cannot be decoded" };
  }
}

/** Validates what a caller presents as a claim. */
export function toProof(value: unknown, path: string): ClaimProof {
  if (typeof value !== "object" || value === null) throw invalid(path, "a claim", value);
  const { rowId, attempt, token } = value as Partial<ClaimRef>;
  return {
    rowId: checkRowId(rowId, `${path}.rowId`),
    attempt: checkAttempt(attempt, `${path}.attempt`),
    token: tokenBytes(token, `${path}.token`),
  };
}
