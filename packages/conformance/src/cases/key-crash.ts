/** Idempotency keys through crashes: processes that are killed or stopped, connections that die, replies that are lost. */
import assert from "node:assert/strict";
import { type BeginKey, DovecoteError, isDovecoteError, type RunResponse } from "@dovecote/core";
import type { Case, CaseContext } from "../case.ts";
import type { PaidJson } from "../engine/scripts.ts";
import { override } from "../override.ts";
import { refused } from "./expect.ts";
import { event } from "./given.ts";
import {
  acquired,
  age,
  begins,
  ifKeys,
  keyState,
  keysOf,
  name,
  options,
  RESPONSE,
  SCOPE,
} from "./key-given.ts";
import { promptly } from "./waiting.ts";
import { held } from "./written.ts";

const LEASE_MS = 600_000;
/** In the order in which a payment passes them. */
const CHECKPOINTS = ["begun", "written", "held", "completed", "committed"] as const;

const cases: readonly Case[] = [
  {
    id: "CRASH-05",
    level: 3,
    intent:
      "a process killed at each step of a payment: its row and its answer are both there, or neither is",
    async run(t) {
      for (const [place, last] of CHECKPOINTS.entries()) {
        const key = `pay-${last}`;
        const victim = t.victim("pay", { key, leaseMs: LEASE_MS });
        for (const each of CHECKPOINTS.slice(0, place + 1)) {
          await victim.reached(each);
          if (each !== last) victim.proceed();
        }
        await victim.kill();
        const retry = () => keysOf(t).begin(options({ scope: SCOPE, key }));
        const paid = (await t.session.probe.businessRows()).includes(key);
        assert.equal(
          paid,
          last === "committed",
          `a kill when ${last} must leave ${paid ? "nothing" : "the row"}`,
        );
        if (paid) {
          const { response } = await begins(`a retry after a kill when ${last}`, "replay", retry());
          assert.equal(Buffer.from(response.body).toString(), key, "a committed answer must be there whole");
          continue;
        }
        await begins(`a retry after a kill when ${last}`, "inFlight", retry());
        await age(t, LEASE_MS);
        const { claim } = await begins(
          `a retry after the lease of who was killed when ${last}`,
          "acquired",
          retry(),
        );
        assert.deepEqual([claim.attempt, claim.takenOver], [2, true], "it must be told that it takes over");
      }
    },
  },
  {
    id: "CRASH-05",
    level: 3,
    intent: "a process killed anywhere in a row of payments: each has its row and its answer, or neither",
    async run(t) {
      for (const progress of [1, 4, 9]) {
        const victim = t.victim("payAll", { prefix: `all-${progress}`, leaseMs: LEASE_MS });
        await victim.progressed(progress);
        await victim.kill();
        const reports = (await victim.progressed(0)) as readonly PaidJson[];
        assert.ok(reports.length >= progress, "the victim must have paid before it was killed");
        const rows = await t.session.probe.businessRows();
        const known = await completedAmong(t, `all-${progress}`, reports.length + 2);
        for (const { key } of reports)
          assert.ok(known.has(key), "what was reported as paid must be known as paid");
        for (const key of known)
          assert.ok(rows.includes(key), "a payment that is answered must have its row");
        const own = rows.filter((row) => row.startsWith(`all-${progress}-`));
        for (const row of own) assert.ok(known.has(row), "a payment that has its row must be answered");
        assert.equal(new Set(own).size, own.length, "a payment must have its row once");
      }
    },
  },
  {
    id: "CRASH-06",
    level: 3,
    intent:
      "a process that is stopped past its lease and goes on after a takeover: every write is refused, its rows vanish",
    async run(t) {
      const keys = keysOf(t);
      // With its transaction open already: not where that would keep everybody else from writing.
      for (const early of t.capabilities.lockScope === "row" ? [false, true] : [false]) {
        const key = `zombie-${early}`;
        const victim = t.victim("payLate", { key, leaseMs: LEASE_MS, early });
        await victim.reached("begun");
        victim.freeze();
        await age(t, LEASE_MS);
        const { claim } = await begins(
          "a begin after the lease of a stopped process",
          "acquired",
          keys.begin(options({ scope: SCOPE, key })),
        );
        await keys.complete(claim, RESPONSE);
        const before = await t.session.probe.keys();
        victim.thaw();
        victim.proceed();
        const verdicts = await victim.done();
        // What it writes to is completed by then: that is as true as that its claim is lost.
        for (const [what, code] of Object.entries(verdicts)) {
          assert.ok(
            code === "LOST_CLAIM" || code === "ILLEGAL_TRANSITION",
            `the ${what} of a zombie must be refused, got ${code}`,
          );
        }
        assert.deepEqual(
          await t.session.probe.keys(),
          before,
          "a zombie must leave the record byte-identical",
        );
        assert.deepEqual(await t.session.probe.businessRows(), [], "the rows of a zombie must vanish");
      }
    },
  },
  {
    id: "KEY-14",
    level: 3,
    intent: "a begin whose reply is lost is asked again, and knows its own claim by the token",
    async run(t) {
      const { driver } = t.session;
      assert.ok(driver.keys !== undefined, "a driver with the capability must have keys");
      const { keys } = driver;
      const asked: string[] = [];
      const losing = override(keys, {
        async begin(request: BeginKey) {
          asked.push(Buffer.from(request.token).toString("hex"));
          const outcome = await keys.begin(request);
          if (asked.length > 1) return outcome;
          throw new DovecoteError("CONNECTION_LOST", "the reply was lost", {
            retryable: true,
            ambiguous: true,
          });
        },
      });
      const key = name();
      const { claim } = await begins(
        "a begin whose reply was lost",
        "acquired",
        keysOf({ outbox: t.reopen({}, override(driver, { keys: losing })) }).begin(options(key)),
      );
      assert.equal(claim.attempt, 1, "its own claim must not be taken for another one's");
      assert.deepEqual(
        new Set(asked),
        new Set([claim.token.reveal()]),
        "it must be asked again with the same token",
      );
      await keysOf(t).complete(claim, RESPONSE);
      if (t.capabilities.serverSide) await severedBegins(t);
    },
  },
  {
    id: "CRASH-05",
    level: 3,
    intent:
      "the connection dies while the handler works, or while its answer is recorded: nothing of it is there",
    async run(t) {
      if (!t.capabilities.serverSide) return diesInTransaction(t);
      const { session, outbox } = await t.connect();
      const keys = keysOf({ outbox });
      const working = name();
      const what = "a run whose connection died";
      const run = keys.run({ ...options(working) }, async ({ tx }): Promise<RunResponse> => {
        await outbox.enqueue(tx, event());
        await session.faults.severConnections();
        return RESPONSE;
      });
      await refused(what, ["CONNECTION_LOST", "TX_CLOSED", "TX_REQUIRED"], () =>
        promptly(t.session, what, () => held(run)),
      );
      assert.deepEqual(await t.session.probe.events(), [], `${what} must leave no event`);
      assert.notEqual(await keyState(t, working), "completed", `${what} must not be known as done`);

      for (let round = 0; round < 5; round++) {
        const [key, id] = [name(), `severed-${round}`];
        const claim = await acquired(keysOf(t), key);
        const paying = outbox.transaction(async (tx) => {
          await outbox.enqueue(tx, event({ id }));
          const holding = await keys.hold(tx, claim);
          const completing = held(Promise.resolve(holding.complete(RESPONSE)));
          await session.faults.severConnections();
          await completing;
        });
        const committed = await paying.then(
          () => true,
          (error: unknown) => {
            assert.ok(
              isDovecoteError(error),
              `a severed payment must be a DovecoteError, got ${String(error)}`,
            );
            return false;
          },
        );
        const paid = (await t.session.probe.events()).some((each) => each.id === id);
        assert.equal(
          await keyState(t, key),
          paid ? "completed" : "inFlight",
          "an event and its answer must not part",
        );
        if (committed) assert.ok(paid, "what was committed must be there");
      }
    },
  },
];

