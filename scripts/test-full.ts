// Everything that takes too long for every change: run it before a release, and after a change to a driver or the suite.
//   node scripts/test-full.ts
// Needs about two hours on two cores. Ends with `N passed, N failed`.
import { runSteps, type Step } from "./ci/steps.ts";

const SOAK = "10m";

const steps: readonly Step[] = [
  { name: "every Postgres", command: ["node", "scripts/test-matrix.ts"], counts: "summary", minutes: 60 },
  {
    name: "Postgres through PgBouncer",
    command: ["node", "scripts/test-pooler.ts"],
    counts: "summary",
    minutes: 10,
  },
  { name: "large tables", command: ["node", "scripts/test-growth.ts"], counts: "summary", minutes: 20 },
  {
    name: "every mutant, with the kill rates of the races",
    command: ["node", "scripts/test-mutants.ts", "--runs", "20"],
    counts: "summary",
    minutes: 60,
  },
  {
    name: "soak on SQLite",
    command: ["node", "scripts/conformance.ts", "sqlite", "--only", "HIST-01", "--soak", SOAK],
    counts: "exit",
    minutes: 15,
  },
  {
    name: "soak on Postgres",
    command: ["node", "scripts/conformance.ts", "postgres", "--only", "HIST-01", "--soak", SOAK],
    counts: "exit",
    minutes: 15,
  },
];

await runSteps(steps, 180);
