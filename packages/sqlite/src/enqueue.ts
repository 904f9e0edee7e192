/** Inserting events and their deliveries in the caller's transaction. */
import { differingFields, type EnqueueOutcome, type EnqueueRow } from "@dovecote/core";
import type { Connection } from "./connection.ts";
import { type EventColumns, safeRowId, toEventRecord } from "./rows.ts";

/** Rows come in identity order; every one is answered as if it were alone (ID-01 to ID-06). */
export function enqueue(
  connection: Connection,
  tenant: string,
  rows: readonly EnqueueRow[],
): readonly EnqueueOutcome[] {
  const now = connection.now();
  return rows.map((row) => insert(connection, tenant, row, now));
}

function insert(
  connection: Connection,
  tenant: string,
  { event, delayMs }: EnqueueRow,
  now: number,
): EnqueueOutcome {
  const { changes, lastInsertRowid } = connection.statement("insertEvent").run({ ...event, tenant, now });
  if (changes === 1) {
    const rowId = safeRowId(lastInsertRowid);
    const { stream } = event;
    connection.statement("insertDelivery").run({ rowId, tenant, stream, now, delay: delayMs * 1000 });
    return { outcome: "enqueued", rowId };
  }
  const { source, id } = event;
  const stored = connection.statement("eventByIdentity").get({ tenant, source, id }) as EventColumns;
  const rowId = safeRowId(stored.row_id);
  const fields = differingFields(event, toEventRecord(stored));
  return fields.length === 0
    ? { outcome: "alreadyEnqueued", rowId }
    : { outcome: "identityConflict", rowId, fields };
}
