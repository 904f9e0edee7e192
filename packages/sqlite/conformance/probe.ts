/** Reads the tables as they are, over a connection that the driver has no part in. */
import type { Probe, ProbedDelivery, ProbedEvent } from "@dovecote/conformance";
import type Database from "better-sqlite3";

const DELIVERIES = `select event_row_id as rowId, tenant_id as tenant, state, available_at as availableAt, attempts,
  forgiven, lower(hex(claim_token)) as token, claimed_by as worker, claim_shared as shared,
  claim_expires_at as expiresAt, last_failure_code as failureCode, last_failure_detail as failureDetail,
  last_failed_at as failedAt, delivered_at as deliveredAt, quarantined_at as quarantinedAt,
  quarantine_reason as quarantineReason
  from dovecote_deliveries order by event_row_id`;

const EVENTS = `select row_id as rowId, tenant_id as tenant, stream, event_id as id, source, event_type as type, subject,
  occurred_at as time, datacontenttype, dataschema, partitionkey, extensions, data_kind as dataKind,
  lower(hex(data)) as data, enqueued_at as enqueuedAt
  from dovecote_events order by row_id`;

type Raw<T> = Omit<T, "shared"> & { readonly shared: number | null };

export function probeOf(db: Database.Database): Probe {
  return {
    async deliveries() {
      const rows = db.prepare(DELIVERIES).all() as Raw<ProbedDelivery>[];
      return rows.map((row) => ({
        ...row,
        token: row.token === "" ? null : row.token, // hex(null) is an empty text
        shared: row.shared === null ? null : row.shared === 1,
      }));
    },
    async events() {
      const rows = db.prepare(EVENTS).all() as ProbedEvent[];
      return rows.map((row) => ({ ...row, data: row.dataKind === "absent" ? null : row.data }));
    },
    async keys() {
      const rows = db
        .prepare("select * from dovecote_idempotency_keys order by scope_digest, key_digest")
        .all();
      return (rows as Record<string, unknown>[]).map((row) =>
        Object.fromEntries(Object.entries(row).map(([name, value]) => [name, textOf(value)])),
      );
    },
    async businessRows() {
      return db.prepare("select id from business order by id").pluck().all() as string[];
    },
    async now() {
      return db
        .prepare("select cast(round(unixepoch('subsec') * 1000) as integer) * 1000")
        .pluck()
        .get() as number;
    },
  };
}

function textOf(value: unknown): string | null {
  if (value === null) return null;
  return value instanceof Uint8Array ? Buffer.from(value).toString("hex") : String(value);
}
