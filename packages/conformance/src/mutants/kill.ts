/** Whether a case notices that a driver is broken, and says the right thing about it. */
import assert from "node:assert/strict";
import type { Case, Level } from "../case.ts";
import { cases } from "../cases/index.ts";
import type { Harness, Mutant } from "../define-harness.ts";
import type { ContenderPool } from "../engine/pool.ts";
import { runCase } from "../run.ts";
import { semanticMutants } from "./semantic/index.ts";

/** What a driver says of an error that it has no word for. */
const UNKNOWN = "DRIVER_FAILURE";

/** A mutant that was noticed. */
export interface Kill {
  readonly by: Case;
  readonly message: string;
}

/** Mutants of a driver: those that can be made of any driver with its capabilities, and the harness's own. */
export function mutantsOf({ capabilities, mutants = [] }: Harness): readonly Mutant[] {
  const breaking = semanticMutants.filter(({ on = {} }) =>
    Object.entries(on).every(([name, value]) => capabilities[name as keyof typeof capabilities] === value),
  );
  return [...breaking, ...mutants];
}

/** The cases that have to notice a mutant, the simplest first. */
export function suspectsOf({ breaks }: Mutant, levels: readonly Level[] = [1, 2, 3]): readonly Case[] {
  return cases
    .filter(({ id, level }) => id === breaks && levels.includes(level))
    .sort((a, b) => a.level - b.level);
}

/**
 * Runs cases until one fails; `undefined` if the mutant survives them all.
 *
 * @throws `AssertionError` if a case failed, but not with an assertion of its own or for another reason.
 */
export async function attack(
  harness: Harness,
  mutant: Mutant,
  suspects: readonly Case[],
  pool: ContenderPool,
): Promise<Kill | undefined> {
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
      `${mutant.breaks} failed on mutant ${mutant.name} for another reason: ${failure.message}`,
    );
    assert.ok(
      !("texts" in mutant) || !failure.message.includes(UNKNOWN) || mutant.because.source.includes(UNKNOWN),
      `the statement of mutant ${mutant.name} fails by itself: ${failure.message}`,
    );
    return { by: suspect, message: failure.message };
  }
  return undefined;
}

async function failureOf(run: () => Promise<void>): Promise<unknown> {
  try {
    await run();
    return undefined;
  } catch (error) {
    return error ?? new Error("something was thrown that is nothing");
  }
}
