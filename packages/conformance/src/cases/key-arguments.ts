/** What `handle.keys` and `handle.inbox` have to refuse: before any I/O, and without a change. */
import assert from "node:assert/strict";
import { BOUNDS, type ErrorCode, type KeyClaim, type KeyClaimRef } from "@dovecote/core";
import type { Case } from "../case.ts";
import type { AnyDriver } from "../define-harness.ts";
import { type BadCall, FLAGS, NO_OBJECT, names, shown, wholes } from "./bad-arguments.ts";
import { refused } from "./expect.ts";
import {
  type AnyKeys,
  acquired,
  FINGERPRINT,
  ifKeys,
  keptAsItWas,
  keysOf,
  name,
  options,
  RESPONSE,
  SCOPE,
} from "./key-given.ts";

const ARGUMENT: readonly ErrorCode[] = ["INVALID_ARGUMENT"];
const HEX = "ab".repeat(32);

const KEYS: readonly unknown[] = [
  undefined,
  ...["", "k".repeat(BOUNDS.idempotencyKeyBytes + 1), "ä", "a\tb", "a\nb", "\0", "\x7f", "lone \ud800"],
  ...[null, 5, true, {}, ["k"]],
];
const SCOPES: readonly unknown[] = [
  ...[undefined, null, 5, "POST /", true, []],
  ...["principal", "method", "path"].map((part) => ({ ...SCOPE, [part]: undefined })),
  ...scopes("principal", BOUNDS.principalBytes),
  ...scopes("method", BOUNDS.methodBytes),
  ...scopes("path", BOUNDS.pathBytes),
  { ...SCOPE, tenant: "acme" },
];
const FINGERPRINTS: readonly unknown[] = [
  ...[undefined, null, 5, "digest", true, {}, []],
  { ...FINGERPRINT, algorithm: "" },
  { ...FINGERPRINT, algorithm: 5 },
  { ...FINGERPRINT, digest: "digest" },
  { ...FINGERPRINT, digest: new Uint8Array() },
];
const RESPONSES: readonly unknown[] = [
  ...[undefined, null, 5, "text", true, []],
  ...[undefined, ...wholes(BOUNDS.status)].map((status) => ({ status })),
  ...[null, 5, "a: b", true, {}, ["a: b"], [["a"]], [["a", "b", "c"]]].map((headers) => ({
    status: 200,
    headers,
  })),
  ...["", "a b", "a:", "ä", "a\n", 5, null].map((header) => ({ status: 200, headers: [[header, "x"]] })),
  ...["a\nb", "a\rb", "\0", " a", "a ", "\u20ac", 5, null].map((value) => ({
    status: 200,
    headers: [["x", value]],
  })),
  ...[null, 5, true, {}, [1], new ArrayBuffer(1), "lone \ud800"].map((body) => ({ status: 200, body })),
  ...["", 5, null, true, "r".repeat(256), "\0"].map((unreplayable) => ({ status: 200, unreplayable })),
  { status: 200, unreplayable: "a stream", body: "x" },
  { status: 200, trailers: [] },
];

