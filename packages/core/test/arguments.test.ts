import { describe, expect, it } from "vitest";
import { BOUNDS, createDovecote, type Dovecote, type DovecoteError } from "../src/index.ts";
import { fakeDriver } from "./fake-driver.ts";

type Call = (store: Dovecote<unknown, true>, value: never) => unknown;

const TOKEN = "0123456789abcdef0123456789abcdef";
const claim = { rowId: 1, attempt: 1, token: TOKEN };
const failure = { code: "c", detail: "d" };
const event = { stream: "s", source: "/s", type: "t" };

/** Every whole number that a caller can give, with its range. */
const wholes: readonly (readonly [name: string, min: number, max: number, call: Call])[] = [
  ["claim limit", 1, 1000, (s, limit) => s.claim({ worker: "w", limit })],
  ["claim leaseMs", 1, 86_400_000, (s, leaseMs) => s.claim({ worker: "w", leaseMs, limit: 1 })],
  ["renew leaseMs", 1, 86_400_000, (s, leaseMs) => s.renew(claim, { leaseMs })],
  ["retry delayMs", 0, 2_592_000_000, (s, delayMs) => s.retry(claim, { delayMs, failure })],
  ["release delayMs", 0, 2_592_000_000, (s, delayMs) => s.release(claim, { delayMs })],
  ["settle delayMs", 0, 2_592_000_000, (s, delayMs) => s.settle([{ action: "release", claim, delayMs }])],
  ["enqueue delayMs", 0, 2_592_000_000, (s, delayMs) => s.enqueue({}, event, { delayMs })],
  ["page limit", 1, 1000, (s, limit) => s.page({ limit })],
  ["page after", 0, Number.MAX_SAFE_INTEGER, (s, after) => s.page({ after })],
  ["list limit", 1, 1000, (s, limit) => s.list({ state: "pending", limit })],
  ["snapshot pageSize", 1, 1000, (s, pageSize) => s.snapshot({ pageSize })],
  ["redrive limit", 1, 1000, (s, limit) => s.redrive({ limit })],
  ["redriveIn limit", 1, 1000, (s, limit) => s.redriveIn({}, { limit })],
  ["prune limit", 1, 1000, (s, limit) => s.prune({ olderThanMs: 1, limit })],
  ["prune olderThanMs", 1, 31_622_400_000, (s, olderThanMs) => s.prune({ olderThanMs })],
  ["stats countLimit", 1, 1_000_000, (s, countLimit) => s.stats({ countLimit })],
  ["row id of inspect", 1, Number.MAX_SAFE_INTEGER, (s, rowId) => s.inspect(rowId)],
  ["row id of redrive", 1, Number.MAX_SAFE_INTEGER, (s, rowId) => s.redrive(rowId as number)],
  [
    "row id of quarantine",
    1,
    Number.MAX_SAFE_INTEGER,
    (s, rowId) => s.quarantine(rowId as number, { reason: "r" }),
  ],
  ["row id of reconcile", 1, Number.MAX_SAFE_INTEGER, (s, rowId) => s.admin().reconcile(rowId)],
  ["row id of a claim", 1, Number.MAX_SAFE_INTEGER, (s, rowId) => s.ack({ ...claim, rowId })],
  ["attempt of a claim", 1, BOUNDS.attempt, (s, attempt) => s.ack({ ...claim, attempt })],
  [
    "maxEventBytes",
    1,
    67_108_864,
    (_, maxEventBytes) => createDovecote(fakeDriver().driver, { maxEventBytes }),
  ],
];

/** Every name that a caller can give, with its length in bytes. */
const names: readonly (readonly [name: string, bytes: number, call: Call])[] = [
  ["worker", 255, (s, worker) => s.claim({ worker, limit: 1 })],
  ["tenant", 255, (s, tenant) => s.tenant(tenant).stats()],
  ["tenant of an admin's enqueue", 255, (s, tenant) => s.admin().enqueue({}, event, { tenant })],
  ["tenant of an admin's list", 255, (s, tenant) => s.admin().list({ state: "pending", tenant })],
];

async function attempt(
  call: Call,
  value: unknown,
): Promise<{ readonly code: string | undefined; readonly calls: number }> {
  const { driver, calls } = fakeDriver();
  const store = createDovecote(driver);
  try {
    await call(store, value as never);
    return { code: undefined, calls: calls.length };
  } catch (error) {
    return { code: (error as DovecoteError).code, calls: calls.length };
  }
}

const REFUSED = { code: "INVALID_ARGUMENT", calls: 0 };

