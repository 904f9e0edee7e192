/** What is not offered is refused, and the suite notices a driver that pretends to offer it. */
import { afterAll, describe, expect, it } from "vitest";
import { cases as allCases } from "../src/cases/index.ts";
import { ContenderPool } from "../src/engine/pool.ts";
import { attack, mutantsOf, suspectsOf } from "../src/mutants/kill.ts";
import reference from "../src/reference/harness.ts";
import lean from "../src/reference/lean-harness.ts";
import { runCase } from "../src/run.ts";

const pool = new ContenderPool(new URL("../src/reference/lean-harness.ts", import.meta.url).href);
afterAll(() => pool.close());

const others = new Set(mutantsOf(reference).map(({ name }) => name));
const mutants = mutantsOf(lean).filter(({ name }) => !others.has(name));
const cases = allCases.filter(({ id }) =>
  ["INBOX-01", "KEY-01", "PAGE-04", "PAGE-06", "WAKE-01"].includes(id),
);

describe("a driver without tail, wake-ups and keys", () => {
  it.each(cases)("$id: $intent", (each) => runCase(lean, each, { pool }));

  it.each(mutants)("$breaks notices $name", async (mutant) => {
    expect(await attack(lean, mutant, suspectsOf(mutant), pool)).toBeDefined();
  });

  it("has mutants of its own", () => {
    expect(mutants.map(({ breaks }) => breaks).sort()).toEqual(["KEY-01", "PAGE-04", "PAGE-06", "WAKE-01"]);
  });
});
