/** What cases start from. */
import assert from "node:assert/strict";
import type { Claim, Enqueued, NewEvent } from "@dovecote/core";
import type { Outbox, Peer } from "../case.ts";

let drawn = 0;

/** A small event with an identity of its own. */
export function event(overrides: Partial<NewEvent> = {}): NewEvent {
  drawn += 1;
  return {
    stream: "orders",
    source: "/conformance",
    id: `event-${drawn}`,
    type: "test",
    data: { n: drawn },
    ...overrides,
  };
}

/** Commits an event in the application's own transaction. */
export async function enqueued(
  { session, outbox }: Peer,
  given: NewEvent = event(),
  options: { readonly delayMs?: number } = {},
): Promise<Enqueued> {
  return session.transaction((tx) => outbox.enqueue(tx.handle, given, options));
}

/** Commits `count` events and answers their row ids, ascending. */
export async function enqueuedMany({ session, outbox }: Peer, count: number): Promise<readonly number[]> {
  const events = Array.from({ length: count }, () => event());
  const outcomes = await session.transaction((tx) => outbox.enqueueMany(tx.handle, events));
  return outcomes.map(({ rowId }) => rowId).sort((a, b) => a - b);
}

/** Claims exactly one event. */
export async function claimed(
  outbox: Outbox,
  options: { worker?: string; leaseMs?: number; shared?: boolean } = {},
): Promise<Claim> {
  const [claim, ...others] = await outbox.claim({ worker: "w1", leaseMs: 60_000, ...options, limit: 1 });
  assert.ok(claim !== undefined && others.length === 0, "one event must be claimable");
  return claim;
}

/** Commits an event and claims it. */
export async function enqueuedAndClaimed(
  peer: Peer,
  options: Parameters<typeof claimed>[1] = {},
): Promise<Claim> {
  await enqueued(peer);
  return claimed(peer.outbox, options);
}

/** A claim whose lease has expired, and that nobody took over yet. */
export async function expired(peer: Peer, options: Parameters<typeof claimed>[1] = {}): Promise<Claim> {
  const claim = await enqueuedAndClaimed(peer, options);
  await peer.session.faults.expireLeases([claim.rowId]);
  return claim;
}

/** An expired claim, and the live one that took it over. */
export async function takenOver(peer: Peer): Promise<{ readonly stale: Claim; readonly live: Claim }> {
  const stale = await expired(peer);
  const live = await claimed(peer.outbox, { worker: "w2" });
  assert.equal(live.rowId, stale.rowId, "the expired claim must be taken over");
  return { stale, live };
}
