/** What `begin` answers to a stored record, and what it has to write if it cannot. For drivers. */
import type { Micros } from "../driver.ts";
import type { Answer, BeginKey, BeginKeyOutcome } from "./driver.ts";
import type { Fingerprint } from "./fingerprint.ts";
import { isMismatch, type KeyTimes, situationOf, stricter } from "./situation.ts";

/** A record as it is read. */
export interface StoredKey extends KeyTimes {
  readonly fingerprint: Fingerprint;
  readonly attempt: number;
  /** null exactly if it was completed. */
  readonly token: Uint8Array | null;
  /** null unless it was completed. */
  readonly answer: Answer | null;
}

export type BeginStep =
  | BeginKeyOutcome
  /** As if there were no record, whether there is one or not. */
  | { readonly write: "new" }
  | { readonly write: "takeover"; readonly attempt: number }
  /** The stricter policy; the answer is `indeterminate` then (KEY-09). */
  | { readonly write: "refuse"; readonly since: Micros };

/** `now` is the database's, read together with the record. */
export function beginStep(
  stored: StoredKey | undefined,
  { fingerprint, takeover, token }: Pick<BeginKey, "fingerprint" | "takeover" | "token">,
  now: Micros,
): BeginStep {
  const situation = stored === undefined ? "gone" : situationOf(stored, now);
  if (stored === undefined || situation === "gone") return { write: "new" };
  // Before every other answer, while the fingerprint is kept (KEY-04).
  if (isMismatch(stored.fingerprint, fingerprint)) return { outcome: "mismatch" };
  const { attempt, answer, expiresAt, completedAt } = stored;
  const [expiry, completion] = [expiresAt ?? now, completedAt ?? now];
  switch (situation) {
    case "live":
      // What an earlier call made whose reply was lost (KEY-14).
      if (sameBytes(stored.token, token)) {
        return { outcome: "acquired", attempt, expiresAt: expiry, takenOver: attempt > 1 };
      }
      return { outcome: "inFlight", remainingMs: Math.ceil((expiry - now) / 1000) };
    case "free":
      return stricter(stored.takeover, takeover) === "refuse"
        ? { write: "refuse", since: expiry }
        : { write: "takeover", attempt: attempt + 1 };
    case "indeterminate":
      return { outcome: "indeterminate", since: expiry };
    case "tombstone":
      return { outcome: "expired", completedAt: completion };
    case "kept":
      if (answer !== null && "body" in answer) {
        return { outcome: "replay", answer, completedAt: completion };
      }
      return {
        outcome: "unreplayable",
        answer: answer ?? { reason: "unknown", status: null },
        completedAt: completion,
      };
  }
}

function sameBytes(one: Uint8Array | null, other: Uint8Array): boolean {
  return one !== null && one.length === other.length && one.every((byte, index) => byte === other[index]);
}
