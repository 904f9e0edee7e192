/** What one step, or a whole run, came to. `notes` is what a reader has to know beside the two numbers. */
export interface Count {
  readonly passed: number;
  readonly failed: number;
  readonly notes: readonly string[];
}

/** How a step's process ended: its exit code, or why there is none. */
export interface Ending {
  readonly exitCode: number | null;
  readonly reason?: string;
}

const failure = (note: string): Count => ({ passed: 0, failed: 1, notes: [note] });

function endingNote({ exitCode, reason }: Ending): string {
  return reason ?? `exit code ${exitCode}`;
}

/** Without this a step that fails outside whatever it counts (a crash, an unhandled error) would look like a success. */
function withEnding(count: Count, ending: Ending): Count {
  if (ending.exitCode === 0 || count.failed > 0) return count;
  return {
    passed: count.passed,
    failed: 1,
    notes: [...count.notes, `nothing counted as failed, but ${endingNote(ending)}`],
  };
}

/** A step that is one check: it passed exactly if its process said so. */
export function countExit(ending: Ending): Count {
  return ending.exitCode === 0 ? { passed: 1, failed: 0, notes: [] } : failure(endingNote(ending));
}

/** A step that ends with a line `N passed, N failed` of its own. What it had to leave out it says in lines of their own. */
export function countSummary(output: string, ending: Ending): Count {
  const notes = output.split("\n").filter((text) => text.startsWith("left out: "));
  const line = output.trimEnd().split("\n").at(-1) ?? "";
  const [, passed, failed] = /^(\d+) passed, (\d+) failed$/.exec(line.trim()) ?? [];
  if (passed === undefined || failed === undefined) return failure(`no totals, ${endingNote(ending)}`);
  if (Number(passed) + Number(failed) === 0 && notes.length === 0) return failure("it checked nothing");
  return withEnding({ passed: Number(passed), failed: Number(failed), notes }, ending);
}

interface VitestReport {
  readonly testResults: readonly {
    readonly name: string;
    readonly status: string;
    readonly message?: string;
    readonly assertionResults: readonly { readonly fullName: string; readonly status: string }[];
  }[];
}

/**
 * Vitest's JSON report, test by test. Its own totals leave out a file that did not load and a hook that threw, in which
 * no test is "failed": such a file counts as one failed test. Skipped tests are listed by name, never dropped.
 */
export function countVitest(json: string | undefined, ending: Ending): Count {
  if (json === undefined) return failure(`no report, ${endingNote(ending)}`);
  let report: VitestReport;
  try {
    report = JSON.parse(json) as VitestReport;
  } catch {
    return failure(`the report is not JSON, ${endingNote(ending)}`);
  }
  let passed = 0;
  let failed = 0;
  const notes: string[] = [];
  for (const file of report.testResults) {
    const failedBefore = failed;
    for (const test of file.assertionResults) {
      if (test.status === "passed") passed += 1;
      else if (test.status === "failed") failed += 1;
      else notes.push(`${test.status}: ${test.fullName}`);
    }
    if (file.status === "failed" && failed === failedBefore) {
      failed += 1;
      notes.push(`failed outside its tests: ${file.name}: ${file.message ?? ""}`.trimEnd());
    }
  }
  if (passed + failed === 0) return { passed: 0, failed: 1, notes: [...notes, "no test ran"] };
  return withEnding({ passed, failed, notes }, ending);
}

/** The sum of all steps. */
export function total(counts: readonly Count[]): Count {
  return {
    passed: counts.reduce((sum, count) => sum + count.passed, 0),
    failed: counts.reduce((sum, count) => sum + count.failed, 0),
    notes: counts.flatMap((count) => count.notes),
  };
}

/** The line that ends a run. */
export function totalsLine({ passed, failed }: Count): string {
  return `${passed} passed, ${failed} failed`;
}
