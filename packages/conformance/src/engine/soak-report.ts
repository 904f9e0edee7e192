/** What a soak did, in numbers. */
import type { Violation } from "../history/check.ts";
import { KEY_ID } from "../history/keys.ts";
import type { FinalRow, Operation } from "../history/operation.ts";
import { UNTYPED } from "../history/record.ts";

export interface SoakReport {
  readonly seed: number;
  /** Such as `{ "ack ok": 512, "ack fail": 9 }`. */
  readonly operations: Readonly<Record<string, number>>;
  /** Rows in the end. */
  readonly events: number;
  /** Processes that claimed idempotency keys. */
  readonly payers: number;
  readonly kills: number;
  /** Processes that were stopped anywhere, for longer than a short lease. */
  readonly freezes: number;
  /** Processes that were stopped while they held claims, until these were taken over. */
  readonly zombies: number;
  /** Enqueues that found what they wanted to store. */
  readonly duplicates: number;
  readonly rollbacks: number;
  /** Claims that followed an expiry. */
  readonly takeovers: number;
  /** Renewals and settlements that were refused because the claim was gone. */
  readonly refusals: number;
  /** Keys that were claimed after another claim's expiry. */
  readonly keyTakeovers: number;
  /** Begins that were answered what somebody had completed. */
  readonly replays: number;
  /** Completions, renewals, releases and holds of a key that were refused because the claim was gone. */
  readonly keyRefusals: number;
  /** Rejections with anything but an error of the contract, each text once. */
  readonly untyped: readonly string[];
  readonly violations: readonly Violation[];
}

const STALE: ReadonlySet<string> = new Set(["lostClaim", "illegalTransition"]);

export function countsOf(
  operations: readonly Operation[],
  final: readonly FinalRow[],
): Omit<SoakReport, "seed" | "payers" | "kills" | "freezes" | "zombies" | "violations"> {
  const kinds: Record<string, number> = {};
  for (const { op, type } of operations) kinds[`${op} ${type}`] = (kinds[`${op} ${type}`] ?? 0) + 1;
  const answered = (...answers: readonly string[]): number =>
    operations.filter(({ answer = "" }) => answers.includes(answer)).length;
  return {
    operations: kinds,
    events: final.length,
    duplicates: answered("alreadyEnqueued"),
    rollbacks: answered("rolledBack"),
    takeovers: answered("reclaimed"),
    refusals: answered(...STALE),
    keyTakeovers: answered("takenOver"),
    replays: answered("replay"),
    keyRefusals: operations.filter(({ id, answer }) => id?.startsWith(KEY_ID) && answer === "LOST_CLAIM")
      .length,
    untyped: [
      ...new Set(operations.flatMap(({ answer = "" }) => (answer.startsWith(UNTYPED) ? answer : []))),
    ],
  };
}

const WANTED = ["kills", "freezes", "zombies", "duplicates", "rollbacks", "takeovers", "refusals"] as const;
const WANTED_OF_PAYERS = ["keyTakeovers", "replays", "keyRefusals"] as const;
type Done = Pick<SoakReport, "payers" | "kills" | "freezes" | "zombies">;
type Wanted = (typeof WANTED)[number] | (typeof WANTED_OF_PAYERS)[number];

/** What has to happen in a soak and did not: without it a clean history says little. */
export function missing(
  done: Done,
  counts: Pick<SoakReport, Exclude<Wanted, keyof Done>>,
): readonly Wanted[] {
  const all = { ...done, ...counts };
  return [...WANTED, ...(done.payers > 0 ? WANTED_OF_PAYERS : [])].filter((each) => all[each] === 0);
}
