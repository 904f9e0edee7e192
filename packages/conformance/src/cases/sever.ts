/** Connections that die while their process lives. Where there is no server, what can die is the process. */
import assert from "node:assert/strict";
import { isDovecoteError } from "@dovecote/core";
import type { Case, CaseContext } from "../case.ts";
import { refused } from "./expect.ts";
import { enqueued, enqueuedAndClaimed, enqueuedMany, event } from "./given.ts";
import { promptly } from "./waiting.ts";

const IDENTITY = { source: "/crash", id: "severed" };

export const severCases: readonly Case[] = [
  {
    id: "TX-06",
    level: 3,
    intent: "a connection that dies in mid-transaction commits nothing, and the store works on",
    async run(t) {
      if (t.capabilities.serverSide) await severedInTransaction(t);
      else {
        const victim = t.victim("dieInTransaction", IDENTITY);
        await victim.gone();
      }
      assert.deepEqual(await t.session.probe.events(), [], "a transaction that died must leave no event");
      assert.deepEqual(await t.session.probe.businessRows(), [], "a transaction that died must leave no row");
      await enqueued(t);
      assert.equal((await t.outbox.claim({ worker: "w1" })).length, 1, "the store must work on");
    },
  },
  {
    id: "FENCE-13",
    level: 3,
    intent: "a reply that is lost after sending is reported as ambiguous, and nothing settles twice",
    async run(t) {
      const { session, outbox } = t;
      const claim = await enqueuedAndClaimed(t, { leaseMs: 600_000 });
      const lock = await session.faults.holdLock(claim.rowId);
      // It was sent, and waits for the lock.
      const settling = outbox.ack(claim).then(
        () => undefined,
        (error: unknown) => error,
      );
      if (t.capabilities.serverSide) {
        await session.probe.now();
        await session.faults.severConnections();
        const error = await settling;
        await lock.release();
        assert.ok(
          isDovecoteError(error, "CONNECTION_LOST"),
          `a lost reply must be CONNECTION_LOST, got ${String(error)}`,
        );
        assert.equal(error.ambiguous, true, "a lost reply must be reported as ambiguous");
        assert.equal(error.retryable, true, "a lost connection must be retryable");
        const outcome = await outbox.ack(claim).then(
          () => "applied",
          (again: unknown) => (isDovecoteError(again) ? again.code : String(again)),
        );
        assert.ok(
          ["applied", "ILLEGAL_TRANSITION"].includes(outcome),
          "the caller's own repetition must be safe",
        );
      } else {
        await lock.release();
        assert.equal(
          await settling,
          undefined,
          "without a server no reply can be lost: the settlement must apply",
        );
      }
      const [row] = await session.probe.deliveries();
      assert.equal(row?.state, "delivered", "the event must be delivered once");
    },
  },
  {
    id: "LIFE-03",
    level: 3,
    intent: "close settles although every connection was severed",
    async run(t) {
      const { session, outbox } = await t.connect();
      await outbox.stats();
      const snapshot = await outbox.snapshot();
      if (t.capabilities.serverSide) await session.faults.severConnections();
      // The contract's own bound is 5 s.
      await promptly(t.session, "close after the connections were severed", () => outbox.close());
      await snapshot.close();
    },
  },
  {
    id: "CRASH-07",
    level: 3,
    intent: "under load, severed connections or killed workers lose nothing, and the store recovers",
    async run(t) {
      const { session } = t;
      const ids = await enqueuedMany(t, 100);
      if (t.capabilities.serverSide) await severedUnderLoad(t);
      else {
        const victims = [0, 1].map(() => t.victim("claimAll", { leaseMs: 600_000 }));
        for (const victim of victims) {
          await victim.progressed(5);
          await victim.kill();
        }
      }
      const open = (await session.probe.deliveries()).filter(({ state }) => state === "claimed");
      await session.faults.expireLeases(open.map(({ rowId }) => rowId));
      const rest = await t.outbox.claim({ worker: "w2", limit: 1000 });
      if (rest.length > 0) await t.outbox.ack(rest);
      const states = (await session.probe.deliveries()).map(({ state }) => state);
      assert.equal(states.length, ids.length, "no event must be lost");
      assert.ok(
        states.every((state) => state === "delivered"),
        "every event must be deliverable afterwards",
      );
    },
  },
];

async function severedInTransaction(t: CaseContext): Promise<void> {
  const { session, outbox } = t;
  const started = performance.now();
  const error = await refused("a transaction whose connection died", ["CONNECTION_LOST"], () =>
    outbox.transaction(async (tx) => {
      await outbox.enqueue(tx, event());
      await session.faults.severConnections();
      // The callback does not look at its handle again: the call must end by itself.
      await new Promise(() => {});
    }),
  );
  assert.ok(performance.now() - started < 2000, "the call must reject within 2 s");
  assert.equal(error.retryable, true, "a lost connection must be retryable");
  assert.equal(error.ambiguous, false, "a commit that was never sent is not ambiguous");
  const late = outbox.transaction(async (tx) => {
    await session.faults.severConnections();
    await outbox.enqueue(tx, event());
  });
  await refused("a late enqueue on a dead connection", ["CONNECTION_LOST", "TX_REQUIRED"], () => late);
}

async function severedUnderLoad(t: CaseContext): Promise<void> {
  const peers = [await t.connect(), await t.connect()];
  let severed = 0;
  const drain = async ({ outbox }: (typeof peers)[number]): Promise<void> => {
    for (;;) {
      try {
        const claims = await outbox.claim({ worker: "w1", limit: 3, leaseMs: 600_000 });
        if (claims.length === 0) return;
        await outbox.ack(claims);
      } catch (error) {
        assert.ok(isDovecoteError(error), `a severed call must be a DovecoteError, got ${String(error)}`);
        assert.equal(error.retryable, true, `a severed call must be retryable, got ${error.code}`);
      }
    }
  };
  const sever = async (): Promise<void> => {
    for (; severed < 10; severed++) for (const { session } of peers) await session.faults.severConnections();
  };
  await Promise.all([...peers.map(drain), sever()]);
  assert.equal(severed, 10, "the connections must have been severed");
}
