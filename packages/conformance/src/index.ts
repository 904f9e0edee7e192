export type { Case, CaseContext, Level, Outbox, Peer } from "./case.ts";
export { cases } from "./cases/index.ts";
export * from "./define-harness.ts";
export { type MutantOptions, runMutants } from "./mutants/run.ts";
export { type SqlMutant, sqlMutant } from "./mutants/sql.ts";
export { override } from "./override.ts";
export { type ConformanceOptions, runConformance, type TestRunner } from "./run.ts";
export { type Guarantee, parseSpec } from "./spec.ts";
