import assert from "node:assert/strict";
import { setTimeout as pause, setImmediate as turn } from "node:timers/promises";
import type { Case, CaseContext, Peer } from "../case.ts";
import type { ProbedDelivery } from "../define-harness.ts";
import { deliveryOf, refused, unchanged } from "./expect.ts";
import { claimed, enqueued, enqueuedAndClaimed, event, expired } from "./given.ts";
import { assertTime, TICK, timed } from "./times.ts";

const HOUR_MS = 3_600_000;
/** How long CLOCK-03's transaction is open: far longer than a clock's tick. */
const OPEN_FOR = 50_000;

export const clockCases: readonly Case[] = [
  {
    id: "CLOCK-01",
    level: 2,
    intent: "a lease expires by itself, not early, and within 2 s",
    async run(t) {
      const { session, outbox } = t;
      const other = await t.connect();
      // Connected, so that the first look comes long before the expiry.
      await other.outbox.stats();
      const { rowId } = await enqueuedAndClaimed(t, { leaseMs: 1000 });
      const expiresAt = (await deliveryOf(session, rowId)).expiresAt ?? 0;
      for (;;) {
        const before = await session.probe.now();
        const [taken] = await other.outbox.claim({ worker: "w2" });
        const after = await session.probe.now();
        if (taken !== undefined) {
          assert.ok(after >= expiresAt - TICK, "a lease must not expire early");
          assert.ok(taken.reclaimed && taken.rowId === rowId, "the expired lease must be taken over");
          await outbox.ack(taken);
          return;
        }
        assert.ok(before <= expiresAt + 2_000_000, "a lease must expire within 2 s");
        await pause(10);
      }
    },
  },
  {
    id: "CLOCK-02",
    level: 2,
    intent: "a worker whose clock is an hour off neither steals nor loses, and writes the database's times",
    async run(t) {
      const off = await t.connect();
      for (const offsetMs of [HOUR_MS, -HOUR_MS]) {
        await neitherStealsNorLoses(t, off, (call) => withClock(offsetMs, call));
        await storesTheDatabasesTimes(t, off, (call) => withClock(offsetMs, call));
      }
    },
  },
  {
    id: "CLOCK-03",
    level: 1,
    intent: "times written in a transaction that has been open for a while are not stale",
    async run(t) {
      const { session, outbox } = t;
      const quarantined = await enqueuedAndClaimed(t);
      await outbox.quarantine(quarantined, { reason: "to be redriven" });
      const tx = await session.begin();
      await tx.writeBusinessRow("first");
      const opened = await session.probe.now();
      while ((await session.probe.now()) < opened + OPEN_FOR) await turn();
      const delays = [0, 60_000] as const;
      const writes = await timed(session, async () => {
        const rowIds: number[] = [];
        for (const delayMs of delays) {
          rowIds.push((await outbox.enqueue(tx.handle, event(), { delayMs })).rowId);
        }
        await outbox.redriveIn(tx.handle, quarantined.rowId);
        return rowIds;
      });
      await tx.commit();
      const events = await session.probe.events();
      for (const [index, rowId] of writes.result.entries()) {
        const enqueuedAt = events.find((each) => each.rowId === rowId)?.enqueuedAt ?? null;
        assertTime("the time of an enqueue in an old transaction", enqueuedAt, writes);
        const { availableAt } = await deliveryOf(session, rowId);
        assertTime("the availability of an event of an old transaction", availableAt, writes, delays[index]);
      }
      const redriven = await deliveryOf(session, quarantined.rowId);
      assertTime("the availability of a redrive in an old transaction", redriven.availableAt, writes);
    },
  },
  {
    id: "CLOCK-04",
    level: 1,
    intent: "the time zone of the process changes nothing",
    async run(t) {
      // Ahead, behind and off by an odd number of minutes; a day apart from one another.
      for (const zone of ["Pacific/Kiritimati", "America/St_Johns", "Pacific/Pago_Pago", "UTC"]) {
        const there = <T>(call: () => T): Promise<Awaited<T>> => withZone(zone, call);
        const peer = await there(() => t.connect());
        await neitherStealsNorLoses(t, peer, there);
        await storesTheDatabasesTimes(t, peer, there);
        const time = "2024-03-10T02:30:00.123+05:45";
        const date = new Date(Date.UTC(2024, 2, 31, 1, 30));
        for (const [given, stored] of [
          [time, time],
          [date, date.toISOString()],
        ] as const) {
          const { rowId } = await there(() => enqueued(peer, event({ time: given })));
          const probed = (await t.session.probe.events()).find((each) => each.rowId === rowId);
          const claim = await there(() => claimed(peer.outbox));
          assert.ok("time" in claim.event, "an event with a time must be read back with one");
          if (given === time) assert.equal(probed?.time, stored, "a time must be stored as it was given");
          const instants = [probed?.time, claim.event.time].map((each) => Date.parse(each ?? ""));
          const instant = Date.parse(stored);
          assert.deepEqual(instants, [instant, instant], "a time must stay the instant that was given");
          await t.outbox.ack(claim);
        }
      }
    },
  },
  {
    id: "CLOCK-04",
    level: 1,
    intent: "the time zone of a session, and its formats of times, change nothing",
    async run(t) {
      const there = await t.connect({}, { hostile: true });
      const undistorted = async <T>(call: () => T): Promise<Awaited<T>> => await call();
      await neitherStealsNorLoses(t, there, undistorted);
      await storesTheDatabasesTimes(t, there, undistorted);
      const { rowId } = await enqueued(t, event(), { delayMs: HOUR_MS });
      const { entries } = await there.outbox.page({ after: rowId - 1 });
      const { availableAt } = await deliveryOf(t.session, rowId);
      assert.equal(
        entries[0]?.delivery.availableAt.getTime(),
        Math.floor(availableAt / 1000),
        "a time must be read as the instant that is stored",
      );
    },
  },
];

