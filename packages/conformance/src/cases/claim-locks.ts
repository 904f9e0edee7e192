import assert from "node:assert/strict";
import type { Claim } from "@dovecote/core";
import type { Case, CaseContext } from "../case.ts";
import { deliveryOf, unchanged } from "./expect.ts";
import { claimed, enqueued, enqueuedAndClaimed, enqueuedMany, event } from "./given.ts";
import { type Watched, watched } from "./times.ts";

/** What "promptly" is at most; a driver that waits for anything here waits for longer. */
const PROMPT_MS = 2000;
const LONGEST_BLOCK_MS = 50;
/** Long enough for a driver to try for the lock more than once. */
const LOCKED_FOR_MS = 300;

export const claimLockCases: readonly Case[] = [
  {
    id: "CLAIM-04",
    level: 1,
    intent: "with nothing due a claim answers [] promptly, also while others hold locks",
    async run(t) {
      const { session, outbox } = t;
      const isEmpty = async (what: string): Promise<void> => {
        for (const handle of [outbox, outbox.admin()]) {
          const claim = () => watched(() => handle.claim({ worker: "w2" }), PROMPT_MS);
          const { settled } = await unchanged(`a claim among ${what}`, session, claim);
          assert.deepEqual(
            settled,
            { status: "fulfilled", value: [] },
            `a claim among ${what} must answer [] promptly`,
          );
        }
      };
      await isEmpty("no events");
      await outbox.ack(await enqueuedAndClaimed(t));
      await outbox.quarantine(await enqueuedAndClaimed(t), { reason: "poison" });
      const live = await enqueuedAndClaimed(t);
      await enqueued(t, event(), { delayMs: 60_000 });
      await isEmpty("events that are not due");
      // Nothing is due, so nothing needs the lock.
      const lock = await session.faults.holdLock(live.rowId);
      try {
        await isEmpty("events that are not due, one of them locked");
      } finally {
        await lock.release();
      }
    },
  },
  {
    id: "CLAIM-08",
    level: 2,
    intent:
      "a locked row is skipped; where the lock is the database's, a claim waits for it without blocking",
    async run(t) {
      if (t.capabilities.lockScope === "row") await lockedRowsAreSkipped(t);
      else await lockedDatabaseIsWaitedFor(t);
    },
  },
  {
    id: "CLAIM-11",
    level: 2,
    intent: "a stuck or poisonous event does not stop the others",
    async run(t) {
      const { session } = t;
      const other = await t.connect();
      const stuck = await enqueuedMany(t, 3);
      await t.outbox.claim({ worker: "stuck", limit: 3, leaseMs: 600_000 });
      const delivers = async (count: number, rounds: number, what: string): Promise<void> => {
        const ids = await enqueuedMany(t, count);
        for (let round = 0; round < rounds; round++) {
          const claims = await other.outbox.claim({ worker: "w2", limit: 4, leaseMs: 60_000 });
          const delivered = claims.filter(({ rowId }) => ids.includes(rowId));
          if (delivered.length > 0) await other.outbox.ack(delivered);
          const suspects = claims.map(({ rowId }) => rowId).filter((rowId) => stuck.includes(rowId));
          await session.faults.expireLeases(suspects);
        }
        for (const rowId of ids) {
          const { state } = await deliveryOf(session, rowId);
          assert.equal(state, "delivered", `${what} must not stop other events`);
        }
      };
      await delivers(8, 2, "a worker that is stuck on its live claims");
      await session.faults.expireLeases(stuck);
      // The claims of two die again and again: the other half of the places is for pending events.
      await delivers(8, 4, "events whose every claim dies");

      const others = await enqueuedMany(t, 3);
      const due = (await session.probe.now()) - 1_000_000;
      for (const rowId of others) await session.faults.overwriteDelivery(rowId, { availableAt: due });
      for (const claim of await other.outbox.claim({ worker: "w2", limit: 6, leaseMs: 60_000 })) {
        if (stuck.includes(claim.rowId)) await other.outbox.retry(claim, { failure: FAILURE });
        else await other.outbox.release(claim);
      }
      for (const rowId of others) await session.faults.overwriteDelivery(rowId, { availableAt: due });
      await session.faults.corruptData(others[0] ?? 0);
      // One at a time, and what fails at once is retried without a delay: it goes behind what waited longer.
      const order: number[] = [];
      for (let n = 0; n < 3; n++) {
        const claim = await claimed(other.outbox);
        order.push(claim.rowId);
        await other.outbox.retry(claim, { failure: FAILURE });
      }
      assert.deepEqual(
        order,
        others,
        "an event that fails at once, each time, must go behind the ones that wait",
      );
    },
  },
];

