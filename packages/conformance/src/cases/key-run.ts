import assert from "node:assert/strict";
import {
  type BeginOptions,
  isDovecoteError,
  type KeyClaim,
  type KeyName,
  type RunAnswer,
  type RunOptions,
  type RunOutcome,
  type RunResponse,
  type TransactionRunContext,
} from "@dovecote/core";
import type { Case, CaseContext } from "../case.ts";
import { override } from "../override.ts";
import { refused } from "./expect.ts";
import { event } from "./given.ts";
import { acquired, age, begins, ifKeys, keptAsItWas, keysOf, name, options, RESPONSE } from "./key-given.ts";
import { eventually, turns } from "./waiting.ts";
import { accepted } from "./written.ts";

const LEASE_MS = 60_000;
const SHORT_MS = 300;
/** Long enough to be renewed in time on a busy machine. */
const RENEWED_MS = 600;
/** As it is answered and replayed. */
const RECORDED = { ...RESPONSE, body: new TextEncoder().encode(RESPONSE.body) };
const BROKEN = new Error("the handler failed");

const cases: readonly Case[] = [
  {
    id: "KEY-06",
    level: 1,
    intent: "run commits event and answer together, once, and a retry replays it without running again",
    async run(t) {
      const runs = counted(t);
      const key = name();
      assert.deepEqual(
        await runs.run({ ...options(key) }, () => RESPONSE),
        { outcome: "completed", response: RECORDED },
        "a first run must be completed with the answer of its handler",
      );
      const again = await runs.run({ ...options(key) }, () => RESPONSE);
      assert.equal(again.outcome, "replay", `a second run must be a replay, got ${again.outcome}`);
      assert.equal(runs.count(), 1, "a handler must be run once");
      assert.equal((await t.session.probe.events()).length, 1, "its event must be there once");
    },
  },
  {
    id: "KEY-06",
    level: 1,
    intent:
      "what a handler throws, and an answer that is not kept, leave nothing, and the key can be used again",
    async run(t) {
      const runs = counted(t);
      const key = name();
      const nothing = async (when: string): Promise<void> => {
        assert.deepEqual(await t.session.probe.events(), [], `${when} must leave no event`);
        assert.deepEqual(await t.session.probe.keys(), [], `${when} must leave no record`);
      };
      await assert.rejects(
        () =>
          runs.run({ ...options(key) }, () => {
            throw BROKEN;
          }),
        BROKEN,
        "what a handler throws must come out untouched",
      );
      await nothing("a handler that throws");
      const failed = await runs.run({ ...options(key) }, () => ({ status: 503 }));
      assert.equal(failed.outcome, "released", "an answer of 503 must not be kept");
      await nothing("an answer that is not kept");
      const given = await runs.run({ ...options(key) }, ({ release }) => {
        release();
        return RESPONSE;
      });
      assert.equal(given.outcome, "released", "a handler must be able to give its key back");
      await nothing("a key that was given back");
      const saved = await runs.run({ ...options(key) }, ({ save }) => {
        save({ status: 503 });
        return { status: 200 };
      });
      assert.deepEqual(
        saved,
        { outcome: "completed", response: { status: 503, headers: [], body: new Uint8Array() } },
        "a handler must be able to keep an answer",
      );
      const chosen = await runs.run({ ...options(name()), record: () => false }, () => RESPONSE);
      assert.equal(chosen.outcome, "released", "the policy must decide where the handler does not");
      await begins("a retry of what was kept", "replay", keysOf(t).begin(options(key)));
    },
  },
  {
    id: "KEY-06",
    level: 1,
    intent:
      "a run beside the database commits event and answer together, once, and what it answers itself is not kept",
    async run(t) {
      const key = name();
      let again: unknown;
      let late: (() => Promise<unknown>) | undefined;
      const outcome = await beside(t, key, async (commit) => {
        const answer = await commit(() => RESPONSE);
        assert.deepEqual(answer, RECORDED, "a commit must give the answer that it recorded");
        late = () => commit(() => RESPONSE);
        again = await late().catch((error: unknown) => error);
        return { status: 202 };
      });
      const completed = { outcome: "completed", response: RECORDED };
      assert.deepEqual(outcome, completed, "a run that commits must be completed with what it committed");
      assert.ok(isDovecoteError(again, "ILLEGAL_TRANSITION"), "a second commit must be refused");
      await refused("a commit after the run", ["ILLEGAL_TRANSITION"], async () => late?.());
      assert.equal((await t.session.probe.events()).length, 1, "its event must be there once");
      await begins("a retry of what was committed", "replay", keysOf(t).begin(options(key)));
    },
  },
  {
    id: "KEY-06",
    level: 1,
    intent:
      "a commit that throws fails its run, and one whose answer is not kept is answered: both leave nothing, and the key can be used again",
    async run(t) {
      const key = name();
      const nothing = async (when: string): Promise<void> => {
        assert.deepEqual(await t.session.probe.events(), [], `${when} must leave no event`);
        assert.deepEqual(await t.session.probe.keys(), [], `${when} must leave no record`);
      };
      const throwing = (handled: (committing: Promise<unknown>) => unknown) =>
        beside(t, key, async (commit) => {
          await handled(
            commit(() => {
              throw BROKEN;
            }),
          );
          return RESPONSE;
        });
      await assert.rejects(
        () => throwing((committing) => committing),
        BROKEN,
        "what a commit throws must come out untouched",
      );
      await nothing("a commit that throws");
      await assert.rejects(
        () => throwing((committing) => committing.catch(() => {})),
        BROKEN,
        "a commit that failed must fail its run, whatever the handler makes of it",
      );
      await nothing("a commit whose failure was swallowed");
      const failed = await beside(t, key, (commit) => commit(() => ({ status: 503 })));
      assert.equal(failed.outcome, "released", "a committed answer of 503 must not be kept");
      await nothing("an answer that is not kept");
    },
  },
  {
    id: "KEY-07",
    level: 1,
    intent: "a run beside the database whose key was taken over before its commit commits nothing",
    async run(t) {
      const key = name();
      let ran = false;
      const zombie = beside(t, key, async (commit) => {
        await age(t, LEASE_MS);
        await acquired(keysOf(await t.connect()), key);
        return commit(() => {
          ran = true;
          return RESPONSE;
        });
      });
      await refused("the outcome of a zombie", ["LOST_CLAIM"], () => zombie);
      assert.ok(!ran, "what a zombie commits must not run");
      assert.deepEqual(await t.session.probe.events(), [], "a zombie must leave no event");
      await begins("a begin beside the new holder", "inFlight", keysOf(t).begin(options(key)));
    },
  },
  {
    id: "KEY-08",
    level: 2,
    intent: "a commit that outlives its lease is completed: the lock of its transaction is the lease",
    async run(t) {
      const key = name();
      const slow = await accepted("completing a held claim", () =>
        beside(
          t,
          key,
          (commit) =>
            commit(() => {
              outlast(SHORT_MS);
              return RESPONSE;
            }),
          { leaseMs: SHORT_MS },
        ),
      );
      assert.equal(slow.outcome, "completed", "a commit that outlives its lease must be completed");
      assert.equal((await t.session.probe.events()).length, 1, "its event must be there");
    },
  },
  {
    id: "KEY-07",
    level: 1,
    intent: "a run whose key was taken over meanwhile commits nothing, and one beside the database is told",
    async run(t) {
      const keys = keysOf(t);
      const key = name();
      let signalled: unknown;
      const zombie = keys.run({ ...options(key), mode: "record" }, async ({ signal }) => {
        await age(t, LEASE_MS);
        await acquired(keysOf(await t.connect()), key);
        signal.addEventListener("abort", () => {
          signalled = signal.reason;
        });
        return RESPONSE;
      });
      await refused("the outcome of a zombie", ["LOST_CLAIM"], () => zombie);
      assert.equal(signalled, undefined, "a handler that ended before the next renewal must not be told");
      await begins("a begin beside the new holder", "inFlight", keys.begin(options(key)));
    },
  },
  {
    id: "KEY-07",
    level: 1,
    intent:
      "a run whose key was taken over before its transaction began is told that it lost it, whatever became of it",
    async run(t) {
      const { driver } = t.session;
      const keys = keysOf(t);
      const rivals: Readonly<Record<string, (claim: KeyClaim) => Promise<void>>> = {
        "holds it": async () => {},
        "completed it": (claim) => keys.complete(claim, RESPONSE),
        "released it": (claim) => keys.release(claim),
      };
      for (const [rival, ending] of Object.entries(rivals)) {
        const key = name();
        const slow = override(driver, {
          async transaction<T>(fn: (tx: unknown) => T): Promise<Awaited<T>> {
            await age(t, LEASE_MS);
            await ending(await acquired(keys, key));
            return driver.transaction(fn);
          },
        });
        let ran = false;
        const run = () =>
          keysOf({ outbox: t.reopen({}, slow) }).run({ ...options(key) }, () => {
            ran = true;
            return RESPONSE;
          });
        await refused(`a run whose rival ${rival}`, ["LOST_CLAIM"], run);
        assert.ok(!ran, `a handler must not run where its rival ${rival}`);
      }
    },
  },
  {
    id: "KEY-09",
    level: 1,
    intent: "a run beside the database that throws gives its key back, unless it must not be repeated",
    async run(t) {
      const keys = keysOf(t);
      const ways = [
        ["rerun", false, "acquired"],
        ["refuse", true, "acquired"],
        ["refuse", false, "indeterminate"],
      ] as const;
      for (const [takeover, gives, after] of ways) {
        const key = name();
        const run = () =>
          keys.run({ ...options(key, { takeover }), mode: "record" }, ({ release }) => {
            if (gives) release();
            throw BROKEN;
          });
        await assert.rejects(run, BROKEN, "what a handler throws must come out untouched");
        if (after === "indeterminate") {
          await begins("a begin after a handler that may have done it", "inFlight", keys.begin(options(key)));
          await age(t, LEASE_MS);
        }
        await begins(`a begin after a handler that threw (${takeover})`, after, keys.begin(options(key)));
      }
    },
  },
  {
    id: "KEY-11",
    level: 1,
    intent: "a run that outlives its lease and gives its key back is answered all the same",
    async run(t) {
      const runs = counted(t);
      const key = name();
      const unavailable = () => {
        outlast(SHORT_MS);
        return { status: 503, body: "later" };
      };
      const given = await runs.run({ ...options(key, { leaseMs: SHORT_MS }) }, unavailable);
      assert.ok(given.outcome === "released", `an answer of 503 must be released, got ${given.outcome}`);
      assert.equal(Buffer.from(given.response.body).toString(), "later", "its answer must be given");
      assert.deepEqual(await t.session.probe.events(), [], "what is not kept must leave no event");
      const again = await runs.run({ ...options(key) }, () => RESPONSE);
      assert.equal(again.outcome, "completed", `the next run must do it, got ${again.outcome}`);
    },
  },
  {
    id: "KEY-08",
    level: 2,
    intent:
      "a run beside the database keeps its claim while it works, and its signal aborts when the claim is lost",
    async run(t) {
      const { session } = t;
      const keys = keysOf(t);
      const rival = keysOf(await t.connect());
      const key = name();
      const working = await keys.run(
        { ...options(key, { leaseMs: RENEWED_MS }), mode: "record" },
        async ({ signal }) => {
          const over = (await session.probe.now()) + 4 * RENEWED_MS * 1000;
          while ((await session.probe.now()) <= over) await turns(session, 1);
          await begins("a begin beside a run that is slow", "inFlight", rival.begin(options(key)));
          assert.ok(!signal.aborted, "the signal of a run that has its claim must not abort");
          return RESPONSE;
        },
      );
      assert.equal(working.outcome, "completed", "a run that kept its claim must be completed");
      const lost = name();
      let reason: unknown;
      const zombie = keys.run(
        { ...options(lost, { leaseMs: RENEWED_MS }), mode: "record" },
        async ({ signal }) => {
          await age(t, RENEWED_MS);
          await keptAsItWas("a run that was taken over", session, async () => {
            await eventually(
              session,
              "the signal of a run that was taken over must abort",
              () => signal.aborted,
            );
            reason = signal.reason;
          });
          return RESPONSE;
        },
      );
      await refused("the outcome of a run that lost its claim", ["LOST_CLAIM"], () => zombie);
      assert.ok(isDovecoteError(reason, "LOST_CLAIM"), "the signal must say that the claim is lost");
    },
  },
  {
    id: "KEY-08",
    level: 2,
    intent:
      "a held claim is completed however long its lease is over, and its handle is good for its transaction alone",
    async run(t) {
      const { session } = t;
      const keys = keysOf(t);
      const key = name();
      const claim = await acquired(keys, key, { leaseMs: 300 });
      const tx = await session.begin();
      const held = await keys.hold(tx.handle, claim);
      for (let over = false; !over; ) {
        const found = await keysOf(await t.connect()).inspect(key);
        over = found.outcome === "found" && found.record.state !== "inFlight";
      }
      await refused("complete without hold after the lease", ["LOST_CLAIM"], () =>
        keys.complete(claim, RESPONSE, tx.handle),
      );
      await accepted("completing a held claim", () => held.complete(RESPONSE));
      await tx.commit();
      await begins("a retry", "replay", keys.begin(options(key)));
      await refused("a held claim after its transaction", ["TX_CLOSED"], () => held.complete(RESPONSE));
    },
  },
];

