/** Stored rows as readers see them: page, list, snapshot, tail and inspect all answer with entries. */
import { decodeOrExplain } from "./claim.ts";
import type { DeliveryRecord, DeliveryState, StoredRow } from "./driver.ts";
import { DovecoteError } from "./errors.ts";
import type { OutboxEvent, UndecodableEvent } from "./event/event.ts";
import { toDate } from "./micros.ts";

/** The mutable half of an event: where its delivery stands. Members that the state does not have are absent. */
export interface Delivery {
  readonly state: DeliveryState;
  readonly availableAt: Date;
  readonly attempt: number;
  readonly forgiven: number;
  /** Who holds the claim; only while `claimed`, as are `shared` and `expiresAt`. */
  readonly worker?: string;
  readonly shared?: boolean;
  readonly expiresAt?: Date;
  readonly lastFailure?: { readonly code: string; readonly detail: string; readonly at: Date };
  readonly deliveredAt?: Date;
  readonly quarantinedAt?: Date;
  readonly quarantineReason?: string;
}

/** One event with its delivery. */
export interface Entry {
  readonly rowId: number;
  readonly tenant: string;
  readonly stream: string;
  readonly enqueuedAt: Date;
  readonly event: OutboxEvent | UndecodableEvent;
  readonly delivery: Delivery;
}

/** @throws `INTEGRITY` with the row id as cursor if the event has no delivery (PAGE-02). */
export function toEntry(row: StoredRow): Entry {
  if (row.delivery === null) throw missingDelivery(row.rowId);
  return {
    rowId: row.rowId,
    tenant: row.tenant,
    stream: row.event.stream,
    enqueuedAt: toDate(row.enqueuedAt),
    event: decodeOrExplain(row.event),
    delivery: toDelivery(row.delivery),
  };
}

export function missingDelivery(rowId: number): DovecoteError {
  const message = `event ${rowId} has no delivery row; read on after it, and mend it with admin().reconcile(${rowId})`;
  return new DovecoteError("INTEGRITY", message, { rowId, cursor: rowId });
}

function toDelivery(record: DeliveryRecord): Delivery {
  const { lastFailure } = record;
  return {
    state: record.state,
    availableAt: toDate(record.availableAt),
    attempt: record.attempt,
    forgiven: record.forgiven,
    ...(record.worker !== null && { worker: record.worker }),
    ...(record.shared !== null && { shared: record.shared }),
    ...(record.expiresAt !== null && { expiresAt: toDate(record.expiresAt) }),
    ...(lastFailure !== null && {
      lastFailure: { code: lastFailure.code, detail: lastFailure.detail, at: toDate(lastFailure.at) },
    }),
    ...(record.deliveredAt !== null && { deliveredAt: toDate(record.deliveredAt) }),
    ...(record.quarantinedAt !== null && { quarantinedAt: toDate(record.quarantinedAt) }),
    ...(record.quarantineReason !== null && { quarantineReason: record.quarantineReason }),
  };
}
