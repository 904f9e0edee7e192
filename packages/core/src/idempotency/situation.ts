/** What a record is worth at a moment: a function of its times and of nothing else, swept or not (KEY-12, KEY-13). */
import type { Micros } from "../driver.ts";
import type { KeyRecord, Takeover } from "./driver.ts";
import type { Fingerprint } from "./fingerprint.ts";

/** What a record's situation is judged by. */
export interface KeyTimes {
  readonly takeover: Takeover;
  readonly retentionMs: number;
  readonly tombstoneMs: number;
  /** null exactly if it was completed. */
  readonly expiresAt: Micros | null;
  readonly completedAt: Micros | null;
}

export type Situation =
  /** Claimed, under a lease. */
  | "live"
  /** Claimed, the lease is over: the next one may take over. */
  | "free"
  /** Claimed, the lease is over: nobody knows what happened. */
  | "indeterminate"
  /** Completed: the answer, or why there is none, is given again. */
  | "kept"
  /** Completed long ago: known to have been, and no more. */
  | "tombstone"
  /** As if it were not there. */
  | "gone";

const MICROS_PER_MS = 1000;

/** `now` is the database's, read together with the record. */
export function situationOf(
  { takeover, retentionMs, tombstoneMs, expiresAt, completedAt }: KeyTimes,
  now: Micros,
): Situation {
  const retention = retentionMs * MICROS_PER_MS;
  if (completedAt !== null) {
    if (now < completedAt + retention) return "kept";
    return now < completedAt + retention + tombstoneMs * MICROS_PER_MS ? "tombstone" : "gone";
  }
  const expiry = expiresAt ?? 0;
  if (expiry > now) return "live";
  if (takeover === "refuse") return "indeterminate";
  return now < expiry + retention ? "free" : "gone";
}

/** From when on it is worth nothing, for the sweep; null: never by itself. */
export function sweepAt({
  takeover,
  retentionMs,
  tombstoneMs,
  expiresAt,
  completedAt,
}: KeyTimes): Micros | null {
  if (completedAt !== null) return completedAt + (retentionMs + tombstoneMs) * MICROS_PER_MS;
  return takeover === "refuse" || expiresAt === null ? null : expiresAt + retentionMs * MICROS_PER_MS;
}

/** Whether it is known that the request is another one: digests of two algorithms say nothing (KEY-04). */
export function isMismatch(stored: Fingerprint, given: Fingerprint): boolean {
  if (stored.algorithm !== given.algorithm) return false;
  const { digest } = given;
  return (
    stored.digest.length !== digest.length || stored.digest.some((byte, index) => byte !== digest[index])
  );
}

/** A later `begin` can only make the policy stricter (KEY-09). */
export function stricter(stored: Takeover, given: Takeover): Takeover {
  return stored === "refuse" ? stored : given;
}

const STATES = {
  live: "inFlight",
  free: "free",
  indeterminate: "indeterminate",
  kept: "completed",
  tombstone: "expired",
} as const;

/** The situation as people see it; null if the record is worth nothing any more. */
export function recordState(times: KeyTimes, now: Micros): KeyRecord["state"] | null {
  const situation = situationOf(times, now);
  return situation === "gone" ? null : STATES[situation];
}