interface Counted {
  count(): number;
  run(
    options: RunOptions,
    handler: (context: TransactionRunContext<unknown>) => RunResponse,
  ): Promise<RunOutcome>;
}

/** Runs that enqueue an event before their handler answers, and count. */
function counted(t: CaseContext): Counted {
  let count = 0;
  return {
    count: () => count,
    run: (given, handler) =>
      keysOf(t).run(given, (context) => {
        count += 1;
        return enqueued(t, context.tx, () => handler(context));
      }),
  };
}

/** A run beside the database, whose commit enqueues an event before it answers. */
function beside(
  t: CaseContext,
  key: KeyName,
  handler: (commit: (fn: () => RunResponse) => Promise<RunAnswer>) => RunResponse | Promise<RunResponse>,
  overrides: Partial<BeginOptions> = {},
): Promise<RunOutcome> {
  return keysOf(t).run({ ...options(key, overrides), mode: "record" }, ({ commit }) =>
    handler((fn) => commit((tx) => enqueued(t, tx, fn))),
  );
}

/** In a transaction that may have to be synchronous. */
function enqueued(t: CaseContext, tx: unknown, answer: () => RunResponse): RunResponse {
  const stored = t.outbox.enqueue(tx, event());
  return (stored instanceof Promise ? stored.then(answer) : answer()) as RunResponse;
}

/** Longer than the lease, in a transaction that may have to be synchronous. */
function outlast(leaseMs: number): void {
  const end = performance.now() + 2 * leaseMs;
  while (performance.now() < end);
}

export const keyRunCases: readonly Case[] = cases.map(ifKeys);
