import { readFileSync } from "node:fs";
import { BOUNDS } from "@dovecote/core";
import { describe, expect, it } from "vitest";
import { cases } from "../src/cases/index.ts";
import { capabilities } from "../src/reference/driver.ts";
import { type Guarantee, parseSpec } from "../src/spec.ts";

const markdown = readFileSync(new URL("../../../SPEC.md", import.meta.url), "utf8");
const guarantees = parseSpec(markdown);
const byId = new Map(guarantees.map((guarantee) => [guarantee.id, guarantee]));

describe("SPEC.md", () => {
  it("lists no id that has no case of its level", () => {
    const shown = new Set(cases.map(({ id, level }) => `${id} (${level})`));
    const missing = guarantees.map(({ id, level }) => `${id} (${level})`).filter((each) => !shown.has(each));
    expect(missing).toEqual([]);
  });

  it("lists the id of every case", () => {
    const unknown = cases.map(({ id }) => id).filter((id) => !byId.has(id));
    expect(unknown).toEqual([]);
  });

  it("gives every id at least the level of its cases", () => {
    const above = cases
      .filter(({ id, level }) => level > (byId.get(id)?.level ?? level))
      .map(({ id, level, intent }) => `${id} (${level}): ${intent}`);
    expect(above).toEqual([]);
  });

  it("keeps each group together under its heading, ids ascending", () => {
    const groups = new Map<string, number[]>();
    let heading: string | undefined;
    for (const line of markdown.split("\n")) {
      heading = /^### ([A-Z]+):/.exec(line)?.[1] ?? heading;
      const [, group, number] = /^- \*\*([A-Z]+)-(\d\d)\*\*/.exec(line) ?? [];
      if (group === undefined) continue;
      expect(heading, line).toBe(group);
      groups.set(group, [...(groups.get(group) ?? []), Number(number)]);
    }
    for (const [group, numbers] of groups) {
      const ascending = numbers.toSorted((a, b) => a - b);
      expect(numbers, group).toEqual(ascending);
    }
    expect([...groups.values()].flat()).toHaveLength(guarantees.length);
  });

  it("leaves out no list item that was meant as a guarantee", () => {
    const meant = markdown.match(/^\s*[-*] \*\*[A-Z]+-\d+/gm);
    expect(meant).toHaveLength(guarantees.length);
  });

  it("names only capabilities that there are", () => {
    const unknown = guarantees.filter(
      ({ capability }) => capability !== undefined && !Object.hasOwn(capabilities, capability),
    );
    expect(unknown).toEqual([]);
  });

  it("describes every bound and every capability, and no other", () => {
    expect(namesIn("## Capabilities", 0)).toEqual(Object.keys(capabilities).toSorted());
    expect(namesIn("## Bounds", 1)).toEqual(Object.keys(BOUNDS).toSorted());
  });
});

describe("parseSpec", () => {
  it("reads id, level, capability and text", () => {
    const text =
      "# Title\n\nProse about FENCE-09.\n\n- **FENCE-09** (2): never both\n- **TX-04** (1, savepoints): a, b: c\n";
    const expected: readonly Guarantee[] = [
      { id: "FENCE-09", level: 2, capability: undefined, text: "never both" },
      { id: "TX-04", level: 1, capability: "savepoints", text: "a, b: c" },
    ];
    expect(parseSpec(text)).toEqual(expected);
  });

  it.each([
    ["a level that is none", "- **TX-01** (4): text"],
    ["no level", "- **TX-01**: text"],
    ["no text", "- **TX-01** (1): "],
    ["a number of one digit", "- **TX-1** (1): text"],
    ["a lower-case group", "- **tx-01** (1): text"],
    ["an indented item", "  - **TX-01** (1): text"],
    ["another mark", "* **TX-01** (1): text"],
  ])("takes no item with %s", (_what, item) => {
    expect(parseSpec(`- **ID-01** (1): text\n${item}\n`).map(({ id }) => id)).toEqual(["ID-01"]);
  });

  it("throws if an id is listed twice, also with another text", () => {
    expect(() => parseSpec("- **TX-01** (1): one\n- **TX-01** (2): two\n")).toThrow("TX-01 is listed twice");
  });

  it.each(["", "# Guarantees\n\nNone yet.\n"])("throws if nothing is found: %j", (text) => {
    expect(() => parseSpec(text)).toThrow("no guarantee was found");
  });
});

/** The names in one column of the table in a section, sorted. */
function namesIn(heading: string, column: number): readonly string[] {
  const section = markdown.split(`\n${heading}\n`)[1]?.split("\n## ")[0] ?? "";
  return section
    .split("\n")
    .map((line) => /^`(\w+)`$/.exec(line.split("|")[column + 1]?.trim() ?? "")?.[1])
    .filter((name) => name !== undefined)
    .toSorted();
}