const cases: readonly Case[] = [
  {
    id: "ERR-03",
    level: 1,
    intent: "bad arguments of idempotency keys and of the inbox are refused before any call of the driver",
    async run(t) {
      const key = name();
      const claim = await acquired(keysOf(t), key);
      const calls: string[] = [];
      const outbox = t.reopen({}, counting(t.session.driver, calls));
      const before = await t.session.probe.keys();
      for (const { what, call } of badCalls(claim)) {
        await refused(what, ARGUMENT, async () => call(outbox));
        assert.deepEqual(calls, [], `${what} must be refused before any I/O`);
      }
      const tx = await t.session.begin();
      for (const { what, call } of badInTransaction(claim, tx.handle)) {
        await refused(what, ARGUMENT, async () => call(outbox));
        assert.deepEqual(calls, [], `${what} must be refused before any I/O`);
      }
      // Committed, not rolled back: nothing may have been written at all.
      await tx.commit();
      assert.deepEqual(await t.session.probe.keys(), before, "bad arguments must change no record");
      await keysOf(t).complete(claim, RESPONSE);
    },
  },
  {
    id: "ERR-03",
    level: 1,
    intent: "arguments of idempotency keys that are exactly at a bound are accepted",
    async run(t) {
      const keys = keysOf(t);
      const scope = {
        principal: "é".repeat(BOUNDS.principalBytes / 2),
        method: "M".repeat(BOUNDS.methodBytes),
        path: "/".repeat(BOUNDS.pathBytes),
      };
      const longest = { scope, key: "~".repeat(BOUNDS.idempotencyKeyBytes) };
      const bounds = {
        leaseMs: BOUNDS.leaseMs.max,
        retentionMs: BOUNDS.retentionMs.max,
        tombstoneMs: BOUNDS.tombstoneMs.max,
      };
      const claim = await acquired(keys, longest, bounds);
      await keys.renew(claim, { leaseMs: BOUNDS.leaseMs.max });
      const headers = [["x", "\t-\u00ff".trim()]] as const;
      await keys.complete(claim, { status: BOUNDS.status.max, headers });
      const shortest = { scope: { principal: null, method: "G", path: "*" }, key: " " };
      await acquired(keys, shortest, {
        leaseMs: BOUNDS.leaseMs.min + 60_000,
        retentionMs: 1,
        tombstoneMs: 0,
      });
      await keys.list({ stuck: true, limit: BOUNDS.limit.max });
      await keys.sweep({ limit: BOUNDS.limit.min });
    },
  },
  {
    id: "KEY-07",
    level: 1,
    intent: "a claim is completed once: whatever is done with it afterwards is refused, and the answer stays",
    async run(t) {
      const { session } = t;
      const keys = keysOf(t);
      const claim = await acquired(keys, name());
      await keys.complete(claim, RESPONSE);
      const late: readonly (readonly [string, () => unknown])[] = [
        ["a second complete", () => keys.complete(claim, { status: 500 })],
        ["a renewal of what is done", () => keys.renew(claim)],
        ["a release of what is done", () => keys.release(claim)],
        ["a hold of what is done", () => session.transaction((tx) => keys.hold(tx.handle, claim))],
        [
          "a second complete in a transaction",
          () => session.transaction((tx) => keys.complete(claim, { status: 500 }, tx.handle)),
        ],
      ];
      for (const [what, call] of late) {
        await keptAsItWas(what, session, () => refused(what, ["ILLEGAL_TRANSITION"], call));
      }
    },
  },
  {
    id: "TX-05",
    level: 1,
    intent: "a claim of a key is held and completed in an open transaction, and nowhere else",
    async run(t) {
      const { session, outbox } = t;
      const keys = keysOf(t);
      const claim = await acquired(keys, name());
      for (const root of [session.root, ...(session.otherRoots ?? [])]) {
        const calls: readonly (readonly [string, () => unknown])[] = [
          ["hold", () => keys.hold(root, claim)],
          ["complete", () => keys.complete(claim, RESPONSE, root)],
          [
            "inbox.once",
            () =>
              outbox.inbox.once(root, { consumer: "c", event: { source: "/shop", id: "1" } }, () =>
                assert.fail("it ran"),
              ),
          ],
        ];
        for (const [what, call] of calls) {
          await keptAsItWas(`${what} with the client, without a transaction`, session, () =>
            refused(`${what} with the client, without a transaction`, ["TX_REQUIRED"], async () => call()),
          );
        }
      }
    },
  },
  {
    id: "TENANT-01",
    level: 1,
    intent: "the claim of a key is good in its own tenant alone, and so is everything that names a key",
    async run(t) {
      const { session } = t;
      const keys = keysOf(t);
      const other = keysOf({ outbox: t.outbox.tenant("acme") as never });
      const key = name();
      const claim = await acquired(keys, key, { takeover: "refuse" });
      const forged: KeyClaimRef = { ...claim, tenant: "acme" };
      const calls: readonly (readonly [string, () => unknown])[] = [
        ["complete", () => other.complete(forged, RESPONSE)],
        ["renew", () => other.renew(forged)],
        ["release", () => other.release(forged)],
        ["hold", () => session.transaction((tx) => other.hold(tx.handle, forged))],
        ["resolve", () => other.resolve(key, "released")],
      ];
      for (const [what, call] of calls) {
        await keptAsItWas(`a ${what} of another tenant's key`, session, () =>
          refused(`a ${what} of another tenant's key`, ["NOT_FOUND"], call),
        );
      }
      await keptAsItWas("what another tenant does", session, async () => {
        assert.deepEqual(
          await other.inspect(key),
          { outcome: "notFound" },
          "another tenant's key must not be found",
        );
        assert.equal((await other.forget({ principal: SCOPE.principal })).forgotten, 0, "nor forgotten");
      });
      await session.faults.ageKeys(BOUNDS.leaseMs.max);
      assert.deepEqual(await other.list({ stuck: true }), [], "nor listed");
      assert.equal((await keys.list({ stuck: true })).length, 1, "its own tenant must see it");
      assert.equal((await keys.forget({ principal: SCOPE.principal })).forgotten, 1, "and can forget it");
    },
  },
];

