import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { loadHarness } from "../../packages/conformance/src/load-harness.ts";
import { mutantsOf, suspectsOf } from "../../packages/conformance/src/mutants/kill.ts";
import { semanticMutants } from "../../packages/conformance/src/mutants/semantic/index.ts";
import { parseSpec } from "../../packages/conformance/src/spec.ts";

const root = new URL("../../", import.meta.url);
const known = parseSpec(readFileSync(new URL("SPEC.md", root), "utf8")).map(({ id }) => id);
const drivers = await Promise.all(
  [
    ["sqlite", "packages/sqlite/conformance/harness.ts"],
    ["postgres", "packages/postgres/conformance/harness.ts"],
    ["lean reference", "packages/conformance/src/reference/lean-harness.ts"],
  ].map(async ([name = "", path = ""]) => {
    const harness = await loadHarness(new URL(path, root).href);
    return { name, mutants: mutantsOf(harness) };
  }),
);
const all = drivers.flatMap(({ mutants }) => mutants);

describe("mutants", () => {
  it("break every id of SPEC.md on at least one driver", () => {
    const broken = new Set(all.map(({ breaks }) => breaks));
    const missing = known.filter((id) => !broken.has(id));
    expect(missing).toEqual([]);
  });

  it("break only what SPEC.md lists and a case shows", () => {
    const idle = all.filter((mutant) => !known.includes(mutant.breaks) || suspectsOf(mutant).length === 0);
    expect(idle.map(({ name, breaks }) => `${breaks}: ${name}`)).toEqual([]);
  });

  it("that can be made of any driver are made of at least one of ours", () => {
    const made = new Set(all.map(({ name }) => name));
    expect(semanticMutants.map(({ name }) => name).filter((name) => !made.has(name))).toEqual([]);
  });

  it.each(drivers)("have names of their own on $name", ({ mutants }) => {
    const names = mutants.map(({ name }) => name);
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
  });
});
