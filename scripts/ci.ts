// Everything that has to hold before a change goes in, as one run with one line of totals at its end. Started by .ci/run,
// which installs first.
import { runSteps, type Step, VITEST_ARGS } from "./ci/steps.ts";

const steps: readonly Step[] = [
  {
    name: "tests",
    command: ["npm", "test", "--", ...VITEST_ARGS],
    counts: "vitest",
    minutes: 15,
    asReader: true,
  },
  ...onAnotherNode(),
  { name: "lint", command: ["pnpm", "lint"], counts: "exit", minutes: 2 },
  { name: "types", command: ["pnpm", "typecheck"], counts: "exit", minutes: 4 },
  {
    name: "guarantees page",
    command: ["node", "scripts/write-guarantees.ts", "--check"],
    counts: "exit",
    minutes: 1,
  },
  {
    name: "drivers page",
    command: ["node", "scripts/write-drivers.ts", "--check"],
    counts: "exit",
    minutes: 1,
  },
  { name: "dead code", command: ["pnpm", "knip"], counts: "exit", minutes: 3 },
  { name: "packages", command: ["node", "scripts/check-packages.ts"], counts: "summary", minutes: 8 },
  {
    name: "a share of the mutants",
    command: [
      "node",
      "scripts/test-mutants.ts",
      "--driver",
      "sqlite,postgres",
      "--share",
      "1/8",
      "--runs",
      "1",
    ],
    counts: "summary",
    minutes: 6,
  },
  {
    name: "Postgres through PgBouncer",
    command: ["node", "scripts/test-pooler.ts"],
    counts: "summary",
    minutes: 5,
  },
  { name: "demo", command: ["npm", "run", "demo"], counts: "exit", minutes: 3, asReader: true },
  {
    name: "demo of an upload",
    command: ["npm", "run", "demo:http", "--", "--size", "8"],
    counts: "exit",
    minutes: 3,
    asReader: true,
  },
  {
    name: "oldest and newest Postgres",
    command: ["node", "scripts/test-matrix.ts", "--only", "14,18", "--level", "1"],
    counts: "summary",
    minutes: 8,
  },
  {
    name: "demo on Postgres",
    command: ["npm", "run", "demo", "--", "--postgres"],
    counts: "exit",
    minutes: 3,
    asReader: true,
  },
];

/** The same tests on the system's Node, where it is one that we support and not the pinned one (CI's matrix). */
function onAnotherNode(): Step[] {
  const node = process.env.DOVECOTE_SYSTEM_NODE;
  const version = process.env.DOVECOTE_SYSTEM_NODE_VERSION?.replace(/^v/, "");
  if (!node || !version || version === process.versions.node) return [];
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major < 22 || (major === 22 && minor < 13)) return [];
  const command = [node, "node_modules/vitest/vitest.mjs", "run", ...VITEST_ARGS] as const;
  return [{ name: `tests on Node ${version}`, command, counts: "vitest", minutes: 15 }];
}

// Whoever runs this may stop it after 25 minutes, and then nothing is counted at all.
await runSteps(steps, 23);
