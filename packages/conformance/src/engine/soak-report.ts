/** What a soak did, in numbers. */
import type { Violation } from "../history/check.ts";
import type { FinalRow, Operation } from "../history/operation.ts";
import { UNTYPED } from "../history/record.ts";

export interface SoakReport {
  readonly seed: number;
  /** Such as `{ "ack ok": 512, "ack fail": 9 }`. */
  readonly operations: Readonly<Record<string, number>>;
  /** Rows in the end. */
  readonly events: number;
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
  /** Rejections with anything but an error of the contract, each text once. */
  readonly untyped: readonly string[];
  readonly violations: readonly Violation[];
}

const STALE: ReadonlySet<string> = new Set(["lostClaim", "illegalTransition"]);

export function countsOf(
  operations: readonly Operation[],
  final: readonly FinalRow[],
): Omit<SoakReport, "seed" | "kills" | "freezes" | "zombies" | "violations"> {
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
    untyped: [
      ...new Set(operations.flatMap(({ answer = "" }) => (answer.startsWith(UNTYPED) ? answer : []))),
    ],
  };
}

const WANTED = ["kills", "freezes", "zombies", "duplicates", "rollbacks", "takeovers", "refusals"] as const;
type Wanted = (typeof WANTED)[number];

/** What has to happen in a soak and did not: without it a clean history says little. */
export function missing(
  done: Pick<SoakReport, "kills" | "freezes" | "zombies">,
  counts: Omit<Pick<SoakReport, Wanted>, keyof typeof done>,
): readonly Wanted[] {
  const all = { ...done, ...counts };
  return WANTED.filter((each) => all[each] === 0);
}
