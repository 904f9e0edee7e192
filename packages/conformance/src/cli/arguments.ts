/** The arguments of the command line, as what they mean. */
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import type { Level } from "../case.ts";
import { MisuseError } from "../harness-error.ts";
import { LEVELS } from "../select.ts";

export interface RunCommand {
  readonly kind: "run";
  /** As it was written. */
  readonly harness: string;
  readonly harnessUrl: URL;
  readonly levels: readonly Level[];
  readonly only: readonly string[] | undefined;
  readonly seed: number | undefined;
  readonly soakMs: number | undefined;
  readonly timeoutMs: number | undefined;
  readonly json: boolean;
  /** undefined: no report is written. */
  readonly reportFile: string | undefined;
  readonly badgeFile: string | undefined;
  readonly deviationsFile: string | undefined;
}

export interface ListCommand extends Pick<RunCommand, "levels" | "only" | "json"> {
  readonly kind: "list";
}

export type Command = RunCommand | ListCommand | { readonly kind: "help" } | { readonly kind: "version" };

const MAX_SEED = 2 ** 32 - 1;
const DAY_MS = 86_400_000;
const UNITS_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

export const HELP = `Runs the Dovecote conformance suite against a driver.

  npx @dovecote/conformance <harness> [options]

<harness> is a module, in JavaScript or TypeScript, whose default export is defineHarness({ … }).

  --level 1|2|3        up to this level; 1 is one session, 2 several processes, 3 crashes and faults (default: 3)
  --only ID[,ID]       these guarantees alone; writes a report only with --report
  --seed N             repeats what is random in the cases (default: drawn, and printed)
  --soak 60s           how long a soak takes (default: 5s)
  --timeout 60s        for one case (default: 60s)
  --deviations FILE    JSON: [{ "id", "reason", "issue" }], guarantees that are known not to be kept
  --report FILE        where the report is written (default: conformance-report.json)
  --badge FILE         also writes a badge, as an endpoint of shields.io
  --json               events and report as lines of JSON on stdout, and nothing else
  --list               the cases, without running them; needs no harness
  --help, --version

Exit code: 0 if every required case of the levels holds, 1 if not, 2 if the suite could not be run.
`;

/** @throws MisuseError */
export function parseArguments(args: readonly string[]): Command {
  const { values, positionals } = parsed(args);
  if (values.help) return { kind: "help" };
  if (values.version) return { kind: "version" };
  const only = values.only?.split(",").map((id) => id.trim());
  if (only?.includes("")) throw new MisuseError("--only needs ids, such as FENCE-01,FENCE-02");
  const shared = { levels: levelsOf(values.level), only, json: values.json };
  const [harness, ...others] = positionals;
  if (others.length > 0)
    throw new MisuseError(`one harness is tested at a time, not also ${others.join(", ")}`);
  if (values.list) return { kind: "list", ...shared };
  if (harness === undefined) throw new MisuseError("which harness? Give the path of its module");
  if (values.badge !== undefined && only !== undefined) {
    throw new MisuseError("--badge is about whole levels, and does not go with --only");
  }
  return {
    kind: "run",
    ...shared,
    harness,
    harnessUrl: harness.startsWith("file:") ? new URL(harness) : pathToFileURL(resolve(harness)),
    seed: seedOf(values.seed),
    soakMs: durationOf("--soak", values.soak),
    timeoutMs: durationOf("--timeout", values.timeout),
    reportFile: values.report ?? (only === undefined ? "conformance-report.json" : undefined),
    badgeFile: values.badge,
    deviationsFile: values.deviations,
  };
}

const OPTIONS = {
  level: { type: "string" },
  only: { type: "string" },
  seed: { type: "string" },
  soak: { type: "string" },
  timeout: { type: "string" },
  deviations: { type: "string" },
  report: { type: "string" },
  badge: { type: "string" },
  json: { type: "boolean", default: false },
  list: { type: "boolean", default: false },
  help: { type: "boolean", short: "h", default: false },
  version: { type: "boolean", default: false },
} as const;

type Parsed = ReturnType<typeof parseArgs<{ options: typeof OPTIONS; allowPositionals: true }>>;

function parsed(args: readonly string[]): Parsed {
  try {
    return parseArgs({ args: [...args], options: OPTIONS, allowPositionals: true });
  } catch (error) {
    throw new MisuseError((error as Error).message, { cause: error });
  }
}

function levelsOf(text: string | undefined): readonly Level[] {
  if (text === undefined) return LEVELS;
  const highest = LEVELS.find((level) => String(level) === text);
  if (highest === undefined) throw new MisuseError(`--level is 1, 2 or 3, not ${text}`);
  return LEVELS.filter((level) => level <= highest);
}

function seedOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^\d+$/.test(text) || Number(text) > MAX_SEED) {
    throw new MisuseError(`--seed is an integer from 0 to ${MAX_SEED}, not ${text}`);
  }
  return Number(text);
}

function durationOf(option: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const [, number = "", unit = ""] = /^(\d+)(ms|s|m|h)$/.exec(text) ?? [];
  const ms = Number(number) * (UNITS_MS[unit] ?? Number.NaN);
  if (!(ms >= 1 && ms <= DAY_MS)) {
    throw new MisuseError(`${option} is a time such as 500ms, 60s or 5m, up to 24h, not ${text}`);
  }
  return ms;
}