/** Runs a call under a clock or a time zone that is not the database's. */
type Distorted = <T>(call: () => T) => Promise<Awaited<T>>;

/** What a worker with a distorted clock may and may not have. */
async function neitherStealsNorLoses(t: CaseContext, off: Peer, distorted: Distorted): Promise<void> {
  const { session, outbox } = t;
  const live = await enqueuedAndClaimed(t, { leaseMs: 60_000 });
  const later = await enqueued(t, event(), { delayMs: HOUR_MS / 2 });
  const steal = () => distorted(() => off.outbox.claim({ worker: "off", limit: 1000 }));
  const stolen = await unchanged("a claim by a worker whose clock is off", session, steal);
  assert.deepEqual(stolen, [], "a worker whose clock is off must not claim what is leased or not due");
  await distorted(() => off.outbox.ack(live));
  const { state } = await deliveryOf(session, live.rowId);
  assert.equal(state, "delivered", "a worker whose clock is off must not lose its live claim");
  const prune = () => distorted(() => off.outbox.prune({ olderThanMs: HOUR_MS / 2 }));
  const { pruned } = await unchanged("a prune by a worker whose clock is off", session, prune);
  assert.equal(pruned, 0, "a worker whose clock is off must not prune what is not old");

  const dead = await expired(t);
  await unchanged("a late renewal by a worker whose clock is off", session, () =>
    refused("a late renewal", ["LOST_CLAIM"], () => distorted(() => off.outbox.renew(dead))),
  );
  await unchanged("a late ack by a worker whose clock is off", session, () =>
    refused("a late ack", ["LOST_CLAIM"], () => distorted(() => off.outbox.ack(dead))),
  );
  const taken = await distorted(() => claimed(off.outbox, { worker: "off" }));
  assert.equal(taken.rowId, dead.rowId, "a worker whose clock is off must take over what has expired");
  await outbox.ack(taken);
  await outbox.quarantine(later.rowId, { reason: "out of the way" });
}

