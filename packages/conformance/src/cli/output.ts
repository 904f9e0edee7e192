/** Where events go. */
import { Console } from "node:console";
import { holds, type Report } from "../report.ts";
import type { SuiteEvent } from "../suite.ts";

export interface Output {
  readonly onEvent: (event: SuiteEvent) => void;
  /** Nothing is under way any more. */
  stop(): void;
  onReport(report: Report): void;
}

/** One line of JSON per event, and the report as the last. */
export function printJson(): Output {
  // What a harness prints must not get in between.
  globalThis.console = new Console(process.stderr);
  const line = (value: unknown): void => {
    process.stdout.write(`${JSON.stringify(value)}\n`);
  };
  return {
    onEvent(event) {
      // An error has paths of this machine in its stack; the message of the case has none.
      if (event.kind === "caseFinished") line({ kind: event.kind, case: event.case });
      else line(event);
    },
    stop() {},
    onReport(report) {
      line({ kind: "end", holds: holds(report), report });
    },
  };
}
