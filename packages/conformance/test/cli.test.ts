import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import { EXEC_ARGV } from "../src/engine/child.ts";
import { parseReport } from "../src/index.ts";

const cli = fileURLToPath(new URL("../src/cli.ts", import.meta.url));
const reference = fileURLToPath(new URL("../src/reference/harness.ts", import.meta.url));
const bad = fileURLToPath(new URL("./fixtures/bad-harness.ts", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "dovecote-cli-"));
const reportFile = join(folder, "conformance-report.json");

afterAll(() => rmSync(folder, { recursive: true }));

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

interface Start {
  readonly env?: NodeJS.ProcessEnv;
  readonly onStart?: (child: ChildProcess) => void;
}

function node(args: readonly string[], { env, onStart }: Start = {}): Promise<Ended> {
  rmSync(reportFile, { force: true });
  const child = spawn(process.execPath, [...EXEC_ARGV, ...args], {
    cwd: folder,
    env: { ...process.env, NO_COLOR: "1", ...env },
  });
  const output = { stdout: "", stderr: "" };
  for (const stream of ["stdout", "stderr"] as const) {
    child[stream].setEncoding("utf8").on("data", (text: string) => {
      output[stream] += text;
    });
  }
  onStart?.(child);
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, ...output }));
  });
}

function run(...args: readonly string[]): Promise<Ended> {
  return node([cli, ...args]);
}

function runBad(fault: string, ...args: readonly string[]): Promise<Ended> {
  return node([cli, bad, ...args], { env: { DOVECOTE_TEST_FAULT: fault } });
}

function jsonLines(text: string): readonly Record<string, unknown>[] {
  return text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

describe("without a run", () => {
  it("--help and --version", async () => {
    expect((await run("--help")).stdout).toContain("npx @dovecote/conformance <harness>");
    expect(await run("--version")).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/),
    });
  });

  it("--list names the cases of the levels, and --json makes them data", async () => {
    const { code, stdout } = await run("--list", "--level", "1");
    expect(code).toBe(0);
    expect(stdout).toMatch(/^TX-01 {7}1 {2}commit makes/m);
    expect(stdout).not.toMatch(/^CRASH-01/m);
    const lines = jsonLines((await run("--list", "--json")).stdout);
    expect(lines).toContainEqual(expect.objectContaining({ id: "CRASH-01", level: 3 }));
  });

  it("misuse ends with 2, and says what is wrong", async () => {
    expect(await run("a.ts", "--fast")).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringContaining("Unknown option '--fast'"),
    });
  });

  it("a harness that cannot be loaded ends it with 2, and so does one that cannot be used", async () => {
    const missing = await run("a.ts");
    expect(missing).toMatchObject({ code: 2, stdout: "" });
    expect(missing.stderr).toBe("dovecote-conformance: a.ts cannot be loaded: there is no such file\n");
    const refusing = await runBad("connectThrows");
    expect(refusing).toMatchObject({ code: 2, stdout: "" });
    expect(refusing.stderr).toContain("connect() of the harness failed: refused");
  });
});