/** Every time that the worker writes has to be the database's. */
async function storesTheDatabasesTimes(
  { session }: CaseContext,
  off: Peer,
  distorted: Distorted,
): Promise<void> {
  const { outbox } = off;
  const row = (rowId: number): Promise<ProbedDelivery> => deliveryOf(session, rowId);
  const enqueue = await timed(session, () => distorted(() => enqueued(off)));
  const { rowId } = enqueue.result;
  const stored = (await session.probe.events()).find((each) => each.rowId === rowId);
  assertTime("the time of an enqueue", stored?.enqueuedAt ?? null, enqueue);
  assertTime("the first availability", (await row(rowId)).availableAt, enqueue);

  const claim = () => distorted(() => claimed(outbox, { worker: "off", leaseMs: 90_000 }));
  const first = await timed(session, claim);
  assertTime("the expiry of a claim", (await row(rowId)).expiresAt, first, 90_000);
  const answered = first.result.expiresAt.getTime();
  assert.equal(
    answered,
    Math.floor(Number((await row(rowId)).expiresAt) / 1000),
    "the answered expiry is the stored",
  );
  const renewal = await timed(session, () =>
    distorted(() => outbox.renew(first.result, { leaseMs: 45_000 })),
  );
  assertTime("the expiry of a renewal", (await row(rowId)).expiresAt, renewal, 45_000);

  const failure = { code: "FAILED", detail: "once" };
  const retry = await timed(session, () =>
    distorted(() => outbox.retry(first.result, { delayMs: 5000, failure })),
  );
  const retried = await row(rowId);
  assertTime("the availability after a retry", retried.availableAt, retry, 5000);
  assertTime("the time of a failure", retried.failedAt, retry);
  await session.faults.overwriteDelivery(rowId, { availableAt: retry.from });

  const second = await claim();
  const release = await timed(session, () => distorted(() => outbox.release(second, { delayMs: 6000 })));
  assertTime("the availability after a release", (await row(rowId)).availableAt, release, 6000);
  await session.faults.overwriteDelivery(rowId, { availableAt: retry.from });

  const third = await claim();
  const quarantine = await timed(session, () =>
    distorted(() => outbox.quarantine(third, { reason: "poison" })),
  );
  assertTime("the time of a quarantine", (await row(rowId)).quarantinedAt, quarantine);
  const redrive = await timed(session, () => distorted(() => outbox.redrive(rowId)));
  assertTime("the availability after a redrive", (await row(rowId)).availableAt, redrive);

  const fourth = await claim();
  const ack = await timed(session, () => distorted(() => outbox.ack(fourth)));
  assertTime("the time of a delivery", (await row(rowId)).deliveredAt, ack);
}

/** Runs a call while the process's own clock is off. */
export async function withClock<T>(offsetMs: number, call: () => T): Promise<Awaited<T>> {
  const RealDate = globalThis.Date;
  const realNow = RealDate.now;
  const now = (): number => realNow.call(RealDate) + offsetMs;
  // Both ways to tell the time, also for who took hold of the constructor earlier.
  RealDate.now = now;
  globalThis.Date = new Proxy(RealDate, {
    construct: (target, given, newTarget) =>
      Reflect.construct(target, given.length === 0 ? [now()] : given, newTarget),
    apply: () => new RealDate(now()).toString(),
  });
  try {
    return await call();
  } finally {
    globalThis.Date = RealDate;
    RealDate.now = realNow;
  }
}

/** Runs a call while the process is in another time zone. */
async function withZone<T>(zone: string, call: () => T): Promise<Awaited<T>> {
  const { TZ } = process.env;
  process.env.TZ = zone;
  try {
    return await call();
  } finally {
    if (TZ === undefined) delete process.env.TZ;
    else process.env.TZ = TZ;
  }
}
