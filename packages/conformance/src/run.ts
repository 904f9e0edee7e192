/** Running cases. Runners are thin: `describe` and `it` are injected, assertions are `node:assert`. */
import { randomInt } from "node:crypto";
import { createDovecote, type DovecoteOptions } from "@dovecote/core";
import type { Case, CaseContext, Level, Peer } from "./case.ts";
import { cases } from "./cases/index.ts";
import { connectSession } from "./connect.ts";
import type { Harness } from "./define-harness.ts";
import { ContenderPool } from "./engine/pool.ts";
import { race } from "./engine/race.ts";
import { Victim } from "./engine/victim.ts";
import { loadHarness } from "./load-harness.ts";

/** The part of a test runner that the suite needs: vitest's, `node:test`'s, or another's. */
export interface TestRunner {
  describe(title: string, body: () => void): unknown;
  it(title: string, body: () => Promise<void>, timeoutMs: number): unknown;
  afterAll(body: () => Promise<void>): unknown;
}

export interface ConformanceOptions extends TestRunner {
  /** Default: every level that has cases. */
  readonly levels?: readonly Level[];
}

export const CASE_TIMEOUT_MS = 60_000;

/**
 * Registers the suite with a test runner: one test per case, titled by its id.
 *
 * @example
 * import { afterAll, describe, it } from "vitest";
 * runConformance(new URL("../conformance/harness.ts", import.meta.url), { describe, it, afterAll });
 */
export function runConformance(
  harnessUrl: URL,
  { describe, it, afterAll, levels = [1, 2, 3] }: ConformanceOptions,
): void {
  const pool = new ContenderPool(harnessUrl.href);
  for (const level of levels) {
    const chosen = cases.filter((each) => each.level === level);
    if (chosen.length === 0) continue;
    describe(`level ${level}`, () => {
      for (const each of chosen) {
        const title = `${each.id}: ${each.intent}`;
        it(title, async () => runCase(await loadHarness(harnessUrl.href), each, { pool }), CASE_TIMEOUT_MS);
      }
    });
  }
  afterAll(() => pool.close());
}

export interface CaseOptions {
  readonly pool: ContenderPool;
  /** Breaks the driver under test in every process. */
  readonly mutant?: string;
  /** What everything random in the case is made of. Default: drawn. */
  readonly seed?: number;
}

/** A seed for a run that was given none: 32 bits, printed with every failure. */
export function drawSeed(): number {
  return randomInt(2 ** 32);
}

/** Runs one case in a space of its own. */
export async function runCase(
  harness: Harness,
  { run, migrate }: Case,
  { pool, mutant, seed = drawSeed() }: CaseOptions,
): Promise<void> {
  const space = await harness.createSpace();
  const closing: (() => Promise<void>)[] = [() => space.dispose()];
  const connect = async (options: DovecoteOptions = {}): Promise<Peer> => {
    const session = await connectSession(harness, space.locator, mutant);
    const outbox = createDovecote(session.driver, options);
    closing.push(async () => {
      await outbox.close();
      await session.close();
    });
    return { session, outbox };
  };
  try {
    const first = await connect();
    if (migrate !== false) await first.outbox.migrate();
    const context: CaseContext = {
      ...first,
      capabilities: first.session.driver.capabilities,
      locator: space.locator,
      seed,
      connect,
      reopen: (options) => createDovecote(first.session.driver, options),
      race: (plan) => race(pool, { locator: space.locator, mutant: mutant ?? null }, plan),
      victim(script, input) {
        const { locator } = space;
        const victim = new Victim({ harness: pool.harness, locator, mutant: mutant ?? null, script, input });
        closing.push(() => victim.kill());
        return victim;
      },
    };
    await run(context);
  } finally {
    for (const close of closing.reverse()) await close();
  }
}
