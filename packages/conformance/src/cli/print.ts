/** The output for people: a table by level, what failed and how to repeat it, and a verdict. */
import { styleText } from "node:util";
import type { Level } from "../case.ts";
import { holds, isFailure, type LevelOutcome, type Outcome, type Report } from "../report.ts";
import { LEVELS } from "../select.ts";
import type { RunCommand } from "./arguments.ts";
import type { Output } from "./output.ts";
import { type Failure, failureText } from "./print-failure.ts";
import { statusLine } from "./status-line.ts";

const TITLES: Readonly<Record<Level, string>> = {
  1: "one session",
  2: "several sessions and processes",
  3: "crashes and faults",
};

const COLORS: Readonly<Record<Outcome | LevelOutcome, "green" | "red" | "yellow" | "dim">> = {
  passed: "green",
  failed: "red",
  deviates: "yellow",
  partial: "yellow",
  skipped: "yellow",
  notRun: "dim",
};

export function printHuman(command: RunCommand): Output {
  const print = (text: string): void => {
    status.clear();
    process.stdout.write(`${text}\n`);
  };
  const status = statusLine();
  const failures: Failure[] = [];
  let level: Level | undefined;
  let total = 0;
  let done = 0;
  return {
    onEvent(event) {
      switch (event.kind) {
        case "start": {
          const { driver, suite, seed } = event;
          total = event.total;
          print(`Dovecote conformance suite ${suite}, contract 1`);
          print(`${driver.name} ${driver.version}: ${cases(total)}, seed ${seed}`);
          return;
        }
        case "caseStarted": {
          const { id, intent } = event.case;
          if (event.case.level !== level) {
            level = event.case.level;
            print(`\nLevel ${level}: ${TITLES[level]}`);
          }
          status.show(`${count(done, total)}  ${id}  ${intent}`);
          return;
        }
        case "caseFinished": {
          const { id, outcome, ms, intent, provisional, killRate } = event.case;
          done += 1;
          const notes = [
            ...(provisional ? ["provisional"] : []),
            ...(killRate === undefined
              ? []
              : [`notices broken drivers ${killRate.kills} of ${killRate.runs} times`]),
          ];
          const note = notes.length === 0 ? "" : ` (${notes.join(", ")})`;
          const word = paint(COLORS[outcome], outcome.padEnd(8));
          print(
            `${count(done, total)}  ${word}  ${id.padEnd(11)} ${`${ms} ms`.padStart(9)}  ${intent}${note}`,
          );
          if (outcome === "failed") failures.push({ result: event.case, error: event.error });
        }
      }
    },
    stop() {
      status.end();
    },
    onReport(report) {
      for (const failure of failures) print(failureText(failure, command.harness, report.seed));
      print(`\n${summary(report, total)}`);
      if (report.interrupted) return;
      if (command.reportFile !== undefined) print(`report: ${command.reportFile}`);
      if (command.badgeFile !== undefined) print(`badge: ${command.badgeFile}`);
    },
  };
}

function summary(report: Report, total: number): string {
  const { asked, cases: results, levels, leaks, durationMs, badge, interrupted } = report;
  const lines: string[] = [];
  for (const level of LEVELS.filter((each) => asked.levels.includes(each))) {
    const ran = results.filter((each) => each.level === level);
    if (ran.length === 0) continue;
    const passed = ran.filter(({ outcome }) => outcome === "passed").length;
    const outcome = levels[level];
    const word = outcome === "notRun" ? "not all of it was run" : outcome;
    lines.push(`Level ${level}: ${paint(COLORS[outcome], word)}, ${passed} of ${cases(ran.length)} passed`);
  }
  if (leaks.length > 0) {
    lines.push(
      paint(
        "red",
        `the harness leaks: ${leaks.join(", ")} keep the process alive after everything was closed`,
      ),
    );
  }
  const failed = results.filter(isFailure).length;
  const seconds = (durationMs / 1000).toFixed(1);
  const ran = `${results.length} of ${cases(total)} in ${seconds} s, ${failed} failed`;
  if (interrupted) return [...lines, paint("yellow", `interrupted after ${ran}`)].join("\n");
  const verdict = holds(report) ? paint("green", "holds") : paint("red", "does not hold");
  const grade = asked.only === undefined ? `; ${badge}` : "";
  return [...lines, `${verdict}: ${ran}${grade}`].join("\n");
}

function cases(count: number): string {
  return count === 1 ? "1 case" : `${count} cases`;
}

function count(done: number, total: number): string {
  const width = String(total).length;
  return `${String(done).padStart(width)}/${total}`;
}

function paint(color: Parameters<typeof styleText>[0], text: string): string {
  return styleText(color, text, { stream: process.stdout });
}
