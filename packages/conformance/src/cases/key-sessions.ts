/** Idempotency keys where clock, settings, or the life of the store are not what one expects. */
import assert from "node:assert/strict";
import { inspect } from "node:util";
import { type ErrorCode, isDovecoteError } from "@dovecote/core";
import type { Case, Peer } from "../case.ts";
import { withClock } from "./clock.ts";
import { refused } from "./expect.ts";
import {
  acquired,
  age,
  begins,
  ifKeys,
  keptAsItWas,
  keysOf,
  name,
  OTHER_REQUEST,
  options,
  RESPONSE,
  SCOPE,
} from "./key-given.ts";
import { after } from "./written.ts";

const HOUR_MS = 3_600_000;
const LEASE_MS = HOUR_MS / 2;

const cases: readonly Case[] = [
  {
    id: "CLOCK-02",
    level: 2,
    intent:
      "a process whose clock is an hour off neither takes a key over nor loses one, and knows what is done for how long",
    async run(t) {
      const off = keysOf(await t.connect());
      for (const offsetMs of [HOUR_MS, -HOUR_MS]) {
        const there = <T>(call: () => T): Promise<Awaited<T>> => withClock(offsetMs, call);
        const key = name();
        const given = { leaseMs: LEASE_MS, retentionMs: LEASE_MS, tombstoneMs: LEASE_MS };
        const claim = await acquired(keysOf(t), key, given);
        const begun = await begins(
          "a begin by a process whose clock is off",
          "inFlight",
          there(() => off.begin(options(key, given))),
        );
        assert.ok(begun.retryAfterMs <= LEASE_MS, "the time left must be the database's");
        await there(() => off.complete(claim, RESPONSE));
        for (const outcome of ["replay", "expired"] as const) {
          await begins(
            `what is ${outcome}`,
            outcome,
            there(() => off.begin(options(key, given))),
          );
          assert.equal(
            (await there(() => off.sweep())).swept,
            0,
            "a sweep by a clock that is off must leave it",
          );
          await age(t, LEASE_MS);
        }
        const dead = await there(() => acquired(off, key, given));
        await age(t, LEASE_MS);
        await refused("a late complete by a process whose clock is off", ["LOST_CLAIM"], () =>
          there(() => off.complete(dead, RESPONSE)),
        );
        const next = await there(() => acquired(off, name(), given));
        await keysOf(t).complete(next, RESPONSE);
        await keysOf(t).forget({ principal: SCOPE.principal });
      }
    },
  },
  {
    id: "KEY-06",
    level: 1,
    intent: "keys and the inbox do the same over a session with hostile settings, isolation included",
    async run(t) {
      const there = await t.connect({}, { hostile: true });
      const keys = keysOf(there);
      const key = name();
      const body = Uint8Array.from({ length: 256 }, (_, byte) => byte);
      const first = await acquired(keys, key, { leaseMs: LEASE_MS });
      await begins("a second begin", "inFlight", keys.begin(options(key)));
      await begins("another request", "mismatch", keys.begin(options(key, { fingerprint: OTHER_REQUEST })));
      await age(t, LEASE_MS);
      const second = await acquired(keys, key);
      assert.deepEqual([second.attempt, second.takenOver], [2, true], "a takeover must be the next attempt");
      await refused("a superseded hold", ["LOST_CLAIM"], () => held(there, first, "zombie"));
      await held(there, second, "done", { status: 200, headers: [["x", "\\ 'null' NULL"]], body });
      const { response } = await begins("a retry", "replay", keys.begin(options(key)));
      assert.deepEqual(
        response,
        { status: 200, headers: [["x", "\\ 'null' NULL"]], body },
        "an answer must be given again byte for byte",
      );
      for (const outcome of ["first", "seen"] as const) {
        const once = await there.session.transaction((tx) =>
          there.outbox.inbox.once(tx.handle, { consumer: "c", event: { source: "/shop", id: "1" } }, () =>
            tx.writeBusinessRow("consumed"),
          ),
        );
        assert.equal(once.outcome, outcome, `an event must be ${outcome}`);
      }
      assert.deepEqual(
        await t.session.probe.businessRows(),
        ["consumed", "done"],
        "each effect must be there once",
      );
      const lost = name();
      await keys.renew(await acquired(keys, lost, { takeover: "refuse" }), { leaseMs: LEASE_MS });
      await age(t, LEASE_MS);
      assert.equal((await keys.list({ stuck: true })).length, 1, "what is stuck must be listed");
      await keys.resolve(lost, "released");
      await keys.release(await acquired(keys, lost));
      await age(t, 366 * 24 * HOUR_MS);
      assert.equal((await keys.sweep()).swept, 2, "a sweep must remove the key and the mark");
      await acquired(keys, key);
      assert.equal(
        (await keys.forget({ principal: SCOPE.principal })).forgotten,
        1,
        "keys must be forgotten",
      );
    },
  },
  {
    id: "LIFE-01",
    level: 1,
    intent: "every method of the keys and the inbox of a closed store rejects CLOSED, and does nothing",
    async run(t) {
      const { outbox, session } = await t.connect();
      const keys = keysOf({ outbox });
      const key = name();
      const claim = await acquired(keys, key);
      await outbox.close();
      const once = { consumer: "c", event: { source: "/shop", id: "1" } };
      const calls: Readonly<Record<string, () => unknown>> = {
        begin: () => keys.begin(options(key)),
        run: () => keys.run({ ...options(name()) }, () => assert.fail("a closed store must run nothing")),
        hold: () => session.transaction((tx) => keys.hold(tx.handle, claim)),
        complete: () => keys.complete(claim, RESPONSE),
        "complete in a transaction": () =>
          session.transaction((tx) => keys.complete(claim, RESPONSE, tx.handle)),
        renew: () => keys.renew(claim),
        release: () => keys.release(claim),
        resolve: () => keys.resolve(key, "released"),
        inspect: () => keys.inspect(key),
        list: () => keys.list({ stuck: true }),
        sweep: () => keys.sweep(),
        forget: () => keys.forget({ principal: SCOPE.principal }),
        once: () =>
          session.transaction((tx) => outbox.inbox.once(tx.handle, once, () => assert.fail("it ran"))),
      };
      for (const [what, call] of Object.entries(calls)) {
        await keptAsItWas(`${what} after the close`, t.session, () =>
          refused(`${what} after the close`, CLOSED, call),
        );
      }
    },
  },
  {
    id: "ERR-04",
    level: 1,
    intent: "neither token nor key nor scope is in what a caller gets, in an error, or in the table",
    async run(t) {
      const keys = keysOf(t);
      const secrets = ["a-key-of-somebody", "principal-of-somebody", "/path-of-somebody"] as const;
      const [key, principal, path] = secrets;
      const of = { scope: { principal, method: "POST", path }, key };
      const claim = await acquired(keys, of);
      const errors = [
        await refused("a claim with the wrong token", ["LOST_CLAIM"], () =>
          keys.complete({ ...claim, token: "0".repeat(32) }, RESPONSE),
        ),
        await refused("a bad key", ["INVALID_ARGUMENT"], () =>
          keys.begin(options({ ...of, key: `${key}\n` })),
        ),
        await refused("a resolve of what is in flight", ["ILLEGAL_TRANSITION"], () =>
          keys.resolve(of, "released"),
        ),
      ];
      for (const error of errors) assert.ok(isDovecoteError(error), "a refusal must be typed");
      const found = await keys.inspect(of);
      await age(t, 60_000);
      const shown = { claim, found, stuck: await keys.list({ stuck: true }), errors };
      const texts = [
        JSON.stringify(shown),
        inspect(shown, { depth: null, showHidden: true }),
        ...errors.map(({ message, stack }) => `${message} ${stack}`),
      ];
      const token = claim.token.reveal();
      for (const text of texts) {
        for (const secret of [token, token.toUpperCase(), ...secrets]) {
          assert.ok(!text.includes(secret), "what a caller gets must hold no token, key or scope");
        }
      }
      const stored = JSON.stringify(await t.session.probe.keys());
      for (const secret of secrets)
        assert.ok(!stored.includes(secret), "neither a key nor its scope must be stored");
    },
  },
];

const CLOSED: readonly ErrorCode[] = ["CLOSED"];

/** Holds a claim and completes it, beside a business row. */
async function held(
  { session, outbox }: Peer,
  claim: Awaited<ReturnType<typeof acquired>>,
  row: string,
  response: Parameters<ReturnType<typeof keysOf>["complete"]>[1] = RESPONSE,
): Promise<void> {
  await session.transaction((tx) =>
    after(tx.writeBusinessRow(row), () =>
      after(keysOf({ outbox }).hold(tx.handle, claim), (holding) => holding.complete(response)),
    ),
  );
}

export const keySessionCases: readonly Case[] = cases.map(ifKeys);
