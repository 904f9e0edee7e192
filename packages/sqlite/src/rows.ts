/** Rows of SQLite as the plain data of the driver interface. */
import { type DeliveryRecord, DovecoteError, type EventRecord, type StoredRow } from "@dovecote/core";

/** Columns of `EVENT` in `statements.ts`. */
export interface EventColumns {
  readonly row_id: number;
  readonly tenant_id: string;
  readonly stream: string;
  readonly event_id: string;
  readonly source: string;
  readonly event_type: string;
  readonly subject: string | null;
  readonly occurred_at: string | null;
  readonly datacontenttype: string | null;
  readonly dataschema: string | null;
  readonly partitionkey: string | null;
  readonly extensions: string | null;
  readonly data_kind: EventRecord["dataKind"];
  readonly data: Uint8Array | null;
  readonly enqueued_at: number;
}

/** Columns of `DELIVERY` in `statements.ts`; all null without a delivery row. */
interface DeliveryColumns {
  readonly state: DeliveryRecord["state"] | null;
  readonly available_at: number;
  readonly attempts: number;
  readonly forgiven: number;
  readonly claimed_by: string | null;
  readonly claim_shared: number | null;
  readonly claim_expires_at: number | null;
  readonly last_failure_code: string | null;
  readonly last_failure_detail: string;
  readonly last_failed_at: number;
  readonly delivered_at: number | null;
  readonly quarantined_at: number | null;
  readonly quarantine_reason: string | null;
}

/** Row ids are safe integers on the way out, or an error: a rounded one would name another row. */
export function safeRowId(value: number | bigint): number {
  const rowId = Number(value);
  if (!Number.isSafeInteger(rowId)) {
    throw new DovecoteError("COUNTER_OVERFLOW", "a row id is beyond 2^53 and cannot be represented exactly");
  }
  return rowId;
}

export function toEventRecord(row: EventColumns): EventRecord {
  return {
    stream: row.stream,
    id: row.event_id,
    source: row.source,
    type: row.event_type,
    subject: row.subject,
    time: row.occurred_at,
    datacontenttype: row.datacontenttype,
    dataschema: row.dataschema,
    partitionkey: row.partitionkey,
    extensions: row.extensions,
    dataKind: row.data_kind,
    data: row.data,
  };
}

export function toStoredRow(value: unknown): StoredRow {
  const row = value as EventColumns & DeliveryColumns;
  return {
    rowId: safeRowId(row.row_id),
    tenant: row.tenant_id,
    enqueuedAt: row.enqueued_at,
    event: toEventRecord(row),
    delivery: row.state === null ? null : toDeliveryRecord(row, row.state),
  };
}

function toDeliveryRecord(row: DeliveryColumns, state: DeliveryRecord["state"]): DeliveryRecord {
  return {
    state,
    availableAt: row.available_at,
    attempt: row.attempts,
    forgiven: row.forgiven,
    worker: row.claimed_by,
    shared: row.claim_shared === null ? null : row.claim_shared === 1,
    expiresAt: row.claim_expires_at,
    lastFailure:
      row.last_failure_code === null
        ? null
        : { code: row.last_failure_code, detail: row.last_failure_detail, at: row.last_failed_at },
    deliveredAt: row.delivered_at,
    quarantinedAt: row.quarantined_at,
    quarantineReason: row.quarantine_reason,
  };
}
