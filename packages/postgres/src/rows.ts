/** Rows of Postgres, which come as texts by position, as the plain data of the driver interface. */
import { createHash } from "node:crypto";
import {
  type ClaimedRow,
  type DeliveryRecord,
  DovecoteError,
  type EventRecord,
  type StoredRow,
} from "@dovecote/core";
import type { Row } from "./client.ts";

/** How many columns `EVENT` of `statements.ts` has; those of `DELIVERY` follow. */
const EVENT_COLUMNS = 15;

/** Row ids are safe integers on the way out, or an error: a rounded one would name another row. */
export function safeRowId(value: string): number {
  const rowId = Number(value);
  if (!Number.isSafeInteger(rowId)) {
    throw new DovecoteError("COUNTER_OVERFLOW", "a row id is beyond 2^53 and cannot be represented exactly");
  }
  return rowId;
}

/** SHA-256 over the parts of an identity, each with its length before it, so that no two identities frame alike. */
export function identityDigest(tenant: string, source: string, id: string): string {
  const hash = createHash("sha256").update("\u0001");
  for (const part of [tenant, source, id]) {
    const bytes = Buffer.from(part);
    const length = Buffer.alloc(4);
    length.writeUInt32BE(bytes.length);
    hash.update(length).update(bytes);
  }
  return hash.digest("hex");
}

/** Columns of `EVENT`: row id, tenant, the record, the time of the enqueue. */
function toEvent(row: Row): { rowId: number; tenant: string; event: EventRecord; enqueuedAt: number } {
  const [rowId, tenant, stream, id, source, type, subject = null, time = null] = row;
  const [datacontenttype = null, dataschema = null, partitionkey = null, extensions = null] = row.slice(8);
  const [dataKind, data, enqueuedAt] = row.slice(12);
  return {
    rowId: safeRowId(String(rowId)),
    tenant: String(tenant),
    enqueuedAt: Number(enqueuedAt),
    event: {
      stream: String(stream),
      id: String(id),
      source: String(source),
      type: String(type),
      subject,
      time,
      datacontenttype,
      dataschema,
      partitionkey,
      extensions,
      dataKind: dataKind as EventRecord["dataKind"],
      data: data === null || data === undefined ? null : Buffer.from(data, "hex"),
    },
  };
}

export function toStoredRow(row: Row): StoredRow {
  return { ...toEvent(row), delivery: toDelivery(row.slice(EVENT_COLUMNS)) };
}

/** The columns of `claim`, with the token that its place was given. */
export function toClaimedRow(
  row: Row,
  tokens: readonly Uint8Array[],
): ClaimedRow & { readonly place: number } {
  const [attempt, forgiven, placed, reclaimed, expiresAt] = row;
  const place = Number(placed);
  const { rowId, tenant, event } = toEvent(row.slice(5));
  return {
    rowId,
    tenant,
    event,
    attempt: Number(attempt),
    forgiven: Number(forgiven),
    reclaimed: reclaimed === "true",
    expiresAt: Number(expiresAt),
    token: tokens[place - 1] as Uint8Array,
    place,
  };
}

function toDelivery(row: Row): DeliveryRecord | null {
  const [state, availableAt, attempt, forgiven, worker = null, shared, expiresAt, code, detail, failedAt] =
    row;
  const [deliveredAt, quarantinedAt, quarantineReason = null] = row.slice(10);
  if (state === null || state === undefined) return null;
  return {
    state: state as DeliveryRecord["state"],
    availableAt: Number(availableAt),
    attempt: Number(attempt),
    forgiven: Number(forgiven),
    worker,
    shared: shared === null ? null : shared === "true",
    expiresAt: numberOrNull(expiresAt),
    lastFailure: typeof code === "string" ? { code, detail: String(detail), at: Number(failedAt) } : null,
    deliveredAt: numberOrNull(deliveredAt),
    quarantinedAt: numberOrNull(quarantinedAt),
    quarantineReason,
  };
}

export function numberOrNull(value: string | null | undefined): number | null {
  return value === null || value === undefined ? null : Number(value);
}

/** An array of Postgres as text: of numbers and words, which need no quotes. */
export function arrayOf(values: readonly (string | number | boolean)[]): string {
  return `{${values.join(",")}}`;
}

/** An array of bytea as text. */
export function byteaArrayOf(values: readonly Uint8Array[]): string {
  return `{${values.map((bytes) => `"\\\\x${Buffer.from(bytes).toString("hex")}"`).join(",")}}`;
}
