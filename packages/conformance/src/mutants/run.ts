/** The suite tests itself: every mutant has to be caught by the case named for it, and for its own reason. */
import assert from "node:assert/strict";
import type { Level } from "../case.ts";
import { ContenderPool } from "../engine/pool.ts";
import { loadHarness } from "../load-harness.ts";
import { CASE_TIMEOUT_MS, type TestRunner } from "../run.ts";
import { attack, mutantsOf, suspectsOf } from "./kill.ts";

export interface MutantOptions extends TestRunner {
  /** Cases of another level are left to another run, and with them the mutants that only they notice. Default: all. */
  readonly levels?: readonly Level[];
  /** `own`: only those that the harness declares. Default: also those that can be made of any driver. */
  readonly of?: "all" | "own";
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
  { describe, it, afterAll, levels = [1, 2, 3], of = "all" }: MutantOptions,
): Promise<void> {
  const harness = await loadHarness(harnessUrl.href);
  const pool = new ContenderPool(harnessUrl.href);
  describe("mutants", () => {
    for (const mutant of of === "all" ? mutantsOf(harness) : (harness.mutants ?? [])) {
      const { name, breaks } = mutant;
      const suspects = suspectsOf(mutant, levels);
      if (suspects.length === 0 && suspectsOf(mutant).length > 0) continue;
      it(
        `${breaks} notices ${name}`,
        async () => {
          assert.ok(suspects.length > 0, `no case has the id ${breaks} that mutant ${name} breaks`);
          const kill = await attack(harness, mutant, suspects, pool);
          assert.ok(kill, `mutant ${name} survived: ${breaks} holds on a driver that breaks it`);
        },
        CASE_TIMEOUT_MS * Math.max(1, suspects.length),
      );
    }
  });
  afterAll(() => pool.close());
}
