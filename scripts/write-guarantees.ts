// Writes docs/guarantees.md: every guarantee of SPEC.md with the cases that test it. `--check` only compares.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { cases, parseSpec } from "../packages/conformance/src/index.ts";

const root = new URL("../", import.meta.url);
const target = fileURLToPath(new URL("docs/guarantees.md", root));

/** The page as it has to be. */
export function guaranteesPage(): string {
  const guarantees = parseSpec(readFileSync(new URL("SPEC.md", root), "utf8"));
  const rows = guarantees.map(({ id, level, capability, text }) => {
    const intents = cases.filter((each) => each.id === id).map((each) => `${each.intent} (${each.level})`);
    const branch = capability === undefined ? "" : ` \`${capability}\``;
    return `| **${id}** | ${level}${branch} | ${text} | ${intents.join("<br>")} |`;
  });
  return `# Guarantees and their cases

Written by \`pnpm docs:guarantees\` from [SPEC.md](../SPEC.md) and the cases in
[packages/conformance/src/cases](../packages/conformance/src/cases). The number is the level: 1 is one session, 2 several
sessions and processes. A capability beside it picks which branch of a case is tested.

| id | level | what | cases |
| --- | --- | --- | --- |
${rows.join("\n")}
`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (!process.argv.includes("--check")) writeFileSync(target, guaranteesPage());
  else if (readFileSync(target, "utf8") !== guaranteesPage()) {
    console.error("docs/guarantees.md is out of date; run pnpm docs:guarantees");
    process.exit(1);
  }
}
