import { describe, expect, it } from "vitest";
import { type Harness, HarnessError, type Report, runSuite, TimeLimitError } from "../src/index.ts";
import { referenceHarness as good } from "../src/reference/index.ts";
import { tryHarness } from "../src/use-harness.ts";

/** How long the suite waits for a call that never settles; on a busy machine every other call has to settle within it. */
const HANG_LIMIT_MS = 3000;

function run(fault: string, timeoutMs?: number): Promise<Report> {
  process.env.DOVECOTE_TEST_FAULT = fault;
  // The query makes it another module for every fault.
  const url = new URL(`./fixtures/bad-harness.ts?fault=${fault}`, import.meta.url);
  return runSuite(url, { levels: [1], only: ["TX-01", "FENCE-01"], timeoutMs });
}

describe("a harness that cannot be used is refused, and told why", () => {
  it.each([
    ["throws", /bad-harness.ts cannot be loaded: no server is running/],
    ["noDefault", /bad-harness.ts must export a harness as its default/],
    ["noObject", /a harness must be an object, not string/],
    ["noConnect", /connect of the harness must be a function, not undefined/],
    ["noVersion", /driver.version of the harness must be a text, not undefined/],
    ["otherContract", /driver.contract of the harness is 2: this suite tests contract 1/],
    ["unknownCapability", /capabilities.teleport of the harness is no capability of the contract/],
    ["missingCapability", /capabilities.lockScope of the harness is missing: it must be "row" or "database"/],
    ["illegalCapability", /capabilities.clock of the harness is "wall": it must be "server" or "host"/],
    ["otherCapabilities", /capabilities of the harness must be those of the driver/],
    ["deviationsNoArray", /deviations of the harness must be an array, not object/],
    ["createSpaceThrows", /createSpace\(\) of the harness failed: no room/],
    ["spaceWithoutDispose", /createSpace\(\) of the harness must answer \{ locator, dispose \}/],
    ["sameLocator", /createSpace\(\) of the harness handed out the locator "one" twice/],
    ["locatorDate", /a locator that is JSON.*it arrives as \{"at":"1970/],
    ["locatorUndefined", /a locator that is JSON.*it does not arrive/],
    ["connectThrows", /connect\(\) of the harness failed: refused/],
    ["sessionWithoutProbe", /connect\(\) of the harness answered a session whose probe is undefined/],
  ])("%s", async (fault, message) => {
    const failure = await run(fault).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(HarnessError);
    expect((failure as Error).message).toMatch(message);
  });

  it.each([
    ["connectHangs", /connect\(\) of the harness did not settle within 3 s/],
    ["closeHangs", /close\(\) of a session did not settle within 3 s/],
  ])("%s", async (fault, message) => {
    const failure = await run(fault, HANG_LIMIT_MS).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(TimeLimitError);
    expect((failure as Error).message).toMatch(message);
  });

  it("a deviation that there is not", async () => {
    await expect(run("unknownDeviation")).rejects.toThrow("deviations: there is no case FENCE-99");
  });
});

describe("a harness that is tried", () => {
  it.each([
    ["whose connect() fails", { connect: async () => Promise.reject(new Error("refused")) }],
    ["whose session has no probe", { connect: async () => ({}) as never }],
    [
      "whose capabilities are not its driver's",
      { capabilities: { ...good.capabilities, notify: !good.capabilities.notify } },
    ],
  ])("leaves no space behind: one %s", async (_name, fault) => {
    const spaces = new Set<unknown>();
    const harness: Harness = {
      ...good,
      async createSpace() {
        const space = await good.createSpace();
        spaces.add(space.locator);
        return {
          locator: space.locator,
          async dispose() {
            spaces.delete(space.locator);
            await space.dispose();
          },
        };
      },
      ...fault,
    };
    await expect(tryHarness(harness, { limitMs: 30_000 })).rejects.toThrow(HarnessError);
    expect(spaces).toEqual(new Set());
  });
});

describe("a harness that fails once fails one case, and the run goes on", () => {
  it.each([
    ["createSpaceThrowsOnce", "createSpace() of the harness failed: no room"],
    ["connectHangsOnce", "connect() of the harness did not settle within 3 s"],
    ["closeHangsOnce", "close() of a session did not settle within 3 s"],
  ])("%s", async (fault, message) => {
    const { cases, levels } = await run(fault, HANG_LIMIT_MS);
    expect(cases[0]).toMatchObject({ outcome: "failed", message });
    expect(cases.slice(1).map(({ outcome }) => outcome)).toEqual(cases.slice(1).map(() => "passed"));
    expect(cases.length).toBeGreaterThan(1);
    expect(levels[1]).toBe("failed");
  });
});
