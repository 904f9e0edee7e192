// Writes packages/conformance/src/kill-rates.ts, from what `pnpm test:mutants --json FILE` measured:
//   node scripts/write-kill-rates.ts FILE [FILE…]
// A later file replaces what an earlier one says of the same mutant. Only cases of level 2 are kept: elsewhere nothing depends
// on luck. Cases that no file has a mutant of keep the rates they have.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { KILL_RATES } from "../packages/conformance/src/kill-rates.ts";
import { isKilled, type Measured } from "../packages/conformance/src/mutants/table.ts";

const latest = new Map<string, Measured>();
for (const file of process.argv.slice(2)) {
  const { measured } = JSON.parse(readFileSync(file, "utf8")) as { readonly measured: readonly Measured[] };
  for (const row of measured) latest.set(`${row.driver} ${row.mutant}`, row);
}
const survivors = [...latest.values()].filter((row) => !isKilled(row));
if (survivors.length > 0)
  throw new Error(`not noticed reliably: ${survivors.map(({ driver, mutant }) => `${mutant} (${driver})`)}`);

const measured = new Map<string, { kills: number; runs: number }>();
for (const { id, killedBy, kills, runs } of latest.values()) {
  if (killedBy?.level !== 2) continue;
  const key = `${id}: ${killedBy.intent}`;
  const rate = measured.get(key) ?? { kills: 0, runs: 0 };
  measured.set(key, { kills: rate.kills + kills, runs: rate.runs + runs });
}
const lines = Object.entries({ ...KILL_RATES, ...Object.fromEntries(measured) }).sort(([a], [b]) =>
  a < b ? -1 : 1,
);
const target = fileURLToPath(new URL("../packages/conformance/src/kill-rates.ts", import.meta.url));
writeFileSync(
  target,
  `/**
 * How often the cases that need several sessions notice drivers that break what they test, measured on SQLite and Postgres
 * with two cores. Written by scripts/write-kill-rates.ts, keyed by id and intent.
 */
export interface KillRate {
  readonly kills: number;
  readonly runs: number;
}

export const KILL_RATES: Readonly<Record<string, KillRate>> = {
${lines.map(([key, { kills, runs }]) => `  ${JSON.stringify(key)}: { kills: ${kills}, runs: ${runs} },`).join("\n")}
};
`,
);
