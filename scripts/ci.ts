// Everything that has to hold before a change goes in, as one run with one line of totals at its end. Every step runs,
// also after an earlier one failed. Started by .ci/run, which installs first.
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Count, countExit, countSummary, countVitest, total, totalsLine } from "./ci/count.ts";
import { runCommand } from "./ci/run-step.ts";

interface Step {
  readonly name: string;
  readonly command: readonly [string, ...string[]];
  /** `exit`: one check. `summary`: the command's last line is `N passed, N failed`. `vitest`: from its JSON report. */
  readonly counts: "exit" | "summary" | "vitest";
  readonly minutes: number;
  /** The reader's own command: it has to work on the Node that is there, not only on the pinned one. */
  readonly asReader?: boolean;
}

const root = fileURLToPath(new URL("..", import.meta.url));
const scratch = mkdtempSync(join(tmpdir(), "dovecote-ci-"));
const vitestReport = join(scratch, "vitest.json");
const vitestArgs = ["--reporter=default", "--reporter=json", `--outputFile.json=${vitestReport}`] as const;

const steps: readonly Step[] = [
  {
    name: "tests",
    command: ["npm", "test", "--", ...vitestArgs],
    counts: "vitest",
    minutes: 15,
    asReader: true,
  },
  ...onAnotherNode(),
  { name: "lint", command: ["pnpm", "lint"], counts: "exit", minutes: 2 },
  { name: "types", command: ["pnpm", "typecheck"], counts: "exit", minutes: 4 },
  {
    name: "guarantees page",
    command: ["node", "scripts/write-guarantees.ts", "--check"],
    counts: "exit",
    minutes: 1,
  },
  { name: "dead code", command: ["pnpm", "knip"], counts: "exit", minutes: 3 },
  { name: "packages", command: ["node", "scripts/check-packages.ts"], counts: "summary", minutes: 8 },
  { name: "demo", command: ["npm", "run", "demo"], counts: "exit", minutes: 3, asReader: true },
  {
    name: "oldest and newest Postgres",
    command: ["node", "scripts/test-matrix.ts", "--only", "14,18", "--level", "1"],
    counts: "summary",
    minutes: 8,
  },
  {
    name: "demo on Postgres",
    command: ["npm", "run", "demo", "--", "--postgres"],
    counts: "exit",
    minutes: 3,
    asReader: true,
  },
];

/** The same tests on the system's Node, where it is one that we support and not the pinned one (CI's matrix). */
function onAnotherNode(): Step[] {
  const node = process.env.DOVECOTE_SYSTEM_NODE;
  const version = process.env.DOVECOTE_SYSTEM_NODE_VERSION?.replace(/^v/, "");
  if (!node || !version || version === process.versions.node) return [];
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major < 22 || (major === 22 && minor < 13)) return [];
  const command = [node, "node_modules/vitest/vitest.mjs", "run", ...vitestArgs] as const;
  return [{ name: `tests on Node ${version}`, command, counts: "vitest", minutes: 15 }];
}

function environment(step: Step): NodeJS.ProcessEnv {
  const path = (process.env.PATH ?? "").split(delimiter);
  // pnpm's wrappers put the whole virtual store into NODE_PATH, where a package would find what it never declared.
  const { NODE_PATH: _, ...env } = process.env;
  const readers = path.filter((folder) => !folder.startsWith(join(root, "node_modules")));
  const pinned = [join(root, "node_modules", ".bin"), ...readers];
  return {
    ...env,
    CI: "true",
    TURBO_TELEMETRY_DISABLED: "1",
    PATH: (step.asReader ? readers : pinned).join(delimiter),
  };
}

async function run(step: Step, timeoutMs: number): Promise<Count> {
  rmSync(vitestReport, { force: true });
  const { output, ...ending } = await runCommand({
    command: step.command,
    env: environment(step),
    cwd: root,
    timeoutMs,
  });
  if (step.counts === "summary") return countSummary(output, ending);
  if (step.counts === "exit") return countExit(ending);
  return countVitest(existsSync(vitestReport) ? readFileSync(vitestReport, "utf8") : undefined, ending);
}

// Whoever runs this may stop it after 25 minutes, and then nothing is counted at all.
const deadline = performance.now() + 23 * 60_000;
const results: { name: string; count: Count; seconds: number }[] = [];
for (const step of steps) {
  console.log(`\n=== ${step.name}: ${step.command.join(" ")}`);
  const started = performance.now();
  const timeoutMs = Math.max(1_000, Math.min(step.minutes * 60_000, deadline - started));
  const count = await run(step, timeoutMs);
  results.push({ name: step.name, count, seconds: Math.round((performance.now() - started) / 1000) });
}
rmSync(scratch, { recursive: true, force: true });

console.log("\n=== totals");
for (const { name, count, seconds } of results) {
  console.log(`${count.failed === 0 ? "ok  " : "FAIL"} ${name}: ${totalsLine(count)} (${seconds} s)`);
  for (const note of count.notes) console.log(`     ${note}`);
}
const all = total(results.map((result) => result.count));
console.log(totalsLine(all));
process.exitCode = all.failed === 0 ? 0 : 1;