describe("a run", () => {
  it("that holds ends with 0 and says what it did", async () => {
    const { code, stdout, stderr } = await run(
      reference,
      "--level",
      "1",
      "--only",
      "FENCE-01",
      "--seed",
      "7",
    );
    expect(stderr).toBe("");
    expect(stdout).toMatch(
      /seed 7\n\nLevel 1: one session\n1\/1 {2}passed {4}FENCE-01 +\d+ ms {2}a stale ack/,
    );
    expect(stdout).toMatch(/^holds: 1 of 1 case in \d+\.\d s, 0 failed$/m);
    expect(code).toBe(0);
    expect(existsSync(reportFile)).toBe(false);
  });

  it("that fails ends with 1, and says how to repeat each failure", async () => {
    const args = ["--only", "CLAIM-12,FENCE-01", "--seed", "7", "--report", reportFile];
    const { code, stdout } = await runBad("claimsNothing", ...args);
    expect(code).toBe(1);
    expect(stdout).toMatch(/^FENCE-01 \(level 1\): a stale ack/m);
    expect(stdout).toMatch(
      /^ {2}repeat: npx @dovecote\/conformance \S+bad-harness.ts --only FENCE-01 --seed 7$/m,
    );
    const report = parseReport(readFileSync(reportFile, "utf8"));
    expect(report.levels).toEqual({ 1: "failed", 2: "notRun", 3: "notRun" });
    expect(report.seed).toBe(7);
  });

  it("over a whole level writes report and badge", async () => {
    const { code, stdout } = await run(reference, "--level", "1", "--badge", "badge.json");
    expect(stdout).toMatch(/^Level 1: passed, (\d+) of \1 cases passed$/m);
    expect(code).toBe(0);
    const report = parseReport(readFileSync(reportFile, "utf8"));
    expect(report.levels).toEqual({ 1: "passed", 2: "notRun", 3: "notRun" });
    const badge = JSON.parse(readFileSync(join(folder, "badge.json"), "utf8")) as object;
    expect(badge).toMatchObject({ schemaVersion: 1, message: "contract 1 · basic" });
  });

  it("--json prints lines of JSON and nothing else, whatever the harness prints", async () => {
    const { code, stdout, stderr } = await runBad("prints", "--only", "FENCE-01", "--json");
    const lines = jsonLines(stdout);
    expect(lines.map(({ kind }) => kind)).toEqual(["start", "caseStarted", "caseFinished", "end"]);
    expect(parseReport(JSON.stringify(lines.at(-1)?.report)).cases).toHaveLength(1);
    expect(stderr).toContain("connected");
    expect(code).toBe(0);
  });

  it("reads known deviations from a file, and fails if one of them holds", async () => {
    const file = join(folder, "deviations.json");
    const list = [{ id: "FENCE-01", reason: "none", issue: "https://example.org/1" }];
    writeFileSync(file, JSON.stringify(list));
    const { code, stdout } = await run(reference, "--only", "FENCE-01", "--deviations", file);
    expect(stdout).toContain("FENCE-01 is listed as a deviation, and every case of it holds");
    expect(code).toBe(1);
  });

  it("names what a harness leaks, and ends all the same, with 1", async () => {
    const { code, stdout } = await runBad("leaks", "--only", "FENCE-01");
    expect(stdout).toMatch(/the harness leaks: Timeout.* keep the process alive/);
    expect(stdout).toMatch(/^does not hold: 1 of 1 case/m);
    expect(code).toBe(1);
  });

  it("takes a rejection that nobody handled for the failure of its case", async () => {
    const { code, stdout } = await runBad("unhandled", "--only", "TX-01,FENCE-01");
    expect(stdout).toContain("a rejection that nobody handled while the case ran: forgotten");
    expect(stdout).toMatch(/^does not hold: (\d+) of \1 cases/m);
    expect(code).toBe(1);
  });

  it("does not take what an abandoned case left behind for the failure of the next", async () => {
    const { code, stdout } = await runBad("unhandledLate", "--only", "TX-08,FENCE-01", "--timeout", "1s");
    expect(stdout).toMatch(/TX-08 .*\n.*did not settle within 1 s/);
    expect(stdout).toMatch(/^does not hold: (\d+) of \1 cases in .* s, 1 failed/m);
    expect(code).toBe(1);
  });

  it.each([
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const)("that is ended by %s shows what was done, and ends with %i", async (signal, expected) => {
    const { code, stdout } = await node([cli, reference, "--level", "1"], {
      onStart: (child) => child.stdout?.once("data", () => child.kill(signal)),
    });
    expect(stdout).toMatch(/^interrupted after \d+ of \d+ cases/m);
    expect(code).toBe(expected);
    expect(existsSync(reportFile)).toBe(false);
  });
});

it("the suite runs in node:test, too", async () => {
  const fixture = fileURLToPath(new URL("./fixtures/node-test-fixture.ts", import.meta.url));
  const { code, stdout } = await node(["--test", "--test-reporter=tap", fixture]);
  expect(stdout).toMatch(/ok 1 - FENCE-01: a stale ack|FENCE-01: a stale ack/);
  expect(stdout).toMatch(/^# fail 0$/m);
  expect(code).toBe(0);
});

it("a race is reported with its rounds", async () => {
  const sqlite = fileURLToPath(new URL("../../sqlite/conformance/harness.ts", import.meta.url));
  const { code } = await run(sqlite, "--only", "WAKE-01", "--report", reportFile);
  expect(code).toBe(0);
  const races = parseReport(readFileSync(reportFile, "utf8")).cases.flatMap(({ race }) => race ?? []);
  expect(races).toEqual([{ rounds: expect.any(Number), overlaps: 1 }]);
});
