/** A run of the suite: which cases, in which order, and what became of each. */
import { AssertionError } from "node:assert";
import { DovecoteError } from "@dovecote/core";
import type { Case } from "./case.ts";
import { cases as suiteCases } from "./cases/index.ts";
import type { Deviation, Harness } from "./define-harness.ts";
import { KnownDeviations, staleMessage } from "./deviations.ts";
import { ContenderPool } from "./engine/pool.ts";
import type { RaceReport } from "./engine/race.ts";
import { anonymous, messageOf } from "./failure-message.ts";
import { KILL_RATES } from "./kill-rates.ts";
import { loadHarness } from "./load-harness.ts";
import { type CaseResult, makeReport, type Report, suiteVersion } from "./report.ts";
import { CASE_TIMEOUT_MS, drawSeed, runCase } from "./run.ts";
import { LEVELS, type Selection, selectCases } from "./select.ts";
import { Strays } from "./strays.ts";
import { HARNESS_TIMEOUT_MS, tryHarness } from "./use-harness.ts";

export interface SuiteOptions extends Selection {
  /** What everything random in the cases is made of. Default: drawn. */
  readonly seed?: number | undefined;
  /** How long a soak takes. */
  readonly soakMs?: number | undefined;
  /** For one case. Default: 60 s, and the time of a soak. */
  readonly timeoutMs?: number | undefined;
  /** Beside those that the harness declares. */
  readonly deviations?: readonly Deviation[] | undefined;
  /** Ends the run: the case that is under way is abandoned, and the report has those before it. */
  readonly signal?: AbortSignal | undefined;
}

type Plain = Pick<Case, "id" | "level" | "intent">;

export type SuiteEvent =
  | ({
      readonly kind: "start";
      readonly suite: string;
      readonly total: number;
    } & Pick<Report, "driver" | "capabilities" | "seed">)
  | { readonly kind: "caseStarted"; readonly case: Plain }
  /** `error` is what was thrown, with its stack, for those who can look into it. */
  | { readonly kind: "caseFinished"; readonly case: CaseResult; readonly error?: unknown };

/**
 * Runs the suite against a harness, in this process, and answers its report. A case that hangs is abandoned, and its
 * processes are ended.
 *
 * @throws HarnessError | TimeLimitError if the harness cannot be used at all
 * @throws MisuseError for a level, an id or a deviation that there is not
 *
 * @example
 * const report = await runSuite(new URL("./harness.ts", import.meta.url), { levels: [1], seed: 7 });
 */
export function runSuite(
  harnessUrl: URL,
  options: SuiteOptions = {},
  onEvent: (event: SuiteEvent) => void = () => {},
): Promise<Report> {
  return runCases(suiteCases, harnessUrl, options, onEvent);
}

export async function runCases(
  suite: readonly Case[],
  harnessUrl: URL,
  options: SuiteOptions,
  onEvent: (event: SuiteEvent) => void,
): Promise<Report> {
  const { seed = drawSeed(), timeoutMs = CASE_TIMEOUT_MS, levels = LEVELS, only, signal } = options;
  const chosen = selectCases(suite, options);
  const harness = await loadHarness(harnessUrl.href);
  const declared = [...(harness.deviations ?? []), ...(options.deviations ?? [])];
  const deviations = new KnownDeviations(declared, suite);
  await tryHarness(harness, { limitMs: Math.min(HARNESS_TIMEOUT_MS, timeoutMs), signal });

  const { driver, capabilities } = harness;
  onEvent({ kind: "start", suite: suiteVersion(), total: chosen.length, driver, capabilities, seed });
  const startedAt = new Date();
  const begun = performance.now();
  const results: CaseResult[] = [];
  const pool = new ContenderPool(harnessUrl.href);
  const strays = new Strays();
  const settings = { ...options, seed, timeoutMs };
  for (const each of chosen) {
    onEvent({ kind: "caseStarted", case: { id: each.id, level: each.level, intent: each.intent } });
    const ended = await attempt(harness, each, { pool, strays }, settings);
    if (signal?.aborted) break;
    const result = resultOf(each, ended, deviations, harnessUrl);
    results.push(result);
    const { error } = ended;
    onEvent({ kind: "caseFinished", case: result, ...(error !== undefined && { error }) });
  }
  await pool.close();
  strays.stop();
  return makeReport({
    suite,
    driver,
    capabilities,
    seed,
    asked: { levels, ...(only !== undefined && { only }) },
    startedAt,
    durationMs: Math.round(performance.now() - begun),
    cases: results,
    interrupted: signal?.aborted ?? false,
  });
}

/** How a case has ended: with an error, or well. */
interface Ended {
  readonly held: boolean;
  readonly error?: unknown;
  readonly ms: number;
  readonly races: readonly RaceReport[];
}

async function attempt(
  harness: Harness,
  each: Case,
  { pool, strays }: { readonly pool: ContenderPool; readonly strays: Strays },
  { seed, soakMs, timeoutMs, signal }: SuiteOptions & { readonly seed: number; readonly timeoutMs: number },
): Promise<Ended> {
  const begun = performance.now();
  const races: RaceReport[] = [];
  const ended = (how: Pick<Ended, "held" | "error">): Ended => ({
    ...how,
    ms: Math.round(performance.now() - begun),
    races,
  });
  try {
    await strays.during((stray) =>
      runCase(harness, each, {
        pool,
        seed,
        timeoutMs,
        signal: signal === undefined ? stray : AbortSignal.any([signal, stray]),
        onRace: (report) => races.push(report),
        ...(soakMs !== undefined && { soakMs }),
      }),
    );
    return ended({ held: true });
  } catch (error) {
    return ended({ held: false, error });
  }
}

function resultOf(each: Case, ended: Ended, deviations: KnownDeviations, harnessUrl: URL): CaseResult {
  const { id, level, intent, provisional } = each;
  const { held, error, ms, races } = ended;
  const killRate = KILL_RATES[`${id}: ${intent}`];
  const result = {
    id,
    level,
    intent,
    ms,
    ...(provisional && { provisional }),
    ...(races.length > 0 && { race: total(races) }),
    ...(killRate !== undefined && { killRate }),
  };
  const message = (): string => anonymous(messageOf(error), harnessUrl) || "it failed without a message";
  const known = deviations.find(id);
  if (known === undefined) {
    return held ? { ...result, outcome: "passed" } : { ...result, outcome: "failed", message: message() };
  }
  const deviation = { reason: known.reason, issue: known.issue };
  // A harness that fails, or a case that does not end, says nothing of what the driver keeps.
  if (!held && !(error instanceof AssertionError) && !(error instanceof DovecoteError)) {
    return { ...result, outcome: "failed", message: message(), deviation };
  }
  switch (deviations.note(each, held)) {
    case "deviates":
      return { ...result, outcome: "deviates", message: message(), deviation };
    case "stale":
      return { ...result, outcome: "failed", message: staleMessage(id), deviation };
    case "undecided":
      return { ...result, outcome: "passed", deviation };
  }
}

function total(races: readonly RaceReport[]): RaceReport {
  return {
    rounds: races.reduce((sum, { rounds }) => sum + rounds, 0),
    overlaps: races.reduce((sum, { overlaps }) => sum + overlaps, 0),
  };
}