function scopes(part: string, maxBytes: number): readonly unknown[] {
  const values = names(maxBytes).filter((value) => value !== "NUL \0");
  return values.map((value) => ({ ...SCOPE, [part]: value }));
}

/** The driver, and what is called of it and of its keys. */
function counting(driver: AnyDriver, calls: string[]): AnyDriver {
  return new Proxy(driver, {
    get(target, key) {
      const value: unknown = Reflect.get(target, key);
      if (key === "keys" && value !== undefined) return counting(value as AnyDriver, calls);
      if (typeof value !== "function") return value;
      return (...args: readonly unknown[]): unknown => {
        calls.push(String(key));
        return Reflect.apply(value, target, args);
      };
    },
  });
}

/** Bad values of one argument of a method of `keys`; `args` puts each in its place. */
function each(
  method: keyof AnyKeys,
  argument: string,
  values: readonly unknown[],
  args: (value: unknown) => readonly unknown[],
): readonly BadCall[] {
  return values.map((value) => ({
    what: `keys.${method} with ${argument} ${shown(value)}`,
    call: ({ keys }) => Reflect.apply(Reflect.get(keys, method), keys, args(value)),
  }));
}

function badCalls(claim: KeyClaim): readonly BadCall[] {
  const key = name();
  const good = options(key);
  const none = [undefined, ...NO_OBJECT];
  const within = (argument: string) => (value: unknown) => [{ ...good, [argument]: value }, () => RESPONSE];
  const named = (argument: string) => (value: unknown) => [{ ...key, [argument]: value }, "released"];
  return [
    ...(["begin", "run"] as const).flatMap((method) => [
      ...each(method, "key", KEYS, within("key")),
      ...each(method, "scope", SCOPES, within("scope")),
      ...each(method, "fingerprint", FINGERPRINTS, within("fingerprint")),
      ...each(method, "takeover", [undefined, null, "", "retry", true, 5], within("takeover")),
      ...each(method, "leaseMs", wholes(BOUNDS.leaseMs), within("leaseMs")),
      ...each(method, "retentionMs", wholes(BOUNDS.retentionMs), within("retentionMs")),
      ...each(method, "tombstoneMs", wholes(BOUNDS.tombstoneMs), within("tombstoneMs")),
      ...each(method, "an option", ["leasems"], (option) => [
        { ...good, [String(option)]: 1 },
        () => RESPONSE,
      ]),
      ...each(method, "options", none, (given) => [given, () => RESPONSE]),
    ]),
    ...each("run", "mode", [null, "", "tx", true], within("mode")),
    ...each("run", "record", [null, true, 5, {}], within("record")),
    ...each("run", "signal", [null, 5, "abort", {}], within("signal")),
    ...each("run", "handler", none, (handler) => [good, handler]),
    ...(["inspect", "resolve"] as const).flatMap((method) => [
      ...each(method, "key", KEYS, named("key")),
      ...each(method, "scope", SCOPES, named("scope")),
      ...each(method, "options", none, (given) => [given, "released"]),
    ]),
    ...each("resolve", "an end", [undefined, null, "", "deleted", 5], (to) => [key, to]),
    ...each("complete", "claim", badClaims(claim), (given) => [given, RESPONSE]),
    ...each("complete", "response", RESPONSES, (response) => [claim, response]),
    ...each("renew", "claim", badClaims(claim), (given) => [given]),
    ...each("renew", "leaseMs", wholes(BOUNDS.leaseMs), (leaseMs) => [claim, { leaseMs }]),
    ...each("renew", "options", NO_OBJECT, (given) => [claim, given]),
    ...each("release", "claim", badClaims(claim), (given) => [given]),
    ...each("list", "stuck", [undefined, ...FLAGS, false], (stuck) => [{ stuck }]),
    ...each("list", "limit", wholes(BOUNDS.limit), (limit) => [{ stuck: true, limit }]),
    ...each("list", "options", none, (given) => [given]),
    ...each("sweep", "limit", wholes(BOUNDS.limit), (limit) => [{ limit }]),
    ...each("sweep", "options", NO_OBJECT, (given) => [given]),
    ...each(
      "forget",
      "principal",
      [undefined, null, "", 5, "p".repeat(BOUNDS.principalBytes + 1)],
      (principal) => [{ principal }],
    ),
    ...each("forget", "limit", wholes(BOUNDS.limit), (limit) => [{ principal: "p", limit }]),
    ...each("forget", "options", none, (given) => [given]),
  ];
}

