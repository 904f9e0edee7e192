/** H1 and H2: what has to be there in the end, and what must not. */
import { applied, claimsOf, type EventHistory, perhaps } from "./operation.ts";
import { redrivesOf } from "./stale-writes.ts";

/** H1: an event that was committed is missing, or its end is. */
export function lost(event: EventHistory): string | undefined {
  const { final } = event;
  const [row] = final;
  if (row === undefined) {
    const [enqueue] = applied(event, "enqueue");
    if (enqueue !== undefined) return `${enqueue.p} committed it, and it is gone`;
    const [claim] = claimsOf(event);
    return claim === undefined ? undefined : `${claim.p} claimed it, and it is gone`;
  }
  const open = final.find(({ state }) => state !== "delivered" && state !== "quarantined");
  if (open !== undefined) {
    return `row ${open.rowId} was never delivered: in the end it is ${open.state ?? "without a delivery"}`;
  }
  const [ack] = applied(event, "ack");
  if (ack !== undefined && row.state !== "delivered")
    return `${ack.p} acknowledged it, and it is ${row.state}`;
  const quarantine = applied(event, "quarantine").at(-1);
  if (
    quarantine !== undefined &&
    row.state === "delivered" &&
    !redrivesOf(event)(quarantine.t0, Number.POSITIVE_INFINITY)
  ) {
    return `${quarantine.p} quarantined it, nobody redrove it, and it is ${row.state}`;
  }
  return undefined;
}

/** H2: an event that no enqueue explains, two rows for one event, or an end that nobody asked for. */
export function phantom(event: EventHistory): string | undefined {
  const claims = claimsOf(event);
  const enqueues = perhaps(event, "enqueue");
  const rows = new Set([...claims, ...event.final, ...applied(event, "enqueue")].map(({ rowId }) => rowId));
  if (rows.size > 0 && enqueues.length === 0) {
    const undone = event.operations.some(({ op }) => op === "enqueue");
    return `it is there, although ${undone ? "its enqueue was rolled back" : "nobody enqueued it"}`;
  }
  if (rows.size > 1) return `one identity has the rows ${[...rows].join(" and ")}`;
  if (applied(event, "enqueue").filter(({ answer }) => answer === "enqueued").length > 1) {
    return "two enqueues stored it as new";
  }
  const begun = Math.min(...enqueues.map(({ t0 }) => t0));
  const early = claims.find(({ t1 }) => t1 < begun);
  if (early !== undefined) return `${early.p} claimed it before it was enqueued`;
  const ends = { delivered: "ack", quarantined: "quarantine" } as const;
  for (const { state, rowId } of event.final) {
    if (state !== "delivered" && state !== "quarantined") continue;
    const verb = ends[state];
    if (perhaps(event, verb).length === 0) return `row ${rowId} ends ${state}, although there was no ${verb}`;
  }
  return undefined;
}
