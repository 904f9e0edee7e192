import assert from "node:assert/strict";
import { describe, expect, it } from "vitest";
import type { Case, CaseContext } from "../src/case.ts";
import { startChild } from "../src/engine/child.ts";
import { type Report, runSuite } from "../src/index.ts";
import { runCases, type SuiteEvent, type SuiteOptions } from "../src/suite.ts";

const harness = new URL("../src/reference/harness.ts", import.meta.url);

function made(id: string, run: (t: CaseContext) => Promise<void>, others: Partial<Case> = {}): Case {
  return { id, level: 1, intent: `the intent of ${id}`, run, ...others };
}

const holds = async (): Promise<void> => {};
const fails = async (): Promise<void> => assert.fail("as it has to");

function run(
  suite: readonly Case[],
  options: SuiteOptions = {},
  onEvent: (event: SuiteEvent) => void = () => {},
): Promise<Report> {
  return runCases(suite, harness, options, onEvent);
}

function outcomes({ cases }: Report): readonly string[] {
  return cases.map(({ id, outcome }) => `${id} ${outcome}`);
}

describe("which cases are run", () => {
  const suite = [made("B-01", holds, { level: 2 }), made("A-01", holds), made("A-02", holds)];

  it("level by level, in the order of the suite", async () => {
    expect(outcomes(await run(suite))).toEqual(["A-01 passed", "A-02 passed", "B-01 passed"]);
  });

  it("only those that were asked for", async () => {
    const report = await run(suite, { levels: [1], only: ["A-02"] });
    expect(outcomes(report)).toEqual(["A-02 passed"]);
    expect(report.levels).toEqual({ 1: "notRun", 2: "notRun", 3: "notRun" });
  });

  it.each([
    [{ only: ["A-09"] }, "there is no case A-09"],
    [{ levels: [1] as const, only: ["B-01"] }, "B-01 is a case of level 2, which was not asked for"],
    [{ levels: [4] as never }, "there is no level 4"],
  ])("refuses %j", async (options, message) => {
    await expect(run(suite, options)).rejects.toThrow(message);
  });
});

describe("a run", () => {
  it("tells what happens, case by case", async () => {
    const events: SuiteEvent[] = [];
    await run([made("A-01", holds), made("A-02", fails)], { seed: 7 }, (event) => events.push(event));
    expect(events.map(({ kind }) => kind)).toEqual([
      "start",
      "caseStarted",
      "caseFinished",
      "caseStarted",
      "caseFinished",
    ]);
    expect(events[0]).toMatchObject({ seed: 7, total: 2 });
    expect(events.at(-1)).toMatchObject({ case: { id: "A-02", outcome: "failed", message: "as it has to" } });
  });

  it("gives every case the seed and the time of a soak", async () => {
    const seen: number[] = [];
    const look = async (t: CaseContext): Promise<void> => {
      seen.push(t.seed, t.soakMs);
    };
    await run([made("A-01", look), made("A-02", look)], { seed: 7, soakMs: 1234 });
    expect(seen).toEqual([7, 1234, 7, 1234]);
  });

  it("abandons a case that hangs, ends its processes, and goes on", async () => {
    const endings: Promise<unknown>[] = [];
    const hangs = async (): Promise<void> => {
      const child = startChild("contender");
      endings.push(new Promise((resolve) => child.once("exit", (_code, signal) => resolve(signal))));
      await new Promise(() => {});
    };
    const report = await run([made("A-01", hangs), made("A-02", holds)], { timeoutMs: 300 });
    expect(outcomes(report)).toEqual(["A-01 failed", "A-02 passed"]);
    expect(report.cases[0]?.message).toBe('A-01 ("the intent of A-01") did not settle within 0.3 s');
    expect(await Promise.all(endings)).toEqual(["SIGKILL"]);
  });

  it("lets an abandoned case start nothing any more", async () => {
    const later = Promise.withResolvers<unknown>();
    const abandoned = Promise.withResolvers<void>();
    const hangs = async (t: CaseContext): Promise<void> => {
      await abandoned.promise;
      await t.connect().catch(later.resolve);
    };
    await run([made("A-01", hangs)], { timeoutMs: 200 });
    abandoned.resolve();
    expect(String(await later.promise)).toBe("Error: this case was abandoned");
  });

  it("ends where its signal says, and reports the cases before", async () => {
    const controller = new AbortController();
    const interrupts = async (): Promise<void> => {
      controller.abort(new Error("enough"));
      await new Promise(() => {});
    };
    const suite = [made("A-01", holds), made("A-02", interrupts), made("A-03", holds)];
    const report = await run(suite, { signal: controller.signal });
    expect(outcomes(report)).toEqual(["A-01 passed"]);
    expect(report.interrupted).toBe(true);
  });

  it("shows a provisional case and does not let it decide", async () => {
    const report = await run([made("A-01", holds), made("A-02", fails, { provisional: true })]);
    expect(report.cases[1]).toMatchObject({ outcome: "failed", provisional: true });
    expect(report.levels[1]).toBe("passed");
  });

  it("closes what a failed case left open, and keeps the first error", async () => {
    let closed = 0;
    const leavesOpen = async (t: CaseContext): Promise<void> => {
      const { session } = await t.connect();
      const { close } = session;
      session.close = async () => {
        closed += 1;
        await close.call(session);
        assert.fail("the second error");
      };
      assert.fail("the first error");
    };
    const report = await run([made("A-01", leavesOpen)]);
    expect(report.cases[0]?.message).toBe("the first error");
    expect(closed).toBe(1);
  });
});

