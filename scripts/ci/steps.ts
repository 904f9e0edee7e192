/** Runs steps one after another, each of them also after an earlier one failed, and ends with one line of totals. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Count, countExit, countSummary, countVitest, total, totalsLine } from "./count.ts";
import { runCommand } from "./run-step.ts";

export interface Step {
  readonly name: string;
  readonly command: readonly [string, ...string[]];
  /** `exit`: one check. `summary`: the command's last line is `N passed, N failed`. `vitest`: from its JSON report. */
  readonly counts: "exit" | "summary" | "vitest";
  readonly minutes: number;
  /** The reader's own command: it has to work on the Node that is there, not only on the pinned one. */
  readonly asReader?: boolean;
}

const root = fileURLToPath(new URL("../..", import.meta.url));
const scratch = mkdtempSync(join(tmpdir(), "dovecote-steps-"));
const vitestReport = join(scratch, "vitest.json");

/** What a step that counts by `vitest` gives to vitest. */
export const VITEST_ARGS: readonly string[] = [
  "--reporter=default",
  "--reporter=json",
  `--outputFile.json=${vitestReport}`,
];

/** Runs the steps within so many minutes, prints the totals, and sets the exit code. */
export async function runSteps(steps: readonly Step[], minutes: number): Promise<void> {
  const deadline = performance.now() + minutes * 60_000;
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
