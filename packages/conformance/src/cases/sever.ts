/** Connections that die while their process lives. Where there is no server, what can die is the process. */
import assert from "node:assert/strict";
import { isDovecoteError } from "@dovecote/core";
import type { Case, CaseContext } from "../case.ts";
import { refused } from "./expect.ts";
import { enqueued, enqueuedAndClaimed, enqueuedMany, event } from "./given.ts";
import { promptly } from "./waiting.ts";
import { held } from "./written.ts";

const IDENTITY = { source: "/crash", id: "severed" };
/** How often connections are severed under load. */
const SEVERED = 16;
/** The contract's own bound. */
const CLOSE_MS = 5_000;

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
      try {
        await session.probe.now();
        if (t.capabilities.serverSide) {
          await session.faults.severConnections();
          // Still locked: whoever sends it again waits, and is noticed.
          await promptly(session, "an ack whose reply was lost", () => settling);
        }
      } finally {
        await lock.release();
      }
      const settled = await settling;
      if (t.capabilities.serverSide) {
        assert.ok(
          isDovecoteError(settled, "CONNECTION_LOST"),
          `a lost reply must be CONNECTION_LOST, got ${String(settled)}`,
        );
        assert.equal(settled.ambiguous, true, "a lost reply must be reported as ambiguous");
        assert.equal(settled.retryable, true, "a lost connection must be retryable");
        const outcome = await outbox.ack(claim).then(
          () => "applied",
          (again: unknown) => (isDovecoteError(again) ? again.code : String(again)),
        );
        assert.ok(
          ["applied", "ILLEGAL_TRANSITION"].includes(outcome),
          "the caller's own repetition must be safe",
        );
      } else {
        assert.equal(settled, undefined, "without a server no reply can be lost: the settlement must apply");
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
      await promptly(t.session, "close after the connections were severed", () => outbox.close(), CLOSE_MS);
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
  const what = "a transaction whose connection died";
  const started = performance.now();
  const error = await promptly(session, what, () =>
    refused(what, ["CONNECTION_LOST"], () =>
      outbox.transaction(async (tx) => {
        await outbox.enqueue(tx, event());
        await session.faults.severConnections();
        // The callback does not look at its handle again: the call must end by itself.
        await new Promise(() => {});
      }),
    ),
  );
  assert.ok(performance.now() - started < 2000, "the call must reject within 2 s");
  assert.equal(error.retryable, true, "a lost connection must be retryable");
  assert.equal(error.ambiguous, false, "a commit that was never sent is not ambiguous");
  const late = Promise.withResolvers<unknown>();
  held(late.promise);
  await refused(what, ["CONNECTION_LOST", "TX_REQUIRED", "TX_CLOSED"], () =>
    outbox.transaction(async (tx) => {
      await session.faults.severConnections();
      late.resolve(Promise.resolve().then(() => outbox.enqueue(tx, event())));
      await late.promise;
    }),
  );
  // The transaction may have ended before the call is made in it.
  await refused(
    "a late enqueue on a dead connection",
    ["CONNECTION_LOST", "TX_REQUIRED", "TX_CLOSED"],
    () => late.promise,
  );
  assert.deepEqual(
    await session.probe.events(),
    [],
    "a transaction whose connection died must leave nothing",
  );
}

async function severedUnderLoad(t: CaseContext): Promise<void> {
  const peers = [await t.connect(), await t.connect()];
  let severed = 0;
  const drain = async ({ session, outbox }: (typeof peers)[number]): Promise<void> => {
    /** Makes a call and, every other time, severs its connection while it is under way; not for ever, or nothing ends. */
    const endangered = async <T>(round: number, call: () => Promise<T>): Promise<T> => {
      const answer = held(call());
      if (round % 2 === 1 && severed < SEVERED) {
        severed += 1;
        await session.faults.severConnections();
      }
      return answer;
    };
    for (let round = 0; ; round++) {
      try {
        const options = { worker: "w1", limit: 2, leaseMs: 600_000 };
        const claims = await endangered(round, () => outbox.claim(options));
        if (claims.length === 0) return;
        await endangered(round + 1, () => outbox.ack(claims));
      } catch (error) {
        assert.ok(isDovecoteError(error), `a severed call must be a DovecoteError, got ${String(error)}`);
        assert.equal(error.retryable, true, `a severed call must be retryable, got ${error.code}`);
      }
    }
  };
  await Promise.all(peers.map(drain));
  assert.equal(severed, SEVERED, "the connections must have been severed under load");
}
