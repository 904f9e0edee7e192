/** The end of a soak: leases are ended, and what is left is delivered, until nothing is. */
import { setTimeout as pause } from "node:timers/promises";
import { isDecoded } from "@dovecote/core";
import type { Peer } from "../case.ts";
import type { Session } from "../define-harness.ts";
import type { FinalRow } from "../history/operation.ts";
import { type ItemResult, type Recorder, tokenHash } from "../history/record.ts";
import { idOf } from "./soak-role.ts";

const LEASE_MS = 600_000;
/** What does not get less for so long is stuck. */
const STUCK_MS = 5_000;

/** Ends leases in the database itself, on the record. */
export async function expire(session: Session, recorder: Recorder, rowIds: readonly number[]): Promise<void> {
  const items = rowIds.map((rowId) => ({ rowId }));
  await recorder.call("expire", items, async () => {
    await session.faults.expireLeases(rowIds);
    return { value: null, items: items.map((item): ItemResult => ({ ...item, type: "ok" })) };
  });
}

/** Delivers everything that can be delivered; answers what is there then. */
export async function drain(
  fresh: Peer,
  recorder: Recorder,
  { probe }: Session,
): Promise<readonly FinalRow[]> {
  let least = Number.POSITIVE_INFINITY;
  let since = performance.now();
  const ended = new Set<string>();
  for (;;) {
    const rows = await finalRows(probe);
    const open = rows.filter(({ state }) => state !== "delivered" && state !== "quarantined");
    if (open.length < least) {
      least = open.length;
      since = performance.now();
    }
    // Connections of processes that were killed may still have been at work: what they commit is delivered, too.
    if (open.length === 0 || performance.now() - since > STUCK_MS) return rows;
    const leased = open.filter((row) => row.state === "claimed" && !ended.has(claimOf(row)));
    if (leased.length > 0)
      await expire(
        fresh.session,
        recorder,
        leased.map(({ rowId }) => rowId),
      );
    for (const row of leased) ended.add(claimOf(row));
    if (!(await deliver(fresh, recorder))) await pause(10);
  }
}

function claimOf({ rowId, attempts }: FinalRow): string {
  return `${rowId}/${attempts}`;
}

async function deliver({ outbox }: Peer, recorder: Recorder): Promise<boolean> {
  const admin = outbox.admin();
  const claims = await recorder.call("claim", [], async () => {
    const value = await admin.claim({ worker: "drain", leaseMs: LEASE_MS, limit: 1000 });
    const items = value.map(
      (claim): ItemResult => ({
        id: idOf(claim.tenant, isDecoded(claim.event) ? claim.event.id : "undecodable"),
        rowId: claim.rowId,
        attempt: claim.attempt,
        token: tokenHash(claim.token.reveal()),
        leaseMs: LEASE_MS,
        type: "ok",
        answer: claim.reclaimed ? "reclaimed" : "claimed",
      }),
    );
    return { value: { claims: value, items }, items };
  });
  if (claims === undefined || claims.items.length === 0) return false;
  await recorder.call("ack", claims.items, async () => {
    const value = await admin.ack(claims.claims);
    const items = claims.items.map(
      ({ leaseMs: _, ...item }, index): ItemResult => ({
        ...item,
        type: value[index]?.outcome === "applied" ? "ok" : "fail",
        answer: value[index]?.outcome ?? "unanswered",
      }),
    );
    return { value: null, items };
  });
  return true;
}

async function finalRows(probe: Session["probe"]): Promise<readonly FinalRow[]> {
  // Events first: a delivery is there at the latest when its event is.
  const events = await probe.events();
  const deliveries = new Map((await probe.deliveries()).map((each) => [each.rowId, each]));
  return events.map(({ rowId, tenant, id }) => {
    const { state = null, attempts = 0 } = deliveries.get(rowId) ?? {};
    return { id: idOf(tenant, id), rowId, state, attempts };
  });
}
