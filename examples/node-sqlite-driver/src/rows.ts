/** Rows of SQLite as the plain data of the driver interface. */
import type { DeliveryRecord, EventRecord, StoredRow } from "@dovecote/core";

/** `EVENT` in `statements.ts`. */
export interface EventRow extends EventRecord {
  readonly rowId: number;
  readonly tenant: string;
  readonly enqueuedAt: number;
}

/** `EVENT` and `DELIVERY` in `statements.ts`; the latter is all null for an event without a delivery (PAGE-02). */
export interface EntryRow extends EventRow, Omit<DeliveryRecord, "state" | "shared" | "lastFailure"> {
  readonly state: DeliveryRecord["state"] | null;
  readonly shared: number | null;
  readonly code: string | null;
  readonly detail: string;
  readonly failedAt: number;
}

export function toEvent(row: EventRow): EventRecord {
  const { stream, id, source, type, subject, time, datacontenttype, dataschema, partitionkey } = row;
  const { extensions, dataKind, data } = row;
  const attributes = { stream, id, source, type, subject, time, datacontenttype, dataschema, partitionkey };
  return { ...attributes, extensions, dataKind, data };
}

export function toStored(row: EntryRow): StoredRow {
  const { rowId, tenant, enqueuedAt, state } = row;
  const delivery = state === null ? null : toDelivery(row, state);
  return { rowId, tenant, enqueuedAt, event: toEvent(row), delivery };
}

function toDelivery(row: EntryRow, state: DeliveryRecord["state"]): DeliveryRecord {
  const { availableAt, attempt, forgiven, worker, expiresAt } = row;
  const { deliveredAt, quarantinedAt, quarantineReason, code, detail, failedAt } = row;
  const shared = row.shared === null ? null : row.shared === 1;
  const lastFailure = code === null ? null : { code, detail, at: failedAt };
  const claim = { state, availableAt, attempt, forgiven, worker, shared, expiresAt, lastFailure };
  return { ...claim, deliveredAt, quarantinedAt, quarantineReason };
}
