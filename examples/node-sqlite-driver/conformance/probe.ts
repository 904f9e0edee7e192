/** Reads the tables as they are, over a connection that the driver has no part in. */
import type { DatabaseSync } from "node:sqlite";
import type { Probe, ProbedDelivery, ProbedEvent } from "@dovecote/conformance";

/** The database's clock, not the process's: the same expression that the driver uses. */
export const NOW = "cast(round(unixepoch('subsec') * 1000) as integer) * 1000";

const DELIVERIES = `select row_id as rowId, tenant, state, available_at as availableAt, attempts, forgiven,
  iif(token is null, null, lower(hex(token))) as token, worker, shared, expires_at as expiresAt,
  failure_code as failureCode, failure_detail as failureDetail, failed_at as failedAt, delivered_at as deliveredAt,
  quarantined_at as quarantinedAt, quarantine_reason as quarantineReason
  from outbox_deliveries order by row_id`;

const EVENTS = `select row_id as rowId, tenant, stream, id, source, type, subject, time, datacontenttype, dataschema,
  partitionkey, extensions, data_kind as dataKind, iif(data is null, null, lower(hex(data))) as data,
  enqueued_at as enqueuedAt
  from outbox_events order by row_id`;

export function probeOf(db: DatabaseSync): Probe {
  // Spread: rows of `node:sqlite` have no prototype, and a strict comparison with other objects would fail.
  const rows = (sql: string): Record<string, unknown>[] =>
    db
      .prepare(sql)
      .all()
      .map((row) => ({ ...row }));
  return {
    async deliveries() {
      const found = rows(DELIVERIES) as unknown as (Omit<ProbedDelivery, "shared"> & {
        shared: number | null;
      })[];
      return found.map((row) => ({ ...row, shared: row.shared === null ? null : row.shared === 1 }));
    },
    async events() {
      return rows(EVENTS) as unknown as ProbedEvent[];
    },
    async keys() {
      throw new Error("there are no idempotency keys");
    },
    async businessRows() {
      return rows("select id from business order by id").map(({ id }) => String(id));
    },
    async now() {
      return Number(rows(`select ${NOW} as now`)[0]?.now);
    },
  };
}
