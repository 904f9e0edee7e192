/** Commits that fail: whatever was written before is gone, and the caller is told. */
import assert from "node:assert/strict";
import { isDovecoteError } from "@dovecote/core";
import type { Case, CaseContext } from "../case.ts";
import { enqueuedAndClaimed, enqueuedMany, event } from "./given.ts";
import { SETTLINGS } from "./settling.ts";
import { after, nothingWritten } from "./written.ts";

const MINUTE_MS = 60_000;

/** Answers the calls whose commit fails; made again without the fault, each has to succeed. */
type Prepare = (
  t: CaseContext,
) => Promise<readonly (readonly [what: string, call: () => Promise<unknown>])[]>;

const PROMISES: readonly (readonly [id: string, what: string, prepare: Prepare])[] = [
  [
    "CLAIM-14",
    "a claim",
    async (t) => {
      const ids = await enqueuedMany(t, 5);
      await t.outbox.claim({ worker: "w1", limit: 2, leaseMs: MINUTE_MS, shared: true });
      await t.session.faults.expireLeases(ids);
      return [["a claim", () => t.outbox.claim({ worker: "w2", limit: 4 })]];
    },
  ],
  ...SETTLINGS.map(({ name, one, many }, place): (typeof PROMISES)[number] => [
    `SETTLE-0${place + 1}`,
    name,
    async (t) => {
      await enqueuedMany(t, 3);
      const [first, ...others] = await t.outbox.claim({ worker: "w1", leaseMs: MINUTE_MS });
      assert.ok(first !== undefined, "an event must be claimable");
      return [
        [`${name} with a list`, () => many(t.outbox, others)],
        [name, () => one(t.outbox, first)],
      ];
    },
  ]),
  [
    "LEASE-03",
    "a renewal",
    async (t) => {
      await enqueuedMany(t, 3);
      const claims = await t.outbox.claim({ worker: "w1", leaseMs: MINUTE_MS });
      return [["a renewal", () => t.outbox.renew(claims, { leaseMs: 2 * MINUTE_MS })]];
    },
  ],
  [
    "SETTLE-05",
    "a redrive",
    async (t) => {
      const ids = await enqueuedMany(t, 4);
      await t.outbox.quarantine(ids, { reason: "gave up" });
      return [
        ["a redrive of one row", () => t.outbox.redrive(ids[1] ?? 0)],
        ["a redrive by filter", () => t.outbox.redrive({})],
      ];
    },
  ],
  [
    "SETTLE-07",
    "a prune",
    async (t) => {
      const ids = await enqueuedMany(t, 4);
      await t.outbox.ack(await t.outbox.claim({ worker: "w1" }));
      for (const rowId of ids) await t.session.faults.overwriteDelivery(rowId, { deliveredAt: 1_000_000 });
      return [["a prune", () => t.outbox.prune({ olderThanMs: MINUTE_MS, limit: 3 })]];
    },
  ],
  [
    "PAGE-02",
    "a reconcile",
    async (t) => {
      const { rowId } = await enqueuedAndClaimed(t);
      await t.session.faults.deleteDelivery(rowId);
      return [["a reconcile", () => t.outbox.admin().reconcile(rowId)]];
    },
  ],
  [
    "TX-02",
    "a transaction of the store with enqueues",
    async (t) => {
      const batch = [event(), event()];
      return [
        [
          "an enqueue in a transaction of the store",
          () => t.outbox.transaction((tx) => t.outbox.enqueueMany(tx, batch)),
        ],
      ];
    },
  ],
];

export const commitFailureCases: readonly Case[] = [
  ...PROMISES.map(
    ([id, what, prepare]): Case => ({
      id,
      level: 1,
      intent: `${what} whose commit fails leaves everything as it was, and is rejected`,
      async run(t) {
        const calls = await prepare(t);
        const fault = await t.session.faults.failCommits();
        try {
          for (const [name, call] of calls)
            await nothingWritten(`${name} whose commit fails`, t.session, () => mustFail(name, call));
        } finally {
          await fault.release();
        }
        for (const [name, call] of calls) await mustSucceed(name, call);
      },
    }),
  ),
  {
    id: "TX-02",
    level: 1,
    intent:
      "an application's transaction whose commit fails leaves no trace of the event, nor of the business row",
    async run(t) {
      const { session, outbox } = t;
      const given = event();
      const write = () =>
        session.transaction((tx) => after(tx.writeBusinessRow("b1"), () => outbox.enqueue(tx.handle, given)));
      const fault = await session.faults.failCommits();
      // What its client rejects with is the client's own affair.
      await nothingWritten("a transaction whose commit fails", session, () =>
        assert.rejects(write, "a commit that fails must be told"),
      );
      await fault.release();
      const { outcome } = await write();
      assert.equal(outcome, "enqueued", "made again, the transaction must store the event");
    },
  },
];

async function mustFail(what: string, call: () => Promise<unknown>): Promise<void> {
  const error = await call().then(
    (answer) =>
      assert.fail(`${what} whose commit fails must be rejected, but answered ${JSON.stringify(answer)}`),
    (reason: unknown) => reason,
  );
  if (error instanceof assert.AssertionError) throw error;
  assert.ok(
    isDovecoteError(error),
    `${what} whose commit fails must be rejected with a DovecoteError, got ${String(error)}`,
  );
  assert.equal(error.ambiguous, false, `${what} whose commit failed is known to have written nothing`);
}

async function mustSucceed(what: string, call: () => Promise<unknown>): Promise<void> {
  await call().catch((error: unknown) =>
    assert.fail(`${what} made again must succeed, got ${String(error)}`),
  );
}
