/** Running one case. Runners are thin: `describe` and `it` are injected, assertions are `node:assert`. */
import { randomInt } from "node:crypto";
import type { Case, CaseContext } from "./case.ts";
import { connectSession, openOutbox } from "./connect.ts";
import type { Harness } from "./define-harness.ts";
import { killChildren } from "./engine/child.ts";
import type { ContenderPool } from "./engine/pool.ts";
import { type RaceReport, race } from "./engine/race.ts";
import { soak } from "./engine/soak.ts";
import { Victim } from "./engine/victim.ts";
import { override } from "./override.ts";
import { closeSession, createSpace, disposeSpace, HARNESS_TIMEOUT_MS, openSession } from "./use-harness.ts";
import { within } from "./within.ts";

/** The part of a test runner that the suite needs: vitest's, `node:test`'s, or another's. */
export interface TestRunner {
  describe(title: string, body: () => void): unknown;
  it(title: string, body: () => Promise<void>, timeoutMs: number): unknown;
  afterAll(body: () => Promise<void>): unknown;
}

/** For one case, beside a soak that was given its time. */
export const CASE_TIMEOUT_MS = 60_000;
const SOAK_MS = 5_000;
/** For what is closed after a run that somebody wants to end. */
const HASTE_MS = 3_000;

export interface CaseOptions {
  readonly pool: ContenderPool;
  /** Breaks the driver under test in every process. */
  readonly mutant?: string;
  /** What everything random in the case is made of. Default: drawn. */
  readonly seed?: number;
  /** How long a soak takes. Default: 5 s. */
  readonly soakMs?: number;
  /** After which the case is abandoned. Default: 60 s; `soakMs` is added. */
  readonly timeoutMs?: number;
  /** Abandons the case. */
  readonly signal?: AbortSignal;
  /** Hears of every race that the case ran to its end. */
  readonly onRace?: (report: RaceReport) => void;
}

/** A seed for a run that was given none: 32 bits, printed with every failure. */
export function drawSeed(): number {
  return randomInt(2 ** 32);
}

/** Runs one case in a space of its own. One that does not end is abandoned, and the processes of the suite are ended. */
export async function runCase(harness: Harness, each: Case, options: CaseOptions): Promise<void> {
  const { pool, signal, timeoutMs = CASE_TIMEOUT_MS, soakMs = 0 } = options;
  const limitMs = Math.min(HARNESS_TIMEOUT_MS, timeoutMs);
  const parting = (): { readonly limitMs: number } => ({
    limitMs: signal?.aborted ? Math.min(HASTE_MS, limitMs) : limitMs,
  });
  const space = await createSpace(harness, { limitMs, signal });
  const closing: (() => Promise<void>)[] = [() => disposeSpace(space, parting())];
  const stage: Stage = { harness, locator: space.locator, closing, parting, limitMs, abandoned: false };

  const errors: unknown[] = [];
  let ended = false;
  const acting = act(each, stage, options).finally(() => {
    ended = true;
  });
  try {
    await within(`${each.id} ("${each.intent}")`, { limitMs: timeoutMs + soakMs, signal }, acting);
  } catch (error) {
    errors.push(error);
    stage.abandoned = !ended;
    if (stage.abandoned) {
      killChildren();
      await pool.close();
    }
  }
  // Also after one that fails: what stays open would be in the way of the cases that follow.
  for (const close of closing.reverse()) await close().catch((error: unknown) => errors.push(error));
  if (errors.length > 0) throw errors[0];
}

interface Stage {
  readonly harness: Harness;
  readonly locator: CaseContext["locator"];
  readonly closing: (() => Promise<void>)[];
  readonly parting: () => { readonly limitMs: number };
  readonly limitMs: number;
  abandoned: boolean;
}

async function act(each: Case, stage: Stage, options: CaseOptions): Promise<void> {
  const { harness, locator, closing, parting, limitMs } = stage;
  const { pool, seed = drawSeed(), soakMs = SOAK_MS, onRace } = options;
  const mutant = options.mutant;
  /** A case that was left behind may still be going on. */
  const present = (): void => {
    if (stage.abandoned) throw new Error("this case was abandoned");
  };
  const connect: CaseContext["connect"] = async (storeOptions = {}, settings = {}) => {
    present();
    const session = await openSession(() => connectSession(harness, locator, mutant, settings), { limitMs });
    if (stage.abandoned) await closeSession(session, parting());
    present();
    const outbox = openOutbox(session, mutant, storeOptions);
    closing.push(async () => {
      try {
        await within("close() of the store", parting(), outbox.close());
      } finally {
        await closeSession(session, parting());
      }
    });
    return { session, outbox };
  };
  const first = await connect();
  if (each.migrate !== false) await first.outbox.migrate();
  const { session } = first;
  const place = { harness: pool.harness, locator, mutant: mutant ?? null };
  await each.run({
    ...first,
    capabilities: session.driver.capabilities,
    locator,
    seed,
    connect,
    reopen: (storeOptions, driver = session.driver) =>
      openOutbox(override(session, { driver }), mutant, storeOptions),
    async race(plan) {
      present();
      const report = await race(pool, place, plan);
      onRace?.(report);
      return report;
    },
    victim(script, input) {
      present();
      const victim = new Victim({ ...place, script, input });
      closing.push(() => victim.kill());
      return victim;
    },
    soakMs,
    async soak(plan) {
      present();
      return soak({ ...place, seed, session, connect }, plan);
    },
  });
}
