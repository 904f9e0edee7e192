import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import type { Case } from "../case.ts";
import { refused } from "./expect.ts";
import { event } from "./given.ts";
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

const LEASE_MS = 60_000;
const DAY_MS = 24 * 60 * 60 * 1000;

const cases: readonly Case[] = [
  {
    id: "KEY-01",
    level: 1,
    intent: "the first begin acquires a key, and a second one is told how long it is in flight",
    async run(t) {
      const keys = keysOf(t);
      const key = name();
      const claim = await acquired(keys, key);
      assert.deepEqual(
        [claim.attempt, claim.takenOver],
        [1, false],
        "a first claim must be the first attempt",
      );
      const { retryAfterMs } = await begins("a second begin", "inFlight", keys.begin(options(key)));
      assert.ok(retryAfterMs > 0 && retryAfterMs <= LEASE_MS, "the time left must be that of the lease");
      const { expiresAt } = await keys.renew(claim, { leaseMs: 2 * LEASE_MS });
      assert.ok(expiresAt > claim.expiresAt, "a renewal must move the expiry");
      const renewed = await begins("a begin after the renewal", "inFlight", keys.begin(options(key)));
      assert.ok(renewed.retryAfterMs > LEASE_MS, "the time left must be that of the renewed lease");
      await acquired(keys, name());
    },
  },
  {
    id: "KEY-02",
    level: 1,
    intent: "after complete every begin replays status, headers and body byte for byte",
    async run(t) {
      const keys = keysOf(t);
      const key = name();
      const body = Uint8Array.from({ length: 256 }, (_, index) => index);
      const headers = [
        ["Link", "<a>"],
        ["link", "<b>"],
        ["x-empty", ""],
      ] as const;
      await keys.complete(await acquired(keys, key), { status: 202, headers, body });
      for (const again of [keys, keysOf(await t.connect())]) {
        const { response } = await begins("a retry", "replay", again.begin(options(key)));
        assert.deepEqual(
          response,
          { status: 202, headers, body },
          "a replay must be byte for byte the answer",
        );
      }
      const lost = name();
      await keys.complete(await acquired(keys, lost), { status: 200, unreplayable: "a stream" });
      const retry = await begins(
        "a retry of an answer that was not kept",
        "unreplayable",
        keys.begin(options(lost)),
      );
      assert.deepEqual(
        [retry.reason, retry.status],
        ["a stream", 200],
        "what is known of an answer must be said",
      );
    },
  },
  {
    id: "KEY-04",
    level: 1,
    intent:
      "another request under the same key is a mismatch, in flight, after a takeover and when it was done",
    async run(t) {
      const keys = keysOf(t);
      const { session } = t;
      const other = { fingerprint: OTHER_REQUEST };
      const key = name();
      const mismatch = (when: string) =>
        keptAsItWas(`another request ${when}`, session, () =>
          begins(`another request ${when}`, "mismatch", keys.begin(options(key, other))),
        );
      await acquired(keys, key, { tombstoneMs: DAY_MS });
      await mismatch("in flight");
      await age(t, LEASE_MS);
      await mismatch("after the lease");
      const second = await acquired(keys, key, { tombstoneMs: DAY_MS });
      await mismatch("after a takeover");
      await keys.complete(second, RESPONSE);
      await mismatch("after the answer");
      await age(t, DAY_MS);
      await mismatch("during the tombstone");
      const unknown = { algorithm: "json-2", digest: OTHER_REQUEST.digest };
      await begins(
        "a digest that cannot be compared",
        "expired",
        keys.begin(options(key, { fingerprint: unknown })),
      );
      await age(t, DAY_MS);
      await begins("another request after the tombstone", "acquired", keys.begin(options(key, other)));
    },
  },
  {
    id: "KEY-05",
    level: 1,
    intent: "scopes do not collide, whatever separators they hold, and a path may be long and random",
    async run(t) {
      const keys = keysOf(t);
      const key = "one-key";
      const path = `/${randomBytes(2048).toString("hex")}`;
      const scopes = [
        SCOPE,
        { ...SCOPE, principal: null },
        { ...SCOPE, principal: "null" },
        { ...SCOPE, principal: "user-1P", method: "OST" },
        { ...SCOPE, method: "POST/payments", path: "/" },
        { ...SCOPE, path: "/payments/" },
        { ...SCOPE, path: "/payments\u0000" },
        { ...SCOPE, path: "/PAYMENTS" },
        { ...SCOPE, path },
        { ...SCOPE, path: `${path.slice(0, -1)}~` },
      ];
      for (const scope of scopes) {
        await begins(
          `a key in a scope of its own, ${JSON.stringify(scope).slice(0, 80)}`,
          "acquired",
          keys.begin(options({ scope, key })),
        );
      }
      await begins(
        "a key of another tenant",
        "acquired",
        keysOf({ outbox: t.outbox.tenant("acme") as never }).begin(options({ scope: SCOPE, key })),
      );
      for (const scope of scopes) {
        await begins("the same key in the same scope", "inFlight", keys.begin(options({ scope, key })));
      }
      const stored = JSON.stringify(await t.session.probe.keys());
      for (const secret of [key, "user-1", "/payments"]) {
        assert.ok(!stored.includes(secret), "neither a key nor its scope must be stored");
      }
    },
  },
  {
    id: "KEY-06",
    level: 1,
    intent: "complete in the business transaction commits with it, and vanishes with it",
    async run(t) {
      const { session, outbox } = t;
      const keys = keysOf(t);
      const key = name();
      const claim = await acquired(keys, key);
      const undone = await session.begin();
      await undone.writeBusinessRow("undone");
      await outbox.enqueue(undone.handle, event());
      await (await keys.hold(undone.handle, claim)).complete(RESPONSE);
      await undone.rollback();
      await begins("a retry after a rollback", "inFlight", keys.begin(options(key)));
      assert.deepEqual(await session.probe.businessRows(), [], "a rollback must leave no business row");
      const done = await session.begin();
      await done.writeBusinessRow("done");
      await outbox.enqueue(done.handle, event());
      await keys.complete(claim, RESPONSE, done.handle);
      await done.commit();
      await begins("a retry after the commit", "replay", keys.begin(options(key)));
      assert.deepEqual(await session.probe.businessRows(), ["done"], "a commit must leave the business row");
      assert.equal((await session.probe.events()).length, 1, "a commit must leave the event, once");
    },
  },
  {
    id: "KEY-07",
    level: 1,
    intent:
      "complete, renew, release and hold with a superseded token are refused, and take the zombie's rows back",
    async run(t) {
      const { session } = t;
      const keys = keysOf(t);
      const key = name();
      const stale = await acquired(keys, key);
      await age(t, LEASE_MS);
      const late: readonly (readonly [string, () => unknown])[] = [
        ["complete", () => keys.complete(stale, RESPONSE)],
        ["renew", () => keys.renew(stale)],
        ["release", () => keys.release(stale)],
      ];
      for (const [what, call] of late) {
        await keptAsItWas(`a late ${what}`, session, () => refused(`a late ${what}`, ["LOST_CLAIM"], call));
      }
      const { claim } = await begins("a begin after the lease", "acquired", keys.begin(options(key)));
      assert.deepEqual([claim.attempt, claim.takenOver], [2, true], "a takeover must be the next attempt");
      for (const [what, call] of late) {
        await keptAsItWas(`a superseded ${what}`, session, () =>
          refused(`a superseded ${what}`, ["LOST_CLAIM"], call),
        );
      }
      for (const join of [
        (tx: unknown) => keys.hold(tx, stale),
        (tx: unknown) => keys.complete(stale, RESPONSE, tx),
      ]) {
        const zombie = session.transaction((tx) => {
          const written = tx.writeBusinessRow("zombie");
          return written instanceof Promise ? written.then(() => join(tx.handle)) : join(tx.handle);
        });
        await refused("a zombie's transaction", ["LOST_CLAIM"], () => zombie);
      }
      assert.deepEqual(await session.probe.businessRows(), [], "a zombie's business rows must roll back");
      await keys.complete(claim, RESPONSE);
    },
  },
  {
    id: "KEY-09",
    level: 1,
    intent: "a key that refuses takeovers waits for an operator, and a later begin can only make it stricter",
    async run(t) {
      const keys = keysOf(t);
      const [strict, loosened] = [name(), name()];
      await acquired(keys, strict, { takeover: "refuse" });
      await acquired(keys, loosened);
      await refused("resolving a key in flight", ["ILLEGAL_TRANSITION"], () =>
        keys.resolve(strict, "completed"),
      );
      await age(t, LEASE_MS);
      await begins("a key that refuses", "indeterminate", keys.begin(options(strict)));
      await begins(
        "a key that is to refuse now",
        "indeterminate",
        keys.begin(options(loosened, { takeover: "refuse" })),
      );
      await begins("a key that refused", "indeterminate", keys.begin(options(loosened)));
      await age(t, 400 * DAY_MS);
      assert.deepEqual(
        await keys.sweep(),
        { swept: 0, more: false },
        "an indeterminate key must not be swept",
      );
      assert.deepEqual(
        (await keys.list({ stuck: true })).map(({ state }) => state),
        ["indeterminate", "indeterminate"],
        "stuck keys must be listed",
      );
      await keys.resolve(strict, "completed");
      const { status } = await begins(
        "a key that an operator completed",
        "unreplayable",
        keys.begin(options(strict)),
      );
      assert.equal(status, undefined, "an operator knows no status");
      await keys.resolve(loosened, "released");
      await begins("a key that an operator released", "acquired", keys.begin(options(loosened)));
    },
  },
  {
    id: "KEY-10",
    level: 1,
    intent:
      "binary bodies, bodies of 1 MiB and repeated headers survive, and what is larger is not run again",
    async run(t) {
      const keys = keysOf(t);
      const large = name();
      const body = new Uint8Array(randomBytes(1024 * 1024));
      await keys.complete(await acquired(keys, large), { status: 200, body });
      const { response } = await begins("a retry", "replay", keys.begin(options(large)));
      assert.ok(Buffer.from(response.body).equals(body), "a body of 1 MiB must come back byte for byte");
      const capped = keysOf({ outbox: t.reopen({ maxAnswerBytes: 10 }) });
      const oversize = name();
      await capped.complete(await acquired(capped, oversize), { status: 200, body: "12345678901" });
      await begins("a retry of what was too large", "unreplayable", capped.begin(options(oversize)));
    },
  },
  {
    id: "KEY-11",
    level: 1,
    intent: "release deletes the record, fingerprint included",
    async run(t) {
      const keys = keysOf(t);
      const key = name();
      const claim = await acquired(keys, key, { takeover: "refuse" });
      await keys.release(claim);
      assert.deepEqual(await t.session.probe.keys(), [], "a release must leave no record");
      assert.deepEqual(await keys.inspect(key), { outcome: "notFound" }, "a released key must not be found");
      await refused("releasing twice", ["NOT_FOUND"], () => keys.release(claim));
      await begins(
        "another request after a release",
        "acquired",
        keys.begin(options(key, { fingerprint: OTHER_REQUEST })),
      );
    },
  },
  {
    id: "KEY-12",
    level: 1,
    intent: "retention counts from completion, and a record is worth what its times say, swept or not",
    async run(t) {
      const { session } = t;
      const keys = keysOf(t);
      const [done, free, live] = [name(), name(), name()];
      const retentionMs = 10 * LEASE_MS;
      await keys.complete(await acquired(keys, done, { retentionMs, tombstoneMs: 0 }), RESPONSE);
      await acquired(keys, free, { retentionMs });
      await acquired(keys, live, { leaseMs: DAY_MS });
      await age(t, retentionMs - LEASE_MS);
      await begins("a retry within its retention", "replay", keys.begin(options(done)));
      assert.deepEqual(
        await keys.sweep(),
        { swept: 0, more: false },
        "nothing that is worth something may be swept",
      );
      await age(t, LEASE_MS);
      await begins("a retry after its retention", "acquired", keys.begin(options(done)));
      await age(t, LEASE_MS);
      const { claim } = await begins(
        "a claim whose retention is over",
        "acquired",
        keys.begin(options(free, { fingerprint: OTHER_REQUEST })),
      );
      assert.deepEqual(
        [claim.attempt, claim.takenOver],
        [1, false],
        "it must be as if the key had never been used",
      );
      await age(t, 3 * DAY_MS);
      await acquired(keys, name());
      assert.deepEqual(await keys.sweep({ limit: 2 }), { swept: 2, more: true }, "a sweep must be bounded");
      await keys.sweep();
      assert.equal(
        (await session.probe.keys()).length,
        1,
        "a sweep must leave what is alive, and nothing else",
      );
    },
  },
  {
    id: "KEY-13",
    level: 1,
    intent: "a tombstone answers that the key expired, and ends",
    async run(t) {
      const keys = keysOf(t);
      const key = name();
      await keys.complete(await acquired(keys, key), RESPONSE);
      await age(t, DAY_MS);
      await begins("a retry after 24 h", "expired", keys.begin(options(key)));
      await age(t, 7 * DAY_MS - 60_000);
      await begins("a retry before the end of its 7 days", "expired", keys.begin(options(key)));
      await age(t, 60_000);
      await begins("a retry after its 7 days", "acquired", keys.begin(options(key)));
    },
  },
  {
    id: "INBOX-01",
    level: 1,
    intent:
      "what a consumer does with an event commits with its mark; a redelivered event is seen, and others are not",
    async run(t) {
      const { session, outbox } = t;
      const given = { source: "/shop", id: "1" };
      let calls = 0;
      const once = (consumer: string, id: string, fail = false) =>
        session.transaction((tx) =>
          outbox.inbox.once(tx.handle, { consumer, event: { ...given, id } }, () => {
            calls += 1;
            const written = tx.writeBusinessRow(`${calls} ${consumer} ${id}`);
            if (!fail) return written;
            if (!(written instanceof Promise)) throw UNDONE;
            return written.then(() => {
              throw UNDONE;
            });
          }),
        );
      await assert.rejects(() => once("invoices", "1", true), UNDONE);
      assert.deepEqual(await session.probe.businessRows(), [], "what failed must leave no effect");
      for (const outcome of ["first", "seen", "seen"]) {
        assert.equal((await once("invoices", "1")).outcome, outcome, `an event must be ${outcome}`);
      }
      assert.equal((await once("invoices", "2")).outcome, "first", "another event must be the first");
      assert.equal((await once("mails", "1")).outcome, "first", "another consumer must be the first");
      const expected = ["2 invoices 1", "3 invoices 2", "4 mails 1"];
      assert.deepEqual(await session.probe.businessRows(), expected, "each effect must be there once");
      // As the queries of some query builders: nothing happens until somebody awaits it.
      let awaited = 0;
      const lazy: PromiseLike<void> = {
        // biome-ignore lint/suspicious/noThenProperty: that is what is tested.
        then(resolve) {
          awaited += 1;
          return Promise.resolve().then(resolve as () => never);
        },
      };
      const query = () =>
        session.transaction((tx) =>
          outbox.inbox.once(tx.handle, { consumer: "lazy", event: given }, () => lazy),
        );
      if (t.capabilities.asyncTransactions) {
        assert.equal((await query()).outcome, "first", "a query must be an effect");
        assert.equal(awaited, 1, "a query that is an effect must be awaited");
      } else {
        await refused("an asynchronous effect", ["TX_ASYNC"], query);
        assert.equal((await once("lazy", "1")).outcome, "first", "a refused effect must leave no mark");
      }
      await session.faults.ageKeys(30 * DAY_MS);
      await outbox.keys.sweep();
      assert.equal((await once("late", "1")).outcome, "first", "marks must end with their retention");
      await refused("an inbox outside a transaction", ["TX_REQUIRED", "INVALID_ARGUMENT"], () =>
        outbox.inbox.once(session.root, { consumer: "c", event: given }, () => {}),
      );
    },
  },
];

const UNDONE = new Error("the consumer failed");

export const keyCases: readonly Case[] = cases.map(ifKeys);
