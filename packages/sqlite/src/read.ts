/** Everything that reads: pages, lists, counts, single rows. */
import type { CappedCount, ListRequest, PageRequest, StatsRecord, StoredRow } from "@dovecote/core";
import type { Connection } from "./connection.ts";
import { toStoredRow } from "./rows.ts";
import type { StatementName } from "./statements.ts";
import { tenantsWith } from "./tenants.ts";

/** Above every time and row id. */
const END = Number.MAX_SAFE_INTEGER;

export function page(
  connection: Connection,
  { tenant, stream, after, upTo, limit }: PageRequest,
): readonly StoredRow[] {
  const range = { stream, after, upTo: upTo ?? END, limit };
  const rows =
    tenant === null
      ? connection.statement("pageAll").all(range)
      : connection.statement("pageTenant").all({ ...range, tenant });
  return rows.map(toStoredRow);
}

export function lastRowId(connection: Connection): number {
  return (connection.statement("lastRowId").get() as { row_id: number }).row_id;
}

export function inspect(connection: Connection, tenant: string | null, rowId: number): StoredRow | null {
  const [row] = page(connection, { tenant: null, stream: null, after: rowId - 1, upTo: rowId, limit: 1 });
  return row === undefined || (tenant !== null && row.tenant !== tenant) ? null : row;
}

export function list(connection: Connection, request: ListRequest): readonly StoredRow[] {
  const { state, tenant, stream, failureCode, before, limit } = request;
  const filter = {
    stream,
    failureCode,
    beforeAt: before?.at ?? END,
    beforeRowId: before?.rowId ?? END,
    limit,
  };
  switch (state) {
    case "pending":
    case "claimed": {
      const pending = state === "pending";
      const rows =
        tenant === null
          ? connection.statement(pending ? "listPendingAll" : "listClaimedAll").all(filter)
          : connection
              .statement(pending ? "listPendingTenant" : "listClaimedTenant")
              .all({ ...filter, tenant });
      return rows.map(toStoredRow);
    }
    case "delivered":
    case "quarantined": {
      const delivered = state === "delivered";
      const statement = connection.statement(delivered ? "listDeliveredTenant" : "listQuarantinedTenant");
      const at = (row: StoredRow): number =>
        (delivered ? row.delivery?.deliveredAt : row.delivery?.quarantinedAt) ?? 0;
      let newest: StoredRow[] = [];
      for (const each of tenantsWith(connection, state, tenant)) {
        const rows = statement.all({ ...filter, tenant: each }).map(toStoredRow);
        newest = [...newest, ...rows].sort((a, b) => at(b) - at(a) || b.rowId - a.rowId).slice(0, limit);
      }
      return newest;
    }
  }
}

const COUNTS = ["due", "scheduled", "claimed", "expired", "quarantined", "exhausted"] as const;
type Count = (typeof COUNTS)[number];

const COUNT_STATEMENTS: Readonly<Record<Count, readonly [all: StatementName, tenant: StatementName]>> = {
  due: ["countDueAll", "countDueTenant"],
  scheduled: ["countScheduledAll", "countScheduledTenant"],
  claimed: ["countClaimedAll", "countClaimedTenant"],
  expired: ["countExpiredAll", "countExpiredTenant"],
  quarantined: ["countQuarantinedAll", "countQuarantinedTenant"],
  exhausted: ["countExhaustedAll", "countExhaustedTenant"],
};

export function stats(connection: Connection, tenant: string | null, cap: number): StatsRecord {
  const now = connection.now();
  const span = tenant === null ? 0 : 1;
  const scope = tenant === null ? {} : { tenant };
  const count = (name: Count): CappedCount => {
    const statement = connection.statement(COUNT_STATEMENTS[name][span]);
    const time = name === "quarantined" ? {} : { now };
    const { count: counted } = statement.get({ ...scope, ...time, cap: cap + 1 }) as { count: number };
    return { count: Math.min(counted, cap), exact: counted <= cap };
  };
  const oldest = connection.statement(tenant === null ? "oldestDueAll" : "oldestDueTenant");
  const due = oldest.get({ ...scope, now }) as { available_at: number } | undefined;
  return {
    due: count("due"),
    scheduled: count("scheduled"),
    claimed: count("claimed"),
    expired: count("expired"),
    quarantined: count("quarantined"),
    exhausted: count("exhausted"),
    oldestDueMs: due === undefined ? null : Math.floor((now - due.available_at) / 1000),
  };
}
