// The conformance suite against broken drivers: which case notices each, and how reliably.
//   node scripts/test-mutants.ts [--driver NAME[,NAME]] [--id ID|GROUP] [--runs N] [--share i/n] [--json FILE]
// A case that needs several sessions is run N times (20) against its mutant, and has to notice it in 95 % of them. Prints
// `id → mutant → killed by → rate` for each, then the ids of SPEC.md that no mutant breaks. Ends with `N passed, N failed`.
import { readFileSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import type { Level } from "../packages/conformance/src/case.ts";
import type { Harness, Mutant } from "../packages/conformance/src/define-harness.ts";
import { ContenderPool } from "../packages/conformance/src/engine/pool.ts";
import { loadHarness } from "../packages/conformance/src/load-harness.ts";
import { mutantsOf, suspectsOf } from "../packages/conformance/src/mutants/kill.ts";
import { isKilled, type Measured, measure, rowText } from "../packages/conformance/src/mutants/table.ts";
import { parseSpec } from "../packages/conformance/src/spec.ts";
import { totalsLine } from "./ci/count.ts";
import { harnessOf, serveIfNeeded } from "./harnesses.ts";

interface Target {
  readonly url: string;
  readonly harness: Harness;
  readonly mutant: Mutant;
  readonly levels: readonly Level[];
}

const { values: options } = parseArgs({
  options: {
    driver: { type: "string" },
    id: { type: "string" },
    runs: { type: "string", default: "20" },
    share: { type: "string", default: "1/1" },
    json: { type: "string" },
  },
});
const drivers = options.driver?.split(",") ?? ["sqlite", "postgres", "reference"];
const runs = Number(options.runs);
if (!Number.isSafeInteger(runs) || runs < 1) throw new Error("--runs: a whole number from 1");
const [share = 0, shares = 0] = /^(\d+)\/(\d+)$/.exec(options.share)?.slice(1).map(Number) ?? [];
if (share < 1 || share > shares) throw new Error("--share: i/n, such as 1/4");

const targets: Target[] = [];
for (const driver of drivers) {
  const url = harnessOf(driver).href;
  const harness = await loadHarness(url);
  // A store in memory lives in one process: its mutants are those that a single session notices.
  const levels = harness.capabilities.durable ? ([1, 2, 3] as const) : ([1] as const);
  for (const mutant of mutantsOf(harness)) {
    if (suspectsOf(mutant, levels).length > 0) targets.push({ url, harness, mutant, levels });
  }
}
const known = parseSpec(readFileSync(new URL("../SPEC.md", import.meta.url), "utf8")).map(({ id }) => id);
const asked = (id: string): boolean =>
  options.id === undefined || id === options.id || id.startsWith(`${options.id}-`);
if (!known.some(asked)) throw new Error(`--id: SPEC.md has no ${options.id}`);
const chosen = targets
  .filter(({ mutant }) => asked(mutant.breaks))
  .filter((_, index) => index % shares === share - 1);
const broken = new Set(targets.map(({ mutant }) => mutant.breaks));
const missing =
  options.driver === undefined && share === 1 ? known.filter((id) => asked(id) && !broken.has(id)) : [];

const server = await serveIfNeeded(drivers);
const measured: Measured[] = [];
const pools = new Map<string, ContenderPool>();
for (const { url, harness, mutant, levels } of chosen) {
  const pool = pools.get(url) ?? new ContenderPool(url);
  pools.set(url, pool);
  const row = await measure(harness, mutant, { pool, runs, levels });
  measured.push(row);
  console.log(`${isKilled(row) ? "ok  " : "FAIL"} ${rowText(row)}`);
}
for (const pool of pools.values()) await pool.close();
await server.stop();

for (const id of missing) console.log(`FAIL ${id} → no mutant breaks it`);
if (options.json !== undefined)
  writeFileSync(options.json, `${JSON.stringify({ measured, missing }, null, 2)}\n`);
const passed = measured.filter(isKilled).length;
const failed = measured.length - passed + missing.length;
console.log(totalsLine({ passed, failed, notes: [] }));
// A mutant that was given up may still hold connections open.
process.exit(failed === 0 ? 0 : 1);