describe("ERR-03: bad arguments are refused before the driver is called", () => {
  describe.each(wholes)("%s", (name, min, max, call) => {
    it.each([min, max])("takes %d, its bound", async (value) => {
      expect(await attempt(call, value)).toMatchObject({ code: undefined });
    });

    // An empty object is the other form of redrive: a filter.
    const wrong = [
      min - 1,
      max + 1,
      Number.NaN,
      Number.POSITIVE_INFINITY,
      -1,
      min + 0.5,
      "5",
      null,
      true,
      [],
      5n,
    ];
    it.each(name === "row id of redrive" ? wrong : [...wrong, {}])("refuses %s", async (value) => {
      expect(await attempt(call, value)).toEqual(REFUSED);
    });
  });

  describe.each(names)("%s", (_name, bytes, call) => {
    it("takes as many bytes as its bound, in every width of UTF-8", async () => {
      expect(await attempt(call, "x".repeat(bytes))).toMatchObject({ code: undefined });
      expect(await attempt(call, `${"é".repeat((bytes - 1) / 2)}x`)).toMatchObject({ code: undefined });
    });

    it.each(["", `x${"é".repeat((bytes + 1) / 2)}`, "x".repeat(bytes + 1), "a\0b", "\ud800", 5, null, {}])(
      "refuses %j",
      async (value) => {
        expect(await attempt(call, value)).toEqual(REFUSED);
      },
    );
  });

  it.each([
    ["no token", { rowId: 1, attempt: 1 }],
    ["a short token", { ...claim, token: TOKEN.slice(1) }],
    ["a long token", { ...claim, token: `${TOKEN}0` }],
    ["upper case", { ...claim, token: TOKEN.toUpperCase() }],
    ["bytes", { ...claim, token: new Uint8Array(16) }],
    ["an object that reveals a number", { ...claim, token: { reveal: () => 5 } }],
    ["null", null],
    ["undefined", undefined],
    ["a row id", 17],
    ["an empty list", []],
    ["1001 claims", Array.from({ length: 1001 }, () => claim)],
    ["a list with a hole", [claim, undefined]],
  ])("refuses %s as a claim", async (_what, value) => {
    for (const call of [
      (s, given) => s.ack(given),
      (s, given) => s.renew(given),
      (s, given) => s.release(given),
      (s, given) => s.retry(given, { failure }),
    ] satisfies Call[]) {
      expect(await attempt(call, value)).toEqual(REFUSED);
    }
  });

  it.each([
    ["a misspelt option of claim", (s) => s.claim({ worker: "w", leaseMS: 5 } as never)],
    ["no options for claim", (s) => s.claim(undefined as never)],
    ["a stream with a slash", (s) => s.claim({ worker: "w", stream: "a/b" })],
    ["shared: 1", (s) => s.claim({ worker: "w", shared: 1 as never })],
    ["a renewal that would share", (s) => s.renew(claim, { shared: true as never })],
    ["no failure for retry", (s) => s.retry(claim, {} as never)],
    ["a failure without detail", (s) => s.retry(claim, { failure: { code: "c" } as never })],
    ["a failure that is an Error", (s) => s.retry(claim, { failure: new Error("x") as never })],
    ["no reason for quarantine", (s) => s.quarantine(claim, {} as never)],
    ["a failure for a pending row", (s) => s.quarantine(1, { reason: "r", failure })],
    ["an unknown action", (s) => s.settle([{ action: "toString", claim } as never])],
    ["a member of another action", (s) => s.settle([{ action: "ack", claim, delayMs: 5 } as never])],
    ["a batch that is no list", (s) => s.settle({ action: "ack", claim } as never)],
    ["an empty batch", (s) => s.settle([])],
    ["an unknown state", (s) => s.list({ state: "open" as never })],
    ["a cursor of another kind", (s) => s.list({ state: "pending", before: "17" })],
    ["a cursor with a huge time", (s) => s.list({ state: "pending", before: "9999999999999999.1" })],
    ["a signal that is none", (s) => s.tail({ signal: {} as never })],
    ["a listener that is none", (s) => s.subscribe("x" as never)],
    ["a transaction without a callback", (s) => s.transaction("x" as never)],
    ["an admin's list of nobody", (s) => s.admin().list({ state: "pending" } as never)],
    [
      "an admin's list of one and all",
      (s) => s.admin().list({ state: "pending", tenant: "a", all: true } as never),
    ],
    ["all: false", (s) => s.admin().prune({ olderThanMs: 1, all: false } as never)],
    ["an admin's enqueue of nobody", (s) => s.admin().enqueue({}, event, {} as never)],
    ["a tenant's list with a tenant", (s) => s.list({ state: "pending", tenant: "b" } as never)],
    ["events that are no list", (s) => s.enqueueMany({}, event as never)],
    ["no events", (s) => s.enqueueMany({}, [])],
    [
      "1001 events",
      (s) =>
        s.enqueueMany(
          {},
          Array.from({ length: 1001 }, () => event),
        ),
    ],
    ["an unknown option of the store", () => createDovecote(fakeDriver().driver, { max: 1 } as never)],
    ["a redaction that is none", () => createDovecote(fakeDriver().driver, { redact: "x" as never })],
  ] satisfies (readonly [string, (s: Dovecote<unknown, true>) => unknown])[])(
    "refuses %s",
    async (_what, call) => {
      expect(await attempt(call as Call, undefined)).toEqual(REFUSED);
    },
  );

  it("says which argument was wrong, and never shows a token", async () => {
    const store = createDovecote(fakeDriver().driver);
    await expect(store.claim({ worker: "w", limit: 1001 })).rejects.toMatchObject({
      path: "options.limit",
      message: "options.limit must be a whole number from 1 to 1000, got 1001",
    });
    const almost = TOKEN.toUpperCase();
    const error = await store.ack({ ...claim, token: almost }).catch((caught: unknown) => caught);
    expect(error).toMatchObject({ path: "claim.token" });
    expect(String(error)).not.toContain(almost);
  });
});
