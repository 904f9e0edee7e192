/** What cases about transactions and content share: synchronous and asynchronous drivers alike. */
import assert from "node:assert/strict";
import type { NewEvent } from "@dovecote/core";
import type { Peer } from "../case.ts";
import type { ProbedEvent, Session } from "../define-harness.ts";
import { enqueued, event } from "./given.ts";

const HOUR_MICROS = 3_600_000_000;

/**
 * `next`, once `value` is there: at once on a synchronous driver, whose callbacks must not answer a promise.
 *
 * @example
 * session.transaction((tx) => after(tx.writeBusinessRow("b1"), () => outbox.enqueue(tx.handle, event())));
 */
export function after<A, B>(value: A | Promise<A>, next: (value: A) => B | Promise<B>): B | Promise<B> {
  return value instanceof Promise ? value.then(next) : next(value);
}

/** A promise that is awaited later: if it rejects meanwhile, that is not an unhandled rejection. */
export function held<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => undefined);
  return promise;
}

/**
 * The call has to succeed. An error of it becomes a failed assertion: where success is what a case is about, that is
 * what it has to fail with.
 */
export async function accepted<T>(what: string, call: () => T): Promise<Awaited<T>> {
  try {
    return await call();
  } catch (error) {
    if (error instanceof assert.AssertionError) throw error;
    assert.fail(`${what} must be accepted, got ${String(error)}`);
  }
}

/** Everything that is committed, read over the independent connection. */
export async function everything({ probe }: Session): Promise<object> {
  return {
    events: await probe.events(),
    deliveries: await probe.deliveries(),
    businessRows: await probe.businessRows(),
  };
}

/** Runs the call and asserts that no row of any kind changed, byte for byte. */
export async function nothingWritten<T>(what: string, session: Session, call: () => Promise<T>): Promise<T> {
  const before = await everything(session);
  const result = await call();
  assert.deepEqual(await everything(session), before, `${what} must write nothing`);
  return result;
}

/** The one event row with an id. */
export async function eventOf(session: Session, rowId: number): Promise<ProbedEvent> {
  const row = (await session.probe.events()).find((each) => each.rowId === rowId);
  assert.ok(row !== undefined, `row ${rowId} must have an event`);
  return row;
}

/** Asserts which events are committed, each with its delivery. */
export async function assertStored(session: Session, what: string, ids: readonly string[]): Promise<void> {
  const events = await session.probe.events();
  assert.deepEqual(
    events.map(({ id }) => id).sort(),
    [...ids].sort(),
    `${what}: these events must be stored`,
  );
  assert.deepEqual(
    (await session.probe.deliveries()).map(({ rowId }) => rowId),
    events.map(({ rowId }) => rowId),
    `${what}: every event must have its delivery, and no other may be there`,
  );
}

/** Commits an event and delivers it, an hour ago by the database's clock. */
export async function deliveredLongAgo(peer: Peer, given: NewEvent = event()): Promise<number> {
  const { session, outbox } = peer;
  const { rowId } = await enqueued(peer, given);
  const claim = (await outbox.claim({ worker: "courier", limit: 1000 })).find((each) => each.rowId === rowId);
  assert.ok(claim !== undefined, "the event must be claimable");
  await outbox.ack(claim);
  await session.faults.overwriteDelivery(rowId, { deliveredAt: (await session.probe.now()) - HOUR_MICROS });
  return rowId;
}
