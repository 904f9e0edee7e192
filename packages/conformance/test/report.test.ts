import { readFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { pathToFileURL } from "node:url";
import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, it } from "vitest";
import type { Case } from "../src/case.ts";
import { anonymous, messageOf } from "../src/failure-message.ts";
import { badgeOf, HarnessError, holds, type LevelOutcome, parseReport, type Report } from "../src/index.ts";
import { type CaseResult, levelOutcomes } from "../src/report.ts";
import { runCases } from "../src/suite.ts";

const harness = new URL("../src/reference/harness.ts", import.meta.url);
const schema: object = JSON.parse(
  readFileSync(new URL("../src/report.schema.json", import.meta.url), "utf8"),
);

async function made(): Promise<Report> {
  const suite: readonly Case[] = [
    { id: "TX-01", level: 1, intent: "holds", run: async () => {} },
    {
      id: "TX-02",
      level: 1,
      intent: "fails",
      run: () => Promise.reject(new Error(`cannot open ${process.cwd()}/x/space.db`)),
    },
    { id: "TX-03", level: 1, intent: "deviates", run: () => Promise.reject(new Error("as known")) },
    { id: "TX-04", level: 2, intent: "provisional", provisional: true, run: async () => {} },
  ];
  const deviations = [{ id: "TX-03", reason: "no sequences", issue: "https://example.org/1" }];
  return runCases(suite, harness, { seed: 7, deviations }, () => {});
}

describe("a report", () => {
  it("is what its schema says, and is read back as it was written", async () => {
    const report = await made();
    const ajv = new Ajv2020({ allErrors: true, strict: true, strictRequired: false });
    const isReport = ajv.compile(schema);
    isReport(JSON.parse(JSON.stringify(report)));
    expect(isReport.errors).toBeNull();
    expect(parseReport(JSON.stringify(report))).toEqual(report);
  });

  it("names no folder of this machine", async () => {
    const report = await made();
    expect(report.cases[1]?.message).toBe("Error: cannot open ./x/space.db");
    expect(JSON.stringify(report)).not.toContain(process.cwd());
  });

  it.each<[string, (report: Report) => unknown]>([
    ["another version", (report) => ({ ...report, reportVersion: 2 })],
    ["an unknown member", (report) => ({ ...report, score: "97 %" })],
    ["no seed", ({ seed: _, ...report }) => report],
    ["a failure without a message", (report) => withCase(report, { outcome: "failed" })],
    ["a deviation without a reason", (report) => withCase(report, { outcome: "deviates", message: "m" })],
    ["a badge that it has not earned", (report) => ({ ...report, badge: "contract 1 · crash-safe" })],
  ])("is refused with %s", async (_what, change) => {
    const text = JSON.stringify(change(await made()));
    expect(() => parseReport(text)).toThrow(/^not a conformance report: report/);
  });
});

function withCase(report: Report, change: Partial<CaseResult>): unknown {
  const [first, ...others] = report.cases;
  return { ...report, cases: [{ ...first, ...change }, ...others] };
}

describe("a level", () => {
  const suite: readonly Case[] = ["TX-01", "TX-02"].map((id) => ({
    id,
    level: 1,
    intent: "",
    run: async () => {},
  }));

  it.each<[LevelOutcome, readonly CaseResult["outcome"][]]>([
    ["passed", ["passed", "passed"]],
    ["failed", ["passed", "failed"]],
    ["failed", ["failed"]],
    ["failed", ["deviates", "failed"]],
    ["partial", ["passed", "deviates"]],
    ["partial", ["passed", "skipped"]],
    ["notRun", ["passed"]],
    ["notRun", []],
  ])("is %s with %j", (expected, found) => {
    const results = found.map((outcome) => ({ id: "TX-01", level: 1 as const, intent: "", outcome, ms: 0 }));
    expect(levelOutcomes(suite, results)).toEqual({ 1: expected, 2: "notRun", 3: "notRun" });
  });
});

describe("the badge", () => {
  it.each<[string, readonly [LevelOutcome, LevelOutcome, LevelOutcome]]>([
    ["crash-safe", ["passed", "passed", "passed"]],
    ["concurrent", ["passed", "passed", "failed"]],
    ["concurrent", ["passed", "passed", "partial"]],
    ["basic", ["passed", "notRun", "notRun"]],
    ["basic", ["passed", "failed", "passed"]],
    ["partial", ["partial", "passed", "passed"]],
    ["partial", ["failed", "passed", "passed"]],
    ["partial", ["notRun", "passed", "passed"]],
  ])("is %s with %j", (grade, [one, two, three]) => {
    const badge = badgeOf({ levels: { 1: one, 2: two, 3: three } });
    expect(badge).toMatchObject({ schemaVersion: 1, label: "dovecote", message: `contract 1 · ${grade}` });
    expect(badge.isError).toBe(one === "failed");
  });
});

describe("a run holds", () => {
  it.each<[boolean, Partial<Report>]>([
    [true, { cases: [] }],
    [false, { cases: [{ id: "TX-01", level: 1, intent: "", outcome: "failed", ms: 0, message: "m" }] }],
    [false, { cases: [], interrupted: true }],
    [false, { cases: [], leaks: ["TCPSocketWrap"] }],
  ])("%s: %j", async (expected, change) => {
    expect(holds({ ...(await made()), ...change })).toBe(expected);
  });
});

describe("the message of a failure", () => {
  it("has the error's name and its causes, once", () => {
    const cause = new RangeError("too far");
    expect(messageOf(new Error("cannot", { cause }))).toBe("Error: cannot\ncaused by RangeError: too far");
    expect(messageOf(new HarnessError("connect() failed: too far", { cause }))).toBe(
      "connect() failed: too far",
    );
  });

  it("loses frames, colours and the folders of this machine", () => {
    const text = `\u001b[31mred\u001b[39m ${pathToFileURL(process.cwd()).href}/a.ts ${tmpdir()}/b ${homedir()}/c\n    at f (x.ts:1:2)`;
    expect(anonymous(text)).toBe("red ./a.ts <tmp>/b ~/c");
  });
});