/** Which of the keys of a victim are known as done. */
async function completedAmong(t: CaseContext, prefix: string, most: number): Promise<ReadonlySet<string>> {
  const known = new Set<string>();
  for (let n = 0; n < most; n++) {
    const key = `${prefix}-${n}`;
    if ((await keyState(t, { scope: SCOPE, key })) === "completed") known.add(key);
  }
  return known;
}

/** A begin whose connection is severed while it is under way is answered, or says that it was lost. */
async function severedBegins(t: CaseContext): Promise<void> {
  const { session, outbox } = await t.connect();
  for (let round = 0; round < 20; round++) {
    const begin = held(keysOf({ outbox }).begin(options(name())));
    await session.faults.severConnections();
    try {
      const { outcome } = await begin;
      assert.equal(outcome, "acquired", `nobody else has the key, but it was ${outcome}`);
    } catch (error) {
      if (!isDovecoteError(error)) throw error;
      assert.equal(
        error.code,
        "CONNECTION_LOST",
        `a severed begin must be CONNECTION_LOST, got ${error.code}`,
      );
    }
  }
}

/** Without a server the connection dies with its process. */
async function diesInTransaction(t: CaseContext): Promise<void> {
  for (const at of ["held", "completed"] as const) {
    const key = `dies-${at}`;
    const victim = t.victim("pay", { key, leaseMs: LEASE_MS });
    for (const each of CHECKPOINTS.slice(0, CHECKPOINTS.indexOf(at) + 1)) {
      await victim.reached(each);
      if (each !== at) victim.proceed();
    }
    await victim.kill();
    assert.deepEqual(
      await t.session.probe.businessRows(),
      [],
      "a run whose connection died must leave no row",
    );
    assert.equal(await keyState(t, { scope: SCOPE, key }), "inFlight", "it must not be known as done");
  }
}

export const keyCrashCases: readonly Case[] = cases.map(ifKeys);
