/** Refusals of every kind that a case can bring about, for what has to hold of all of them. */
import assert from "node:assert/strict";
import { type DovecoteError, isDovecoteError } from "@dovecote/core";
import type { CaseContext, Peer } from "../case.ts";
import { enqueued, enqueuedAndClaimed, event, takenOver } from "./given.ts";
import { FAILURE, PROVINGS } from "./settling.ts";

export interface Refused {
  readonly what: string;
  readonly error: DovecoteError;
}

/** Leaves the space damaged: nothing else can be done with it. */
export async function refusals(t: CaseContext): Promise<readonly Refused[]> {
  const { session, outbox, capabilities } = t;
  const found: Refused[] = [];
  const refuse = async (what: string, call: () => unknown): Promise<void> => {
    const error = await errorOf(what, call);
    assert.ok(error !== undefined, `${what} must be refused`);
    found.push({ what, error });
  };
  const { stale, live } = await takenOver(t);
  for (const { name, one } of PROVINGS) {
    await refuse(`a stale ${name}`, () => one(outbox, stale));
    await refuse(`${name} without a row`, () => one(outbox, { ...live, rowId: live.rowId + 1_000_000 }));
    await refuse(`${name} of another tenant's claim`, () => one(outbox.tenant("acme"), live));
  }
  await outbox.ack(live);
  for (const { name, one } of PROVINGS) await refuse(`${name} after ack`, () => one(outbox, live));
  await refuse("the redrive of a delivered row", () => outbox.redrive(live.rowId));
  await refuse("a claim of nobody", () => outbox.claim({ worker: "" }));
  await refuse("a retry without a failure", () => Reflect.apply(outbox.retry, outbox, [live, {}]));

  const given = event();
  await enqueued(t, given);
  const inTransaction = (call: (tx: unknown) => unknown) => () =>
    session.transaction((tx) => call(tx.handle));
  await refuse(
    "an event with the identity of another",
    inTransaction((tx) => outbox.enqueue(tx, { ...given, type: "other" })),
  );
  await refuse(
    "an event without a type",
    inTransaction((tx) => outbox.enqueue(tx, event({ type: "" }))),
  );
  await refuse(
    "an event that is too large",
    inTransaction((tx) => outbox.enqueue(tx, event({ data: "x".repeat(70_000) }))),
  );
  await refuse(
    "the redrive of a pending row in a transaction",
    inTransaction((tx) => outbox.redriveIn(tx, live.rowId)),
  );
  for (const handle of [undefined, null, {}, "tx", 5, () => {}]) {
    await refuse(`an enqueue in ${String(handle)}`, async () => outbox.enqueue(handle, event()));
  }
  const ended = await session.begin();
  await ended.rollback();
  await refuse("an enqueue after the application's transaction", async () =>
    outbox.enqueue(ended.handle, event()),
  );
  let own: unknown;
  await outbox.transaction((tx) => {
    own = tx;
  });
  await refuse("an enqueue after our transaction", async () => outbox.enqueue(own, event()));
  if (!capabilities.asyncTransactions) {
    await refuse("an asynchronous callback", () => outbox.transaction(async () => {}));
  }
  if (!capabilities.tail) await refuse("a tail that is not offered", () => readTail(t));

  const closed = await t.connect();
  await closed.outbox.close();
  await refuse("a claim after close", () => closed.outbox.claim({ worker: "w1" }));

  const lost = await enqueued(t);
  await session.faults.deleteDelivery(lost.rowId);
  await refuse("a page with a damaged row", () => outbox.page({ after: lost.rowId - 1, limit: 1 }));
  if (capabilities.durable) found.push(...(await refusalsOfTheDatabase(t)));
  return found;
}

/** The database's own errors come from a store in use that loses a table under its feet. */
async function refusalsOfTheDatabase(t: CaseContext): Promise<readonly Refused[]> {
  const { session, outbox } = t;
  const claim = await enqueuedAndClaimed(t);
  await session.faults.damageSchema("table");
  const calls: readonly (readonly [string, () => unknown])[] = [
    ["enqueue", () => enqueued(t)],
    ["claim", () => outbox.claim({ worker: "w1" })],
    ["ack", () => outbox.ack(claim)],
    ["retry", () => outbox.retry(claim, { failure: FAILURE })],
    ["renew", () => outbox.renew(claim)],
    ["page", () => outbox.page()],
    ["stats", () => outbox.stats()],
    ["prune", () => outbox.prune({ olderThanMs: 1000 })],
    ["redrive", () => outbox.redrive({})],
  ];
  const found: Refused[] = [];
  for (const [name, call] of calls) {
    const what = `${name} on a damaged schema`;
    const error = await errorOf(what, call);
    if (error !== undefined) found.push({ what, error });
  }
  assert.ok(found.length > 0, "calls on a schema without one of its tables must be refused");
  return found;
}

/** What a call was refused with, thrown or rejected; undefined if it was not refused. */
export async function errorOf(what: string, call: () => unknown): Promise<DovecoteError | undefined> {
  try {
    await call();
    return undefined;
  } catch (error) {
    assert.ok(isDovecoteError(error), `${what} must be refused with a DovecoteError, got ${String(error)}`);
    return error;
  }
}

async function readTail({ outbox }: Peer): Promise<void> {
  for await (const { rowId } of outbox.tail()) assert.fail(`a tail that is not offered yielded row ${rowId}`);
}
