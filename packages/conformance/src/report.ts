/** What a run of the suite found, as data that is published: `conformance-report.json`. */
import { readFileSync } from "node:fs";
import type { Capabilities } from "@dovecote/core";
import { badgeMessage } from "./badge.ts";
import type { Case, Level } from "./case.ts";
import type { Harness } from "./define-harness.ts";
import type { RaceReport } from "./engine/race.ts";
import type { KillRate } from "./kill-rates.ts";
import { LEVELS } from "./select.ts";

const REPORT_SCHEMA = "https://unpkg.com/@dovecote/conformance/dist/report.schema.json";

/**
 * `deviates`: it failed, as its deviation says. `skipped`: it was not run, for a reason that is given; today no case is.
 */
export type Outcome = "passed" | "failed" | "deviates" | "skipped";

export interface CaseResult {
  readonly id: string;
  readonly level: Level;
  readonly intent: string;
  readonly outcome: Outcome;
  readonly ms: number;
  /** What failed, or why it was skipped. */
  readonly message?: string;
  /** Why this guarantee is known not to be kept, and where that is discussed. */
  readonly deviation?: { readonly reason: string; readonly issue: string };
  /** New in the suite: shown, and without a say in the outcome of its level. */
  readonly provisional?: true;
  /** Of a case that races processes: its rounds, and those in which calls overlapped. */
  readonly race?: RaceReport;
  /** Of a case that needs several sessions: how often it noticed broken drivers when the suite was made. */
  readonly killRate?: KillRate;
}

/**
 * `partial`: everything holds but what is listed as a deviation. `notRun`: not all of its cases were run, and none of
 * those that were failed.
 */
export type LevelOutcome = "passed" | "failed" | "partial" | "notRun";

export interface Report {
  readonly $schema: string;
  readonly reportVersion: 1;
  readonly contract: 1;
  /** The version of the suite. */
  readonly suite: string;
  readonly driver: Harness["driver"];
  readonly capabilities: Capabilities;
  readonly seed: number;
  /** What was asked for. */
  readonly asked: { readonly levels: readonly Level[]; readonly only?: readonly string[] };
  readonly startedAt: string;
  readonly durationMs: number;
  readonly node: string;
  readonly os: { readonly platform: string; readonly arch: string };
  readonly cases: readonly CaseResult[];
  readonly levels: Readonly<Record<Level, LevelOutcome>>;
  /** The run was ended before its last case. */
  readonly interrupted: boolean;
  /** What the harness left behind and kept the process alive with. */
  readonly leaks: readonly string[];
  readonly badge: string;
}

/** Everything that was asked for was run, and nothing failed that counts. */
export function holds({ cases, interrupted, leaks }: Report): boolean {
  return !interrupted && leaks.length === 0 && !cases.some(isFailure);
}

export function isFailure({ outcome, provisional }: CaseResult): boolean {
  return outcome === "failed" && provisional !== true;
}

export function levelOutcomes(
  suite: readonly Case[],
  results: readonly CaseResult[],
): Readonly<Record<Level, LevelOutcome>> {
  const outcomeOf = (level: Level): LevelOutcome => {
    const required = suite.filter((each) => each.level === level && each.provisional !== true);
    const found = results.filter((each) => each.level === level && each.provisional !== true);
    if (found.some(isFailure)) return "failed";
    if (found.length < required.length || required.length === 0) return "notRun";
    return found.every(({ outcome }) => outcome === "passed") ? "passed" : "partial";
  };
  return { 1: outcomeOf(1), 2: outcomeOf(2), 3: outcomeOf(3) };
}

/** Everything that a report is made of. */
interface Findings
  extends Pick<
    Report,
    "driver" | "capabilities" | "seed" | "asked" | "durationMs" | "cases" | "interrupted"
  > {
  readonly suite: readonly Case[];
  readonly startedAt: Date;
}

export function makeReport({ suite, driver, startedAt, capabilities, ...found }: Findings): Report {
  const levels = levelOutcomes(suite, found.cases);
  return {
    $schema: REPORT_SCHEMA,
    reportVersion: 1,
    contract: 1,
    suite: suiteVersion(),
    driver: { name: driver.name, version: driver.version, contract: driver.contract },
    capabilities: { ...capabilities },
    ...found,
    asked: { ...found.asked, levels: LEVELS.filter((level) => found.asked.levels.includes(level)) },
    startedAt: startedAt.toISOString(),
    node: process.versions.node,
    os: { platform: process.platform, arch: process.arch },
    levels,
    leaks: [],
    badge: badgeMessage(levels),
  };
}

export function suiteVersion(): string {
  const manifest = readFileSync(new URL("../package.json", import.meta.url), "utf8");
  return (JSON.parse(manifest) as { readonly version: string }).version;
}
