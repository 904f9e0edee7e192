/** Removing old rows, in one bounded batch. */
import type { PruneRequest } from "@dovecote/core";
import type { Connection } from "./connection.ts";
import { tenantsWith } from "./tenants.ts";

/** Delivery before event; a row that changed its state since it was picked stays (FENCE-10, SETTLE-07). */
export function prune(connection: Connection, request: PruneRequest): number {
  const bound = connection.now() - request.olderThanMs * 1000;
  const removed = pruneState(connection, "delivered", request, bound, request.limit);
  if (!request.quarantined || removed === request.limit) return removed;
  return removed + pruneState(connection, "quarantined", request, bound, request.limit - removed);
}

function pruneState(
  connection: Connection,
  state: "delivered" | "quarantined",
  { tenant }: PruneRequest,
  bound: number,
  limit: number,
): number {
  const pick = connection.statement(
    state === "delivered" ? "pickPrunableDelivered" : "pickPrunableQuarantined",
  );
  const remove = connection.statement(state === "delivered" ? "pruneDelivered" : "pruneQuarantined");
  const removeEvent = connection.statement("pruneEvent");
  let removed = 0;
  for (const each of tenantsWith(connection, state, tenant)) {
    if (removed === limit) break;
    for (const { row_id: rowId } of pick.all({ tenant: each, bound, limit: limit - removed }) as {
      row_id: number;
    }[]) {
      if (remove.run({ rowId, bound }).changes === 0) continue;
      removeEvent.run({ rowId });
      removed += 1;
    }
  }
  return removed;
}