const FAILURE = { code: "POISON", detail: "it fails each time" };

async function lockedRowsAreSkipped(t: CaseContext): Promise<void> {
  const { session } = t;
  const { outbox } = await t.connect();
  const [expired = 0, pending = 0, ...free] = await enqueuedMany(t, 5);
  const dead = await claimed(t.outbox);
  assert.equal(dead.rowId, expired, "the first event must be claimed first");
  await session.faults.expireLeases([expired]);
  const locks = [await session.faults.holdLock(expired), await session.faults.holdLock(pending)];
  let skipping: Watched<readonly Claim[]>;
  let locked: Watched<readonly Claim[]>;
  try {
    const before = await deliveryOf(session, expired);
    skipping = await watched(() => outbox.claim({ worker: "w1", limit: 5, leaseMs: 60_000 }), PROMPT_MS);
    locked = await watched(() => outbox.claim({ worker: "w2", limit: 5 }), PROMPT_MS);
    assert.deepEqual(await deliveryOf(session, expired), before, "a locked row must stay as it is");
  } finally {
    for (const lock of locks) await lock.release();
  }
  assert.deepEqual(
    answeredRows(skipping),
    free,
    "locked rows must be skipped, not waited for, and the others claimed at once",
  );
  assert.deepEqual(answeredRows(locked), [], "where every due row is locked a claim must answer [] at once");
  const claims = await outbox.claim({ worker: "w3", limit: 5 });
  assert.deepEqual(
    claims.map(({ rowId }) => rowId),
    [expired, pending],
    "rows must be claimable when their locks are released",
  );
}

async function lockedDatabaseIsWaitedFor(t: CaseContext): Promise<void> {
  const { session } = t;
  const { outbox } = await t.connect();
  const { rowId } = await enqueued(t);
  // A machine that is busy with something else blocks a loop too, but not at every try.
  let longestBlockMs = Number.POSITIVE_INFINITY;
  for (let attempt = 0; attempt < 3 && longestBlockMs > LONGEST_BLOCK_MS; attempt++) {
    const lock = await session.faults.holdLock(rowId);
    let claiming: Promise<readonly Claim[]> | undefined;
    let waiting: Watched<readonly Claim[]>;
    try {
      waiting = await watched(() => {
        claiming = outbox.claim({ worker: "w1", leaseMs: 60_000 });
        return claiming;
      }, LOCKED_FOR_MS);
      longestBlockMs = Math.min(longestBlockMs, waiting.longestBlockMs);
      const { state } = await deliveryOf(session, rowId);
      assert.equal(state, "pending", "nothing must be claimed while another holds the database's lock");
    } finally {
      await lock.release();
    }
    assert.equal(waiting.settled, undefined, "a claim must wait for the database's lock, within its budget");
    const claims = await claiming;
    assert.deepEqual(
      claims?.map((claim) => claim.rowId),
      [rowId],
      "a claim that waited must succeed when the lock is released",
    );
    await outbox.release(claims ?? []);
  }
  assert.ok(
    longestBlockMs <= LONGEST_BLOCK_MS,
    `a waiting claim must not block the event loop for over ${LONGEST_BLOCK_MS} ms, but did for ${longestBlockMs}`,
  );
}

/** What a claim answered while it was watched. */
function answeredRows({ settled }: Watched<readonly Claim[]>): readonly number[] | string {
  if (settled === undefined) return "it still waits";
  if (settled.status === "rejected") return String(settled.reason);
  return settled.value.map(({ rowId }) => rowId);
}
