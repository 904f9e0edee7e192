/** What operators do without a claim: redrive, prune, reconcile. Each write proves the state by itself (FENCE-10). */
import {
  BOUNDS,
  type DeliveryState,
  type PruneRequest,
  type RedriveFilter,
  type RedriveOutcome,
} from "@dovecote/core";
import type { Connection } from "./connection.ts";
import { spanOf } from "./read.ts";

export function redrive(connection: Connection, tenant: string | null, rowId: number): RedriveOutcome {
  const now = connection.now();
  if (connection.run("redrive", { rowId, tenant, now }) === 1) return { outcome: "applied" };
  const row = connection.get<{ state: DeliveryState; attempt: number }>("stateOf", { rowId, tenant });
  if (row === undefined) return { outcome: "notFound" };
  const { state, attempt } = row;
  if (state === "quarantined" && attempt === BOUNDS.attempt) return { outcome: "counterOverflow" };
  return { outcome: "illegalTransition", state };
}

export function redriveMany(connection: Connection, filter: RedriveFilter): readonly number[] {
  const { tenant, stream, failureCode, limit, dryRun } = filter;
  const { span, named } = spanOf(tenant);
  const parameters = { ...named, stream, failureCode, limit };
  const picked = connection.all<{ rowId: number }>(`pickQuarantined.${span}`, parameters);
  const rowIds = picked.map(({ rowId }) => rowId);
  if (dryRun) return rowIds;
  const now = connection.now();
  return rowIds.filter((rowId) => connection.run("redrive", { rowId, tenant, now }) === 1);
}

/** One bounded batch; each delivery goes before its event, to which it refers (SETTLE-07). */
export function prune(connection: Connection, request: PruneRequest): number {
  const { tenant, olderThanMs, quarantined, limit } = request;
  const { span, named } = spanOf(tenant);
  const bound = connection.now() - olderThanMs * 1000;
  let removed = 0;
  for (const state of quarantined ? (["delivered", "quarantined"] as const) : (["delivered"] as const)) {
    const parameters = { ...named, bound, limit: limit - removed };
    for (const { rowId } of connection.all<{ rowId: number }>(`pickOld.${state}.${span}`, parameters)) {
      if (connection.run("pruneDelivery", { rowId, state, bound }) === 0) continue;
      removed += connection.run("pruneEvent", { rowId });
    }
  }
  return removed;
}

export function reconcile(
  connection: Connection,
  rowId: number,
): "reconciled" | "alreadyPresent" | "notFound" {
  if (connection.run("reconcile", { rowId, now: connection.now() }) === 1) return "reconciled";
  return connection.get("stateOf", { rowId, tenant: null }) === undefined ? "notFound" : "alreadyPresent";
}
