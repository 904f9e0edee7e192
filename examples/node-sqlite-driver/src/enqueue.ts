/** Inserting events and their deliveries in the caller's transaction. */
import { differingFields, type EnqueueOutcome, type EnqueueRow } from "@dovecote/core";
import type { Connection } from "./connection.ts";
import { type EventRow, toEvent } from "./rows.ts";

/** Rows come in the order of identities; each is answered as if it were alone (ID-01 to ID-06). */
export function enqueue(
  connection: Connection,
  tenant: string,
  rows: readonly EnqueueRow[],
): readonly EnqueueOutcome[] {
  // Once per call, not per transaction: that may have been open for long (CLOCK-03).
  const now = connection.now();
  return rows.map(({ event, delayMs }) => {
    const { stream, source, id } = event;
    const inserted = connection.get<{ rowId: number }>("insertEvent", { ...event, tenant, now });
    if (inserted !== undefined) {
      const { rowId } = inserted;
      connection.run("insertDelivery", { rowId, tenant, stream, now, delay: delayMs * 1000 });
      return { outcome: "enqueued", rowId };
    }
    const stored = connection.get<EventRow>("eventByIdentity", { tenant, source, id }) as EventRow;
    const { rowId } = stored;
    const fields = differingFields(event, toEvent(stored));
    return fields.length === 0
      ? { outcome: "alreadyEnqueued", rowId }
      : { outcome: "identityConflict", rowId, fields };
  });
}