describe("known deviations", () => {
  const deviations = [{ id: "A-01", reason: "no sequences", issue: "https://example.org/1" }];

  it("are run, have to fail, and make their level partial", async () => {
    const report = await run([made("A-01", fails), made("A-02", holds)], { deviations });
    const { id: _, ...deviation } = deviations[0] ?? {};
    expect(report.cases[0]).toMatchObject({ outcome: "deviates", message: "as it has to", deviation });
    expect(report.levels[1]).toBe("partial");
    expect(report.badge).toBe("contract 1 · partial");
  });

  it("fail the run once all of their cases hold", async () => {
    const report = await run([made("A-01", holds), made("A-01", holds)], { deviations });
    expect(outcomes(report)).toEqual(["A-01 passed", "A-01 failed"]);
    expect(report.cases[1]?.message).toMatch(/^A-01 is listed as a deviation, and every case of it holds/);
    expect(report.levels[1]).toBe("failed");
  });

  it("need one of their cases to fail, and not all", async () => {
    const report = await run([made("A-01", fails), made("A-01", holds)], { deviations });
    expect(outcomes(report)).toEqual(["A-01 deviates", "A-01 passed"]);
    expect(report.levels[1]).toBe("partial");
  });

  it.each([
    ["never ends", () => new Promise<never>(() => {})],
    [
      "fails for no reason of the driver's",
      () => Promise.reject(new TypeError("a typing error of the harness")),
    ],
  ])("do not excuse a case that %s", async (_name, body) => {
    const report = await run([made("A-01", body)], { deviations, timeoutMs: 50 });
    expect(outcomes(report)).toEqual(["A-01 failed"]);
    expect(report.levels[1]).toBe("failed");
  });

  it("are not judged by a run that leaves out a case of theirs", async () => {
    const report = await run([made("A-01", holds), made("A-01", fails, { level: 2 })], {
      deviations,
      levels: [1],
    });
    expect(outcomes(report)).toEqual(["A-01 passed"]);
  });

  it.each([
    [[{ id: "A-09", reason: "r", issue: "i" }], "deviations: there is no case A-09"],
    [[{ id: "A-01", reason: "", issue: "i" }], "reason is missing"],
    [[...deviations, ...deviations], "deviations: A-01 is listed twice"],
  ])("are refused: %j", async (list, message) => {
    await expect(run([made("A-01", fails)], { deviations: list })).rejects.toThrow(message);
  });
});

it("the suite itself runs on the reference store", async () => {
  const report = await runSuite(harness, { levels: [1], only: ["FENCE-01"], seed: 7 });
  expect(outcomes(report)).toEqual(["FENCE-01 passed"]);
});
