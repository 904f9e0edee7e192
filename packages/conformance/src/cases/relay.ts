/** The relay of the portable API on this driver: what it does with handlers that are slow, that throw, and that kill. */
import assert from "node:assert/strict";
import { DovecoteError, Quarantine, type RelayHooks, type RelayOptions } from "@dovecote/core";
import type { Case, CaseContext, Outbox } from "../case.ts";
import { override } from "../override.ts";
import { deliveryOf, unchanged } from "./expect.ts";
import { enqueued, enqueuedMany, event } from "./given.ts";
import { eventually } from "./waiting.ts";

const LEASE_MS = 1000;
const LONG_LEASE_MS = 600_000;
const GOOD = 15;
const BUDGET = 2;
/** One that nobody can know to be poisonous, and those that its budget allows. */
const DEATHS = 1 + BUDGET;

export const relayCases: readonly Case[] = [
  {
    id: "RELAY-01",
    level: 2,
    intent: "a handler longer than its lease is run once, while another relay looks for work",
    async run(t) {
      const other = await t.connect();
      const ids = await enqueuedMany(t, 3);
      const runs: string[] = [];
      const gate = Promise.withResolvers<void>();
      const deliver = async ({ id }: { readonly id: string }): Promise<void> => {
        runs.push(id);
        await gate.promise;
      };
      const relays = [t.outbox, other.outbox].map((outbox) =>
        running(outbox, { deliver, leaseMs: LEASE_MS, pollMs: 50 }),
      );
      const until = (await t.session.probe.now()) + 2.5 * LEASE_MS * 1000;
      await eventually(t.session, "time must pass", async () => (await t.session.probe.now()) > until);
      gate.resolve();
      await eventually(t.session, "every event must be delivered", () => allDelivered(t, ids));
      for (const relay of relays) await relay.stopped();
      assert.equal(runs.length, ids.length, "a handler that outlives its lease must not be run twice");
    },
  },
  {
    id: "RELAY-02",
    level: 3,
    intent: "an event that kills its process is quarantined alone, after its budget, without a further run",
    async run(t) {
      const { session } = t;
      await enqueuedMany(t, GOOD);
      const { rowId: poison } = await enqueued(t, event({ id: "poison" }));
      const input = { leaseMs: LONG_LEASE_MS, maxAttempts: BUDGET, concurrency: GOOD + 1, poison: "poison" };
      let deaths = 0;
      for (;;) {
        const relay = t.victim("relay", input);
        const report = await relay.done().catch(() => undefined);
        if (report !== undefined) break;
        deaths += 1;
        assert.ok(deaths <= DEATHS, "an event must not kill more processes than its budget allows");
        const claimed = (await session.probe.deliveries()).filter(({ state }) => state === "claimed");
        await session.faults.expireLeases(claimed.map(({ rowId }) => rowId));
      }
      const rows = await session.probe.deliveries();
      const quarantined = rows.filter(({ state }) => state === "quarantined").map(({ rowId }) => rowId);
      assert.deepEqual(quarantined, [poison], "the event that kills, and it alone, must be quarantined");
      assert.equal(deaths, DEATHS, "a crash must count against the event that was alone, and no earlier one");
      const delivered = rows.filter(({ state }) => state === "delivered");
      assert.equal(delivered.length, GOOD, "bystanders of a crash must be delivered");
    },
  },
  {
    id: "RELAY-03",
    level: 3,
    intent: "the outcome of a relay that was stopped past its lease is discarded and reported",
    async run(t) {
      const { session, outbox } = t;
      const { rowId } = await enqueued(t);
      const relay = t.victim("relay", { leaseMs: LONG_LEASE_MS, concurrency: 1, hold: true });
      await relay.reached("delivering");
      relay.freeze();
      await session.faults.expireLeases([rowId]);
      const [live] = await outbox.claim({ worker: "w2", leaseMs: LONG_LEASE_MS });
      assert.equal(live?.rowId, rowId, "the claim of a stopped relay must be taken over");
      const report = await unchanged("the outcome of a zombie", session, async () => {
        relay.thaw();
        relay.proceed();
        return relay.done();
      });
      assert.deepEqual(
        [report.delivered, report.lost],
        [0, 1],
        "the outcome of a zombie must be reported as lost",
      );
    },
  },
  {
    id: "RELAY-04",
    level: 1,
    intent: "an ack whose reply was lost counts as done when the row is found delivered, unconfirmed",
    async run(t) {
      const { driver } = t.session;
      const { rowId } = await enqueued(t);
      let sent = 0;
      const outbox = t.reopen(
        {},
        override(driver, {
          async settle(tenant, items) {
            const outcomes = await driver.settle(tenant, items);
            sent += 1;
            if (sent === 1) throw new DovecoteError("CONNECTION_LOST", "lost", { ambiguous: true });
            return outcomes;
          },
        }),
      );
      const confirmed: boolean[] = [];
      const report = await drained(outbox, {
        deliver: () => {},
        hooks: { delivered: (ended) => void confirmed.push(ended.confirmed) },
      });
      assert.deepEqual(
        confirmed,
        [false],
        "an ack that was found done must be reported once, as unconfirmed",
      );
      assert.deepEqual([report.delivered, report.lost], [1, 0], "an ack that was found done is no loss");
      assert.equal((await deliveryOf(t.session, rowId)).state, "delivered", "the event must be delivered");
    },
  },
  {
    id: "RELAY-05",
    level: 3,
    intent: "while the database fails the relay waits, and goes on when it works again; nothing is lost",
    async run(t) {
      const ids = await enqueuedMany(t, 40);
      const errors: DovecoteError[] = [];
      const relay = running(t.outbox, {
        deliver: () => {},
        concurrency: 2,
        hooks: { error: ({ error }) => void errors.push(error) },
      });
      await outage(t, () => errors.length);
      await eventually(t.session, "every event must be delivered after the outage", () =>
        allDelivered(t, ids),
      );
      await relay.stopped();
      assert.ok(errors.length > 0, "an outage must be reported");
    },
  },
  {
    id: "RELAY-06",
    level: 1,
    intent: "whatever a handler throws is recorded, without the token, and the event is tried again",
    async run(t) {
      const circular: { cause?: unknown } = {};
      circular.cause = circular;
      const thrown: readonly unknown[] = [
        undefined,
        "text",
        circular,
        new Error(`NUL \0, a lone surrogate \ud800, and much more${"!".repeat(1_000_000)}`),
        Object.defineProperty(new Error(), "message", {
          get() {
            throw new Error("a getter");
          },
        }),
      ];
      for (const [place] of thrown.entries()) await enqueued(t, event({ id: `throws-${place}` }));
      const tokens: string[] = [];
      await drained(t.outbox, {
        backoff: { baseMs: LONG_LEASE_MS, maxMs: LONG_LEASE_MS },
        deliver: ({ id }, { claim }) => {
          tokens.push(claim.token.reveal());
          const what = thrown[Number(id.slice("throws-".length))];
          throw id === "throws-1" ? `${what} ${claim.token.reveal()}` : what;
        },
      });
      for (const row of await t.session.probe.deliveries()) {
        assert.equal(row.state, "pending", "an event whose handler throws must be tried again");
        assert.ok(row.failureDetail, "what a handler throws must be recorded");
        for (const token of tokens) {
          assert.ok(!row.failureDetail.includes(token), "a token must not be recorded with a failure");
        }
      }
    },
  },
  {
    id: "RELAY-06",
    level: 1,
    intent: "an event that cannot be decoded is quarantined, and its batch mates are delivered",
    async run(t) {
      const ids = await enqueuedMany(t, 3);
      const broken = Number(ids[1]);
      await t.session.faults.corruptData(broken);
      await drained(t.outbox, { deliver: () => {} });
      const states = (await t.session.probe.deliveries()).map(({ rowId, state }) => [rowId, state]);
      assert.deepEqual(
        states,
        ids.map((rowId) => [rowId, rowId === broken ? "quarantined" : "delivered"]),
        "one event that cannot be decoded must not keep the others",
      );
    },
  },
  {
    id: "RELAY-06",
    level: 1,
    intent: "a handler that says so quarantines its event, for its own reason",
    async run(t) {
      const { rowId } = await enqueued(t);
      await drained(t.outbox, {
        deliver: () => {
          throw new Quarantine("no such customer");
        },
      });
      const row = await deliveryOf(t.session, rowId);
      assert.deepEqual(
        [row.state, row.quarantineReason],
        ["quarantined", "no such customer"],
        "an event must be quarantined for the reason that its handler gave",
      );
    },
  },
  {
    id: "RELAY-07",
    level: 2,
    intent:
      "on shutdown what was not started is released at once, what ended is settled, the rest keeps its lease",
    async run(t) {
      const { session } = t;
      // Suspects run one at a time: the second one is claimed, and not started.
      const ids = await enqueuedMany(t, 2);
      await t.outbox.claim({ worker: "dead", limit: 2, leaseMs: LONG_LEASE_MS, shared: true });
      await session.faults.expireLeases(ids);
      const late = await enqueued(t);
      const gates = new Map<number, PromiseWithResolvers<void>>();
      const relay = running(t.outbox, {
        leaseMs: LONG_LEASE_MS,
        shutdownTimeoutMs: 2000,
        deliver: async (_, { fence }) => {
          const gate = Promise.withResolvers<void>();
          gates.set(fence.rowId, gate);
          await gate.promise;
        },
      });
      await eventually(session, "two events must be started", () => gates.size === 2);
      const stopping = relay.stopped();
      const waiting = ids.find((rowId) => !gates.has(rowId));
      await eventually(
        session,
        "what was not started must be released at once",
        async () => (await deliveryOf(session, Number(waiting))).state === "pending",
      );
      gates.get(late.rowId)?.resolve();
      await eventually(
        session,
        "what ends during the shutdown must be settled",
        async () => (await deliveryOf(session, late.rowId)).state === "delivered",
      );
      await stopping;
      const left = Number(ids.find((rowId) => gates.has(rowId)));
      assert.equal(
        (await deliveryOf(session, left)).state,
        "claimed",
        "what does not end in time must be left to its lease",
      );
    },
  },
];

