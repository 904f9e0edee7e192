import { pathToFileURL } from "node:url";
import { describe, expect, it } from "vitest";
import { parseArguments } from "../src/cli/arguments.ts";

describe("the command line", () => {
  it("runs every level by default, and writes a report", () => {
    expect(parseArguments(["./harness.ts"])).toEqual({
      kind: "run",
      harness: "./harness.ts",
      harnessUrl: new URL("harness.ts", `${pathToFileURL(process.cwd()).href}/`),
      levels: [1, 2, 3],
      only: undefined,
      seed: undefined,
      soakMs: undefined,
      timeoutMs: undefined,
      json: false,
      reportFile: "conformance-report.json",
      badgeFile: undefined,
      deviationsFile: undefined,
    });
  });

  it("takes what it is given", () => {
    const given = "h.ts --level 2 --seed 7 --soak 2m --timeout 500ms --json --report r.json --badge b.json";
    expect(parseArguments(given.split(" "))).toMatchObject({
      levels: [1, 2],
      seed: 7,
      soakMs: 120_000,
      timeoutMs: 500,
      json: true,
      reportFile: "r.json",
      badgeFile: "b.json",
    });
  });

  it("does not overwrite the report of a whole run with that of some ids", () => {
    const command = parseArguments(["h.ts", "--only", "TX-01, TX-02"]);
    expect(command).toMatchObject({ only: ["TX-01", "TX-02"], reportFile: undefined });
  });

  it("needs no harness to list, to help, and to tell its version", () => {
    expect(parseArguments(["--list", "--level", "1"])).toMatchObject({ kind: "list", levels: [1] });
    expect(parseArguments(["-h"])).toEqual({ kind: "help" });
    expect(parseArguments(["--version"])).toEqual({ kind: "version" });
  });

  it.each([
    ["", "which harness?"],
    ["a.ts b.ts", "not also b.ts"],
    ["a.ts --fast", "Unknown option '--fast'"],
    ["a.ts --level 4", "--level is 1, 2 or 3, not 4"],
    ["a.ts --seed x", "--seed is an integer from 0 to 4294967295, not x"],
    ["a.ts --seed 4294967296", "--seed is an integer from 0 to 4294967295"],
    ["a.ts --soak 60", "--soak is a time such as 500ms, 60s or 5m, up to 24h, not 60"],
    ["a.ts --soak 25h", "--soak is a time"],
    ["a.ts --timeout 0s", "--timeout is a time"],
    ["a.ts --only TX-01,", "--only needs ids"],
    ["a.ts --only TX-01 --badge b.json", "--badge is about whole levels"],
  ])("refuses %j", (args, message) => {
    expect(() => parseArguments(args.split(" ").filter((arg) => arg !== ""))).toThrow(message);
  });
});
