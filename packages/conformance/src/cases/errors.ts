import assert from "node:assert/strict";
import { type DovecoteError, type ErrorCode, isDovecoteError, type NewEvent } from "@dovecote/core";
import type { Case, CaseContext, Peer } from "../case.ts";
import type { OpenTransaction } from "../define-harness.ts";
import { argumentCases } from "./errors-arguments.ts";
import { refusals } from "./errors-refusals.ts";
import { secretCases } from "./errors-secrets.ts";
import { unchanged } from "./expect.ts";
import { enqueued, enqueuedAndClaimed, event } from "./given.ts";
import { promptly } from "./waiting.ts";

export const errorCases: readonly Case[] = [
  {
    id: "ERR-01",
    level: 1,
    intent: "every rejection is a DovecoteError with a known code, and its cause is a redacted copy",
    async run(t) {
      const errors = await refusals(t);
      for (const { what, error } of errors) {
        assert.ok(error instanceof Error, `${what} must be refused with an Error`);
        assert.equal(error.name, "DovecoteError", `${what} must be refused with a DovecoteError`);
        assert.ok(Object.hasOwn(RETRYABLE, error.code), `${what} must have a known code, has ${error.code}`);
        assert.ok(error.message !== "", `${what} must have a message`);
        assert.equal(typeof error.retryable, "boolean", `${what} must say whether it is retryable`);
        assert.equal(error.ambiguous, false, `${what} was not lost on its way: it must not be ambiguous`);
        assertRedacted(what, error.cause);
      }
      if (t.capabilities.durable) {
        const native = errors.some(({ error }) => error.cause !== undefined);
        assert.ok(native, "an error of the database itself must be the cause of the rejection it led to");
      }
    },
  },
  {
    id: "ERR-02",
    level: 2,
    intent: "what the same call, made again, would meet again is not retryable",
    async run(t) {
      for (const { what, error } of await refusals(t)) {
        assert.equal(error.retryable, RETRYABLE[error.code], `${what} (${error.code}) must not be retryable`);
      }
    },
  },
  {
    id: "ERR-02",
    level: 2,
    intent: "busy and deadlock errors are retryable, and the same call made again succeeds",
    run: (t) => (t.capabilities.lockScope === "database" ? busy(t) : deadlock(t)),
  },
  ...argumentCases,
  ...secretCases,
];

/** Every code there is: busy, deadlock, serialization and connection errors are retryable, others are not. */
const RETRYABLE: Readonly<Record<ErrorCode, boolean>> = {
  INVALID_ARGUMENT: false,
  INVALID_EVENT: false,
  EVENT_TOO_LARGE: false,
  TX_REQUIRED: false,
  TX_CLOSED: false,
  TX_OPEN: false,
  TX_ASYNC: false,
  TX_FOREIGN: false,
  IDENTITY_CONFLICT: false,
  NOT_FOUND: false,
  ILLEGAL_TRANSITION: false,
  LOST_CLAIM: false,
  COUNTER_OVERFLOW: false,
  ENTROPY_UNAVAILABLE: false,
  SCHEMA_MISSING: false,
  SCHEMA_TOO_OLD: false,
  SCHEMA_TOO_NEW: false,
  SCHEMA_MISMATCH: false,
  INTEGRITY: false,
  STORE_BUSY: true,
  STORE_FULL: false,
  STORE_READ_ONLY: false,
  STORE_UNAVAILABLE: true,
  STORE_CORRUPT: false,
  SERIALIZATION_FAILURE: true,
  CONNECTION_LOST: true,
  PERMISSION_DENIED: false,
  RELAY_RUNNING: false,
  RELAY_STOPPED: false,
  DELIVERY_TIMEOUT: false,
  CLOSED: false,
  UNSUPPORTED: false,
  DRIVER_FAILURE: false,
};

const KEPT_OF_A_CAUSE: ReadonlySet<string> = new Set([
  "name",
  "code",
  "message",
  "constraint",
  "constraint_name",
  "table",
  "table_name",
  "stack",
  "errno",
  "syscall",
  "cause",
]);

/** A native error prints the row, the statement and its parameters: none of that may come along. */
function assertRedacted(what: string, cause: unknown): void {
  if (cause === undefined) return;
  assert.ok(cause instanceof Error, `the cause of ${what} must be an Error`);
  // A DovecoteError behind another one is redacted already.
  if (cause.name !== "DovecoteError") {
    for (const member of Reflect.ownKeys(cause)) {
      assert.ok(
        typeof member === "string" && KEPT_OF_A_CAUSE.has(member),
        `the cause of ${what} must not keep ${String(member)} of the native error`,
      );
    }
  }
  assertRedacted(what, cause.cause);
}

function assertRetryable(what: string, error: DovecoteError): void {
  assert.equal(error.retryable, true, `${what} (${error.code}) must be retryable`);
}

/** One lock for the store: whoever waits for it longer than its budget is told to come again. */
async function busy(t: CaseContext): Promise<void> {
  const { session, outbox } = t;
  const claim = await enqueuedAndClaimed(t);
  const { rowId } = await enqueued(t);
  const lock = await session.faults.holdLock(rowId);
  const calls = [
    ["a claim", () => outbox.claim({ worker: "w2" })],
    ["an ack", () => outbox.ack(claim)],
    ["a renewal", () => outbox.renew(claim)],
    ["a prune", () => outbox.prune({ olderThanMs: 1000 })],
  ] as const;
  try {
    // All at once: each of them waits as long as its budget lasts.
    await unchanged("calls on a locked store", session, async () => {
      const answers = await Promise.allSettled(calls.map(([, call]) => call()));
      for (const [index, answer] of answers.entries()) {
        const what = `${calls[index]?.[0]} on a locked store`;
        assert.ok(answer.status === "rejected", `${what} must not succeed`);
        assert.equal(answer.reason.code, "STORE_BUSY", `${what} must be refused with STORE_BUSY`);
        assertRetryable(what, answer.reason);
      }
    });
  } finally {
    await lock.release();
  }
  assert.equal((await outbox.claim({ worker: "w2" })).length, 1, "a busy claim made again must succeed");
  await outbox.ack(claim);
}

/** Two transactions that enqueue the same two events in opposite orders: one of them has to give way. */
async function deadlock(t: CaseContext): Promise<void> {
  const { session } = t;
  const [one, other] = [await t.connect(), await t.connect()];
  const [first, second] = [event(), event()];
  const [txOfOne, txOfOther] = [await one.session.begin(), await other.session.begin()];
  await one.outbox.enqueue(txOfOne.handle, first);
  await other.outbox.enqueue(txOfOther.handle, second);
  const crossing = async ({ outbox }: Peer, tx: OpenTransaction, given: NewEvent): Promise<unknown> => {
    try {
      await outbox.enqueue(tx.handle, given);
    } catch (error) {
      await tx.rollback();
      return error;
    }
    // What a commit is refused with is the client's own affair.
    await tx.commit().catch(() => {});
    return undefined;
  };
  const errors = await promptly(session, "two transactions that wait for each other", () =>
    Promise.all([crossing(one, txOfOne, second), crossing(other, txOfOther, first)]),
  );
  assert.ok(errors.includes(undefined), "one of two transactions that wait for each other must go through");
  for (const error of errors) {
    if (error === undefined) continue;
    assert.ok(isDovecoteError(error), `a deadlock must be a DovecoteError, got ${String(error)}`);
    assertRetryable("an enqueue that lost a deadlock", error);
  }
  for (const given of [first, second]) await enqueued(t, given);
  assert.equal(
    (await session.probe.events()).length,
    2,
    "made again, the enqueues must have stored each event once",
  );
}
