import { describe, expect, it } from "vitest";
import { countExit, countSummary, countVitest, total, totalsLine } from "../ci/count.ts";

const ended = { exitCode: 0 };
const endedBadly = { exitCode: 1 };

const file = (status: string, tests: Record<string, string>, message = ""): object => ({
  name: "some.test.ts",
  status,
  message,
  assertionResults: Object.entries(tests).map(([fullName, outcome]) => ({ fullName, status: outcome })),
});
const report = (...testResults: object[]): string => JSON.stringify({ testResults });

describe("vitest's report", () => {
  it("counts each test once, over all files", () => {
    const json = report(
      file("passed", { a: "passed", b: "passed" }),
      file("failed", { c: "failed", d: "passed" }),
    );
    expect(countVitest(json, endedBadly)).toEqual({ passed: 3, failed: 1, notes: [] });
  });

  it("counts a file that did not load as one failed test", () => {
    const json = report(file("passed", { a: "passed" }), file("failed", {}, "cannot find module"));
    const { passed, failed, notes } = countVitest(json, endedBadly);
    expect({ passed, failed }).toEqual({ passed: 1, failed: 1 });
    expect(notes.join()).toContain("cannot find module");
  });

  it("counts a file whose hook threw as failed, although its tests are only skipped", () => {
    const { passed, failed, notes } = countVitest(report(file("failed", { a: "skipped" })), endedBadly);
    expect({ passed, failed }).toEqual({ passed: 0, failed: 1 });
    expect(notes).toContain("skipped: a");
  });

  it("names skipped and unwritten tests and counts them as neither", () => {
    const json = report(file("passed", { a: "passed", b: "skipped", c: "todo" }));
    expect(countVitest(json, ended)).toEqual({ passed: 1, failed: 0, notes: ["skipped: b", "todo: c"] });
  });

  it.each([
    ["is missing", undefined],
    ["is cut off", '{"testResults": ['],
    ["holds no test", report()],
    ["holds only skipped tests", report(file("passed", { a: "skipped" }))],
  ])("fails when it %s", (_, json) => {
    expect(countVitest(json, ended)).toMatchObject({ passed: 0, failed: 1 });
  });

  it("fails when every test passed and the process did not, as after an unhandled rejection", () => {
    expect(countVitest(report(file("passed", { a: "passed" })), endedBadly)).toMatchObject({
      passed: 1,
      failed: 1,
    });
  });
});

describe("a line of totals", () => {
  it("is taken from the last line only", () => {
    expect(countSummary("9 passed, 9 failed\nok x\n3 passed, 0 failed\n", ended)).toEqual({
      passed: 3,
      failed: 0,
      notes: [],
    });
  });

  it.each([
    ["nothing was printed", ""],
    ["something follows it", "3 passed, 0 failed\nError: too late\n"],
    ["it counts nothing", "0 passed, 0 failed\n"],
  ])("fails when %s", (_, output) => {
    expect(countSummary(output, ended)).toMatchObject({ passed: 0, failed: 1 });
  });

  it("says what was left out, which may be all there was", () => {
    const output = "left out: the suite through PgBouncer: there is none\n0 passed, 0 failed\n";
    const notes = ["left out: the suite through PgBouncer: there is none"];
    expect(countSummary(output, ended)).toEqual({ passed: 0, failed: 0, notes });
    expect(countSummary(output, endedBadly)).toMatchObject({ passed: 0, failed: 1 });
  });

  it("does not outweigh the exit code", () => {
    expect(countSummary("3 passed, 0 failed\n", endedBadly)).toMatchObject({ passed: 3, failed: 1 });
    expect(countSummary("3 passed, 2 failed\n", endedBadly)).toMatchObject({ passed: 3, failed: 2 });
  });
});

describe("a step that is one check", () => {
  it("passes on exit code 0 alone", () => {
    expect(countExit(ended)).toEqual({ passed: 1, failed: 0, notes: [] });
    expect(countExit({ exitCode: 2 })).toEqual({ passed: 0, failed: 1, notes: ["exit code 2"] });
    expect(countExit({ exitCode: null, reason: "ended by SIGKILL" }).notes).toEqual(["ended by SIGKILL"]);
  });
});

it("adds up and prints the totals on one line", () => {
  const all = total([
    countExit(ended),
    countExit(endedBadly),
    countSummary("4 passed, 1 failed", endedBadly),
  ]);
  expect(totalsLine(all)).toBe("5 passed, 2 failed");
});
