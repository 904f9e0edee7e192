/** The suite tests itself: every mutant has to be caught by the case named for it, and for its own reason. */
import assert from "node:assert/strict";
import type { Level } from "../case.ts";
import { cases } from "../cases/index.ts";
import type { Harness, Mutant } from "../define-harness.ts";
import { ContenderPool } from "../engine/pool.ts";
import { loadHarness } from "../load-harness.ts";
import { CASE_TIMEOUT_MS, runCase, type TestRunner } from "../run.ts";
import { semanticMutants } from "./semantic.ts";

export interface MutantOptions extends TestRunner {
  /** Mutants whose case has another level are left to another run. Default: every level. */
  readonly levels?: readonly Level[];
}

/**
 * Registers one test per mutant: those that can be made of any driver, and the harness's own.
 *
 * @example
 * import { afterAll, describe, it } from "vitest";
 * await runMutants(new URL("../conformance/harness.ts", import.meta.url), { describe, it, afterAll });
 */
export async function runMutants(
  harnessUrl: URL,
  { describe, it, afterAll, levels }: MutantOptions,
): Promise<void> {
  const harness = await loadHarness(harnessUrl.href);
  const pool = new ContenderPool(harnessUrl.href);
  describe("mutants", () => {
    for (const mutant of [...semanticMutants, ...(harness.mutants ?? [])]) {
      if (
        levels !== undefined &&
        !levels.some((level) => casesOf(mutant).some((each) => each.level === level))
      )
        continue;
      const title = `${mutant.breaks} notices ${mutant.name}`;
      it(title, () => assertKilled(harness, mutant, pool), CASE_TIMEOUT_MS);
    }
  });
  afterAll(() => pool.close());
}

/** Runs the cases of the id that the mutant breaks until one fails, and asserts that it failed for the right reason. */
async function assertKilled(harness: Harness, mutant: Mutant, pool: ContenderPool): Promise<void> {
  const suspects = casesOf(mutant);
  assert.ok(suspects.length > 0, `no case has the id ${mutant.breaks} that mutant ${mutant.name} breaks`);
  for (const suspect of suspects) {
    const failure = await failureOf(() => runCase(harness, suspect, { pool, mutant: mutant.name }));
    if (failure === undefined) continue;
    assert.ok(
      failure instanceof assert.AssertionError,
      `${mutant.breaks} must fail with an assertion of its own on mutant ${mutant.name}, got ${String(failure)}`,
    );
    assert.match(
      failure.message,
      mutant.because,
      `${mutant.breaks} failed on mutant ${mutant.name} for another reason`,
    );
    return;
  }
  assert.fail(`mutant ${mutant.name} survived: ${mutant.breaks} holds on a driver that breaks it`);
}

function casesOf({ breaks }: Mutant): typeof cases {
  return cases.filter(({ id }) => id === breaks);
}

async function failureOf(run: () => Promise<void>): Promise<unknown> {
  try {
    await run();
    return undefined;
  } catch (error) {
    return error;
  }
}