function badInTransaction(claim: KeyClaim, tx: unknown): readonly BadCall[] {
  const once = { consumer: "c", event: { source: "/shop", id: "1" } };
  const inbox = (
    argument: string,
    values: readonly unknown[],
    args: (value: unknown) => readonly unknown[],
  ) =>
    values.map(
      (value): BadCall => ({
        what: `inbox.once with ${argument} ${shown(value)}`,
        call: (outbox) => Reflect.apply(outbox.inbox.once, outbox.inbox, [tx, ...args(value)]),
      }),
    );
  const fn = () => assert.fail("a refused inbox.once must call nothing");
  return [
    ...each("hold", "claim", badClaims(claim), (given) => [tx, given]),
    ...each("complete", "claim", badClaims(claim), (given) => [given, RESPONSE, tx]),
    ...each("complete", "response", RESPONSES, (response) => [claim, response, tx]),
    ...inbox("consumer", [undefined, null, ...names(BOUNDS.workerBytes)], (consumer) => [
      { ...once, consumer },
      fn,
    ]),
    ...inbox("event", [undefined, ...NO_OBJECT, {}, { source: "/shop" }, { id: "1" }], (given) => [
      { ...once, event: given },
      fn,
    ]),
    ...inbox("retentionMs", wholes(BOUNDS.retentionMs), (retentionMs) => [{ ...once, retentionMs }, fn]),
    ...inbox("options", [undefined, ...NO_OBJECT], (given) => [given, fn]),
    ...inbox("fn", [undefined, ...NO_OBJECT, {}], (given) => [once, given]),
  ];
}

/** Claims that are none, and those of other stores and tenants. */
function badClaims(claim: KeyClaim): readonly unknown[] {
  const digests = [undefined, null, "", HEX.slice(1), `${HEX}0`, HEX.toUpperCase(), "g".repeat(64), 5, {}];
  return [
    ...[undefined, null, 5, "text", true, {}, []],
    { rowId: 1, attempt: 1, token: claim.token },
    ...digests.flatMap((digest) => [
      { ...claim, scopeDigest: digest },
      { ...claim, keyDigest: digest },
    ]),
    ...[undefined, null, "", "0".repeat(31), "g".repeat(32), 5, {}, new Uint8Array(16)].map((token) => ({
      ...claim,
      token,
    })),
    ...[undefined, null, "", 5, "acme"].map((tenant) => ({ ...claim, tenant })),
  ];
}

export const keyArgumentCases: readonly Case[] = cases.map(ifKeys);
