/** The operations on one event as text, one line each. */
import type { EventHistory, Operation } from "./operation.ts";

export function timelineOf({ operations, final }: EventHistory): string {
  const rows = final.map(
    ({ rowId, state, attempts }) =>
      `  in the end   row ${rowId} ${state ?? "without a delivery"} attempt ${attempts}`,
  );
  return [...operations.map(lineOf), ...(rows.length > 0 ? rows : ["  in the end   no row"])].join("\n");
}

export function lineOf({ p, op, type, t0, t1, rowId, attempt, token, leaseMs, answer }: Operation): string {
  const took = t1 === Number.POSITIVE_INFINITY ? "never returned" : `took ${ms(t1 - t0)}`;
  const details = [
    rowId !== undefined && `row ${rowId}`,
    attempt !== undefined && `attempt ${attempt}`,
    token !== undefined && `token ${token.slice(0, 8)}`,
    leaseMs !== undefined && `lease ${leaseMs} ms`,
    answer,
    took,
  ].filter(Boolean);
  return `  ${ms(t0).padStart(12)} ${p.padEnd(14)} ${op.padEnd(10)} ${type.padEnd(4)} ${details.join(", ")}`;
}

function ms(ns: number): string {
  return `${(ns / 1e6).toFixed(3)} ms`;
}