/** A relay that runs until it is told to stop. */
function running(outbox: Outbox, options: RelayOptions): { readonly stopped: () => Promise<void> } {
  const stop = new AbortController();
  const run = outbox.admin().relay(options).run({ signal: stop.signal });
  run.catch(() => {}); // reported where `stopped` is awaited
  return {
    async stopped() {
      stop.abort();
      await run;
    },
  };
}

function drained(outbox: Outbox, options: RelayOptions & { readonly hooks?: RelayHooks }) {
  return outbox.admin().relay(options).drainOnce({ budgetMs: 20_000 });
}

async function allDelivered({ session }: CaseContext, ids: readonly number[]): Promise<boolean> {
  const delivered = (await session.probe.deliveries()).filter(({ state }) => state === "delivered");
  return delivered.length === ids.length;
}

/** Commits fail until the relay has met it, and connections are severed meanwhile, where there are any. */
async function outage({ session, capabilities }: CaseContext, failures: () => number): Promise<void> {
  const fault = await session.faults.failCommits();
  await eventually(session, "a failing commit must be met", () => failures() > 0);
  for (let severed = 0; capabilities.serverSide && severed < 5; severed++) {
    const met = failures();
    await session.faults.severConnections();
    await eventually(session, "the relay must go on asking", () => failures() > met);
  }
  await fault.release();
}
