/** The suite inside a test runner of the author's choice. */
import type { Case } from "./case.ts";
import { cases } from "./cases/index.ts";
import { KnownDeviations, staleMessage } from "./deviations.ts";
import { ContenderPool } from "./engine/pool.ts";
import { loadHarness } from "./load-harness.ts";
import { CASE_TIMEOUT_MS, drawSeed, runCase, type TestRunner } from "./run.ts";
import { LEVELS, type Selection, selectCases } from "./select.ts";

/** Case and clean-up have limits of their own, with better messages. */
const RUNNER_TIMEOUT_MS = 2 * CASE_TIMEOUT_MS;

export interface ConformanceOptions extends TestRunner, Selection {
  /** To repeat a failure. Default: drawn. */
  readonly seed?: number;
}

/**
 * Registers the suite with a test runner: one test per case, titled by its id. Cases of a known deviation of the
 * harness pass by failing.
 *
 * @example
 * import { afterAll, describe, it } from "vitest";
 * runConformance(new URL("../conformance/harness.ts", import.meta.url), { describe, it, afterAll });
 *
 * @example
 * import { after, describe, it } from "node:test";
 * runConformance(new URL("../conformance/harness.ts", import.meta.url), { describe, it, afterAll: after });
 */
export function runConformance(
  harnessUrl: URL,
  { describe, it, afterAll, levels, only, seed = drawSeed() }: ConformanceOptions,
): void {
  const chosen = selectCases(cases, { levels, only });
  const pool = new ContenderPool(harnessUrl.href);
  let deviations: KnownDeviations | undefined;
  const run = async (each: Case): Promise<void> => {
    const harness = await loadHarness(harnessUrl.href);
    deviations ??= new KnownDeviations(harness.deviations ?? [], cases);
    const failure = await failureOf(() => runCase(harness, each, { pool, seed }));
    if (deviations.find(each.id) === undefined) {
      if (failure !== undefined) throw withSeed(failure.error, seed);
    } else if (deviations.note(each, failure === undefined) === "stale") {
      throw new Error(staleMessage(each.id));
    }
  };
  for (const level of LEVELS) {
    const ofLevel = chosen.filter((each) => each.level === level && each.provisional !== true);
    if (ofLevel.length === 0) continue;
    describe(`level ${level}`, () => {
      for (const each of ofLevel) it(`${each.id}: ${each.intent}`, () => run(each), RUNNER_TIMEOUT_MS);
    });
  }
  afterAll(() => pool.close());
}

async function failureOf(run: () => Promise<void>): Promise<{ readonly error: unknown } | undefined> {
  try {
    await run();
    return undefined;
  } catch (error) {
    return { error };
  }
}

/** Runners print the message, the stack or both. */
function withSeed(error: unknown, seed: number): unknown {
  if (!(error instanceof Error)) return error;
  const message = `${error.message}\nseed ${seed}`;
  if (error.stack !== undefined) error.stack = error.stack.replace(error.message, () => message);
  error.message = message;
  return error;
}
