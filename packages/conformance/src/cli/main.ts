/** The command line: what it is asked for, what it prints, and how it ends. */
import { readFileSync, writeFileSync } from "node:fs";
import { badgeOf } from "../badge.ts";
import { cases } from "../cases/index.ts";
import type { Deviation } from "../define-harness.ts";
import { HarnessError, MisuseError } from "../harness-error.ts";
import { holds, type Report, suiteVersion } from "../report.ts";
import { selectCases } from "../select.ts";
import { runSuite } from "../suite.ts";
import { TimeLimitError } from "../within.ts";
import { type Command, HELP, type ListCommand, parseArguments, type RunCommand } from "./arguments.ts";
import { interruption } from "./interruption.ts";
import { activeResources, leaksAfter } from "./leaks.ts";
import { type Output, printJson } from "./output.ts";
import { printHuman } from "./print.ts";
import { stackFrames } from "./stack-frames.ts";

const HOLDS = 0;
const FAILS = 1;
const MISUSE = 2;

/** Answers the exit code. */
export async function main(args: readonly string[]): Promise<number> {
  try {
    return await obey(parseArguments(args));
  } catch (error) {
    process.stderr.write(`dovecote-conformance: ${explained(error)}\n`);
    if (error instanceof MisuseError)
      process.stderr.write("dovecote-conformance --help says what there is\n");
    return ended(MISUSE);
  }
}

async function obey(command: Command): Promise<number> {
  switch (command.kind) {
    case "help":
      process.stdout.write(HELP);
      return HOLDS;
    case "version":
      process.stdout.write(`${suiteVersion()}\n`);
      return HOLDS;
    case "list":
      list(command);
      return HOLDS;
    case "run":
      return run(command);
  }
}

function list({ json, ...selection }: ListCommand): void {
  for (const { id, level, intent } of selectCases(cases, selection)) {
    const line = json ? JSON.stringify({ id, level, intent }) : `${id.padEnd(11)} ${level}  ${intent}`;
    process.stdout.write(`${line}\n`);
  }
}

async function run(command: RunCommand): Promise<number> {
  const { harnessUrl, deviationsFile, json, levels, only, seed, soakMs, timeoutMs } = command;
  const deviations = deviationsFile === undefined ? undefined : readDeviations(deviationsFile);
  const before = activeResources();
  const output: Output = json ? printJson() : printHuman(command);
  const interrupted = interruption();
  const { signal } = interrupted;
  const options = { levels, only, seed, soakMs, timeoutMs, deviations, signal };
  let report: Report;
  try {
    report = await runSuite(harnessUrl, options, output.onEvent);
  } catch (error) {
    if (signal.aborted) ended(interrupted.exitCode());
    throw error;
  } finally {
    interrupted.stop();
    output.stop();
  }
  if (report.interrupted) {
    output.onReport(report);
    return ended(interrupted.exitCode());
  }
  const leaks = await leaksAfter(before);
  const complete: Report = { ...report, leaks };
  save(command, complete);
  output.onReport(complete);
  const exitCode = holds(complete) ? HOLDS : FAILS;
  return leaks.length > 0 ? ended(exitCode) : exitCode;
}

function save({ reportFile, badgeFile }: RunCommand, report: Report): void {
  const write = (file: string | undefined, value: unknown): void => {
    if (file !== undefined) writeFileSync(file, `${JSON.stringify(value, null, 2)}\n`);
  };
  write(reportFile, report);
  write(badgeFile, badgeOf(report));
}

function readDeviations(file: string): readonly Deviation[] {
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    throw new MisuseError(`--deviations: ${(error as Error).message}`, { cause: error });
  }
  if (!Array.isArray(value)) throw new MisuseError(`--deviations: ${file} must hold an array`);
  return value as readonly Deviation[];
}

/** Something may still keep the process alive, such as a connection that nobody closes: it is not waited for. */
function ended(exitCode: number): never {
  process.exit(exitCode);
}

/** What is no fault of the suite's needs no stack. */
function explained(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error instanceof HarnessError) return [error.message, ...stackFrames(error)].join("\n");
  const known = [MisuseError, TimeLimitError].some((kind) => error instanceof kind);
  return known || "code" in error ? error.message : (error.stack ?? error.message);
}
