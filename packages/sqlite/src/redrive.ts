/** Quarantined rows back to pending. */
import type { DeliveryState, RedriveFilter, RedriveOutcome } from "@dovecote/core";
import { BOUNDS } from "@dovecote/core";
import type { Connection } from "./connection.ts";
import { safeRowId } from "./rows.ts";
import { tenantsWith } from "./tenants.ts";

export function redrive(connection: Connection, tenant: string | null, rowId: number): RedriveOutcome {
  const now = connection.now();
  if (connection.statement("redrive").run({ rowId, tenant, now }).changes === 1)
    return { outcome: "applied" };
  const row = connection.statement("stateOf").get({ rowId, tenant }) as
    | { state: DeliveryState; attempts: number }
    | undefined;
  if (row === undefined) return { outcome: "notFound" };
  if (row.state === "quarantined" && row.attempts === BOUNDS.attempt) return { outcome: "counterOverflow" };
  return { outcome: "illegalTransition", state: row.state };
}

export function redriveMany(connection: Connection, filter: RedriveFilter): readonly number[] {
  const candidates = pick(connection, filter);
  if (filter.dryRun) return candidates;
  const now = connection.now();
  const statement = connection.statement("redrive");
  return candidates.filter((rowId) => statement.run({ rowId, tenant: filter.tenant, now }).changes === 1);
}

/** The oldest quarantines, across tenants if none is named. */
function pick(
  connection: Connection,
  { tenant, stream, failureCode, limit }: RedriveFilter,
): readonly number[] {
  const statement = connection.statement("pickQuarantined");
  const found: { row_id: number; at: number }[] = [];
  for (const each of tenantsWith(connection, "quarantined", tenant)) {
    found.push(...(statement.all({ tenant: each, stream, failureCode, limit }) as typeof found));
  }
  found.sort((a, b) => a.at - b.at || a.row_id - b.row_id);
  return found.slice(0, limit).map(({ row_id }) => safeRowId(row_id));
}
