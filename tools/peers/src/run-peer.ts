/** The cases of the suite that ask about events, claims and settlements, run against a library. */
import type { Case } from "../../../packages/conformance/src/case.ts";
import { hostileCases } from "../../../packages/conformance/src/cases/hostile.ts";
import { cases } from "../../../packages/conformance/src/cases/index.ts";
import { runCases } from "../../../packages/conformance/src/suite.ts";
import { type Outcome, outcomeOf } from "./outcome.ts";

const GROUPS = /^(TX|ID|CLAIM|LEASE|FENCE|SETTLE)-/;

/** Sessions with unusual settings are a promise of Dovecote's alone: their cases are left out. */
export const peerCases: readonly Case[] = cases.filter(
  (each) => GROUPS.test(each.id) && each.level <= 2 && !hostileCases.includes(each),
);

export interface Finding {
  readonly case: Case;
  readonly outcome: Outcome;
}

export function titleOf({ id, intent }: Pick<Case, "id" | "intent">): string {
  return `${id}: ${intent}`;
}

/** Runs those with the given ids, all of them by default, one after another. */
export async function runPeer(
  harness: URL,
  only: readonly string[] | undefined,
  seed: number,
  onFinding: (finding: Finding) => void,
): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  const byTitle = new Map(peerCases.map((each) => [titleOf(each), each]));
  await runCases(peerCases, harness, { levels: [1, 2], only, seed }, (event) => {
    if (event.kind !== "caseFinished") return;
    const each = byTitle.get(titleOf(event.case));
    if (each === undefined) throw new Error(`there is no case ${titleOf(event.case)}`);
    const finding = { case: each, outcome: outcomeOf(event.error) };
    findings.push(finding);
    onFinding(finding);
  });
  return findings;
}
