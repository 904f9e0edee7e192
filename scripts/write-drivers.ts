// Writes docs/drivers.md from the reports in docs/reports, one per driver of this repository. `--check` only compares, and
// refuses reports of another contract or of another set of cases than the suite has now: make new ones with
//   pnpm conformance <driver> --report docs/reports/<driver>.json
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { cases, parseReport, parseSpec, type Report } from "../packages/conformance/src/index.ts";
import type { Capabilities } from "../packages/core/src/index.ts";

const root = new URL("../", import.meta.url);
const target = fileURLToPath(new URL("docs/drivers.md", root));
const folder = new URL("docs/reports/", root);

interface Named {
  readonly file: string;
  readonly report: Report;
}

const reports: readonly Named[] = readdirSync(folder)
  .filter((file) => file.endsWith(".json"))
  .sort()
  .map((file) => ({ file, report: parseReport(readFileSync(new URL(file, folder), "utf8")) }));
if (reports.length === 0) throw new Error("docs/reports has no report");

/** Why a report says nothing about the suite as it is. */
function stale({ file, report }: Named): readonly string[] {
  const asked = cases.filter(({ level }) => report.asked.levels.includes(level));
  const now = new Set(asked.map(({ id, intent }) => `${id}: ${intent}`));
  const then = new Set(report.cases.map(({ id, intent }) => `${id}: ${intent}`));
  const faults = [
    ...[...now].filter((each) => !then.has(each)).map((each) => `lacks ${each}`),
    ...[...then].filter((each) => !now.has(each)).map((each) => `has ${each}, which is no case any more`),
    ...(report.interrupted ? ["was interrupted"] : []),
  ];
  return faults.map((fault) => `docs/reports/${file} ${fault}`);
}

function page(): string {
  const heads = reports.map(({ report }) => report.driver.name);
  const row = (name: string, cells: readonly string[]): string => `| ${[name, ...cells].join(" | ")} |`;
  const levels = ([1, 2, 3] as const).map((level) =>
    row(
      `level ${level}`,
      reports.map(({ report }) => {
        const found = report.cases.filter((each) => each.level === level);
        const seconds = Math.round(found.reduce((sum, { ms }) => sum + ms, 0) / 1000);
        return found.length === 0
          ? "not run"
          : `${report.levels[level]}, ${found.length} cases, ${seconds} s`;
      }),
    ),
  );
  const names = Object.keys(reports[0]?.report.capabilities ?? {}) as (keyof Capabilities)[];
  const capabilities = names.map((name) =>
    row(
      `\`${name}\``,
      reports.map(({ report }) => String(report.capabilities[name])),
    ),
  );
  const guarantees = parseSpec(readFileSync(new URL("SPEC.md", root), "utf8")).map(({ id }) =>
    row(
      id,
      reports.map(({ report }) => outcomeOf(report, id)),
    ),
  );
  return `# Drivers

Written by \`pnpm docs:drivers\` from the [reports](reports) of the conformance suite. To make a report again:
\`pnpm conformance sqlite --report docs/reports/sqlite.json\`. How to test a driver of your own:
[writing-a-driver.md](writing-a-driver.md).

${row("", heads)}
${row(
  "---",
  heads.map(() => "---"),
)}
${row(
  "badge",
  reports.map(({ report }) => report.badge),
)}
${levels.join("\n")}
${row(
  "seed",
  reports.map(({ report }) => String(report.seed)),
)}
${row(
  "Node",
  reports.map(({ report }) => `${report.node}, ${report.os.platform} ${report.os.arch}`),
)}

A store in memory lives in one process: levels 2 and 3 have nothing to ask it. Times are of one run on two cores.

## Capabilities

What a driver declares, and the suite branches on. [SPEC.md](../SPEC.md) says what each means.

${row("", heads)}
${row(
  "---",
  heads.map(() => "---"),
)}
${capabilities.join("\n")}

## Guarantees

${row("", heads)}
${row(
  "---",
  heads.map(() => "---"),
)}
${guarantees.join("\n")}
`;
}

function outcomeOf({ cases: results }: Report, id: string): string {
  const found = results.filter((each) => each.id === id);
  if (found.length === 0) return "not run";
  return found.every(({ outcome }) => outcome === "passed") ? `${found.length} passed` : "**failed**";
}

if (!process.argv.includes("--check")) writeFileSync(target, page());
else {
  const faults = reports.flatMap(stale);
  if (readFileSync(target, "utf8") !== page())
    faults.push("docs/drivers.md is out of date; run pnpm docs:drivers");
  for (const fault of faults) console.error(fault);
  process.exitCode = faults.length === 0 ? 0 : 1;
}
