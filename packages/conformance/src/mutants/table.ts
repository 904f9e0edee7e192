/** What the mutants of a driver came to: which case noticed each, and how reliably. */
import type { Case, Level } from "../case.ts";
import type { Harness, Mutant } from "../define-harness.ts";
import type { ContenderPool } from "../engine/pool.ts";
import { attack, type Kill, suspectsOf } from "./kill.ts";

/** A race that notices a broken driver less often than this is no test. */
const LOWEST_RATE = 0.95;

export interface Measured {
  readonly driver: string;
  readonly id: string;
  readonly mutant: string;
  /** The case that noticed it first; null if none did. */
  readonly killedBy: { readonly level: number; readonly intent: string; readonly message: string } | null;
  readonly kills: number;
  /** How often the case was run; once where nothing depends on luck. */
  readonly runs: number;
  /** Why a run was no kill. */
  readonly problem: string | null;
}

export interface MeasureOptions {
  readonly pool: ContenderPool;
  readonly runs: number;
  readonly levels: readonly Level[];
}

/**
 * Looks for the case that notices a mutant, and runs that one `runs` times if it needs more than one session: only
 * there it depends on who comes first.
 */
export async function measure(
  harness: Harness,
  mutant: Mutant,
  { pool, runs, levels }: MeasureOptions,
): Promise<Measured> {
  const row = { driver: harness.driver.name, id: mutant.breaks, mutant: mutant.name };
  let problem: string | null = null;
  const attempt = async (suspects: readonly Case[]): Promise<Kill | undefined> => {
    try {
      const kill = await attack(harness, mutant, suspects, pool);
      if (kill === undefined) problem = "it survived";
      return kill;
    } catch (error) {
      problem = error instanceof Error ? error.message : String(error);
      return undefined;
    }
  };
  const first = await attempt(suspectsOf(mutant, levels));
  if (first === undefined) return { ...row, killedBy: null, kills: 0, runs: 1, problem };
  const { level, intent } = first.by;
  const wanted = level === 2 ? runs : 1;
  let kills = 1;
  for (let run = 1; run < wanted; run++) {
    if ((await attempt([first.by])) !== undefined) kills += 1;
  }
  return { ...row, killedBy: { level, intent, message: first.message }, kills, runs: wanted, problem };
}

export function isKilled({ kills, runs }: Measured): boolean {
  return kills > 0 && kills / runs >= LOWEST_RATE;
}

/** One row of the table as text. */
export function rowText({ driver, id, mutant, killedBy, kills, runs, problem }: Measured): string {
  const name = driver.replace(/^@dovecote\//, "");
  const rate = `${Math.round((kills / runs) * 100)} % of ${runs}`;
  const head = `${id} → ${mutant} (${name})`;
  const lines = killedBy === null ? [`${head} → by nothing`] : [`${head} → ${killedBy.intent} → ${rate}`];
  if (killedBy !== null) lines.push(`    ${excerpt(killedBy.message)}`);
  if (problem !== null) lines.push(`    not every time: ${excerpt(problem)}`);
  return lines.join("\n");
}

function excerpt(message: string): string {
  const [line = ""] = message.split("\n");
  return line.length > 140 ? `${line.slice(0, 139)}…` : line;
}
