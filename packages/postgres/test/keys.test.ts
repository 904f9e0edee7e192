/** The keys of the driver itself: what its statements do with a real clock and real locks. */
import { randomBytes } from "node:crypto";
import type { Answer, BeginKey } from "@dovecote/core";
import { describe, expect, it, onTestFinished } from "vitest";
import { PostgresDriver } from "../src/driver.ts";
import { migrated, refused, until } from "./support.ts";

const ANSWER: Answer = { status: 201, headers: '[["a","b"]]', body: Uint8Array.of(0, 255) };

function request(overrides: Partial<BeginKey> = {}): BeginKey {
  return {
    tenant: "acme",
    scope: new Uint8Array(32).fill(1),
    key: new Uint8Array(32).fill(2),
    principal: new Uint8Array(32).fill(3),
    token: new Uint8Array(randomBytes(16)),
    fingerprint: { algorithm: "json-1", digest: new Uint8Array(32) },
    leaseMs: 60_000,
    takeover: "rerun",
    retentionMs: 60_000,
    tombstoneMs: 0,
    ...overrides,
  };
}

async function driven() {
  const { sql, schema, other } = await migrated();
  const driver = new PostgresDriver({ client: sql, ownsClient: false, schema });
  const shift = async (ms: number): Promise<void> => {
    const interval = `${ms} milliseconds`;
    await other`update ${other(schema)}.dovecote_idempotency_keys set claim_expires_at = claim_expires_at - ${interval}::interval,
      completed_at = completed_at - ${interval}::interval, sweep_at = sweep_at - ${interval}::interval`;
  };
  return { sql, driver, keys: driver.keys, shift };
}

describe("KEY-01, KEY-02: a record from its claim to its answer", () => {
  it("is acquired once, in flight for others, and replayed", async () => {
    const { keys } = await driven();
    const mine = request();
    expect(await keys.begin(mine)).toMatchObject({ outcome: "acquired", attempt: 1, takenOver: false });
    expect(await keys.begin(mine)).toMatchObject({ outcome: "acquired", attempt: 1 }); // KEY-14
    const second = await keys.begin(request());
    expect(second).toMatchObject({ outcome: "inFlight" });
    expect(await keys.renew({ ...mine, token: new Uint8Array(16) }, 1000)).toEqual({ outcome: "lostClaim" });
    expect(await keys.renew(mine, 120_000)).toMatchObject({ outcome: "applied" });
    expect(await keys.complete(mine, ANSWER)).toEqual({ outcome: "applied" });
    expect(await keys.complete(mine, ANSWER)).toEqual({ outcome: "illegalTransition" });
    expect(await keys.begin(request())).toMatchObject({ outcome: "replay", answer: ANSWER });
    const other = { algorithm: "json-1", digest: new Uint8Array(32).fill(1) };
    expect(await keys.begin(request({ fingerprint: other }))).toEqual({ outcome: "mismatch" });
    expect(await keys.begin(request({ tenant: "other", key: new Uint8Array(32).fill(9) }))).toMatchObject({
      outcome: "acquired",
    });
  });

  it("is taken over when its lease is over, and then refuses its first holder", async () => {
    const { keys, shift } = await driven();
    const [first, second] = [request(), request()];
    await keys.begin(first);
    await shift(60_000);
    expect(await keys.begin(second)).toMatchObject({ outcome: "acquired", attempt: 2, takenOver: true });
    for (const outcome of [
      await keys.complete(first, ANSWER),
      await keys.release(first),
      await keys.renew(first, 1),
    ]) {
      expect(outcome).toEqual({ outcome: "lostClaim" });
    }
    expect(await keys.release(second)).toEqual({ outcome: "applied" });
    expect(await keys.release(second)).toEqual({ outcome: "notFound" });
  });

  it("stays with an operator if it refuses", async () => {
    const { keys, shift } = await driven();
    const mine = request({ takeover: "refuse" });
    await keys.begin(mine);
    expect(await keys.resolve(mine, "completed")).toEqual({ outcome: "illegalTransition" });
    await shift(60_000);
    expect(await keys.begin(request())).toMatchObject({ outcome: "indeterminate" });
    expect(await keys.listStuck(null, 10)).toMatchObject([{ state: "indeterminate", attempt: 1 }]);
    expect(await keys.sweep(null, 10)).toBe(0);
    expect(await keys.resolve(mine, "completed")).toEqual({ outcome: "applied" });
    expect(await keys.begin(request())).toMatchObject({
      outcome: "unreplayable",
      answer: { reason: "resolved", status: null },
    });
    expect(await keys.forget("acme", new Uint8Array(32).fill(3), 10)).toBe(1);
    expect(await keys.inspect(mine)).toBeNull();
  });

  it("becomes a tombstone, then nothing, swept or not", async () => {
    const { keys, shift } = await driven();
    const mine = request({ tombstoneMs: 60_000 });
    await keys.begin(mine);
    await keys.complete(mine, { reason: "a stream", status: 200 });
    await shift(60_000);
    expect(await keys.begin(request())).toMatchObject({ outcome: "expired" });
    await shift(60_000);
    expect(await keys.inspect(mine)).toBeNull();
    expect(await keys.begin(request())).toMatchObject({ outcome: "acquired", attempt: 1, takenOver: false });
    await shift(180_000);
    expect(await keys.sweep("other", 10)).toBe(0);
    expect(await keys.sweep(null, 10)).toBe(1);
  });
});

describe("KEY-06, KEY-08: in the business transaction", () => {
  it("a held record is nobody else's until the transaction ends, however long its lease is over", async () => {
    const { sql, keys } = await driven();
    for (const takeover of ["rerun", "refuse"] as const) {
      const mine = request({ takeover, leaseMs: 500, key: new Uint8Array(randomBytes(32)) });
      const rival = { ...mine, token: new Uint8Array(randomBytes(16)) };
      await keys.begin(mine);
      await sql.begin(async (tx) => {
        expect(await keys.holdIn(tx, rival)).toEqual({ outcome: "lostClaim" });
        expect(await keys.holdIn(tx, mine)).toEqual({ outcome: "applied" });
        await until(async () => (await keys.inspect(mine))?.state !== "inFlight");
        expect(await keys.begin(rival)).toEqual({ outcome: "inFlight", remainingMs: null });
        expect(await keys.sweep(null, 10)).toBe(0);
        expect(await keys.completeIn(tx, mine, ANSWER)).toEqual({ outcome: "lostClaim" });
        expect(await keys.completeHeldIn(tx, mine, ANSWER)).toEqual({ outcome: "applied" });
      });
      expect(await keys.begin(rival)).toMatchObject({ outcome: "replay", answer: ANSWER });
    }
  });

  it("INBOX-01: one of two marks is the first", async () => {
    const { sql, keys } = await driven();
    const mark = { tenant: "acme", consumer: "c", event: new Uint8Array(32).fill(7), retentionMs: 60_000 };
    expect(await sql.begin((tx) => keys.markIn(tx, mark))).toBe("first");
    expect(await sql.begin((tx) => keys.markIn(tx, mark))).toBe("seen");
  });
});

describe("KEY-08: a hold is good for its transaction alone", () => {
  async function held(afterwards: string) {
    const { sql, keys } = await driven();
    const mine = request();
    await keys.begin(mine);
    const connection = await sql.reserve();
    onTestFinished(() => connection.release());
    await connection.unsafe("begin");
    await connection.unsafe("savepoint before");
    expect(await keys.holdIn(connection, mine)).toEqual({ outcome: "applied" });
    await connection.unsafe(afterwards);
    return { keys, mine, connection };
  }

  it.each([
    ["a commit", "commit"],
    ["a rollback", "rollback"],
    ["a commit, in the next transaction on the same connection", "commit; begin"],
    ["a rollback to a savepoint before it", "rollback to savepoint before"],
  ])("it is TX_CLOSED after %s, and nothing is written", async (_what, afterwards) => {
    const { keys, mine, connection } = await held(afterwards);
    await refused("TX_CLOSED", () => keys.completeHeldIn(connection, mine, ANSWER));
    await connection.unsafe("rollback");
    expect(await keys.begin(request())).toMatchObject({ outcome: "inFlight" });
  });

  it("it outlives a savepoint that was made after it", async () => {
    const { keys, mine, connection } = await held("savepoint later; rollback to savepoint later");
    expect(await keys.completeHeldIn(connection, mine, ANSWER)).toEqual({ outcome: "applied" });
    await connection.unsafe("commit");
    expect(await keys.begin(request())).toMatchObject({ outcome: "replay" });
  });
});

it("stuck claims of all tenants come longest first, and no more than were asked for", async () => {
  const { keys, shift } = await driven();
  for (const tenant of ["b", "a", "c", "a", "b"]) {
    await keys.begin(request({ tenant, key: new Uint8Array(randomBytes(32)), takeover: "refuse" }));
    await shift(60_000);
  }
  await keys.begin(request({ tenant: "a" }));
  const tenantsOf = async (tenant: string | null, limit: number) =>
    (await keys.listStuck(tenant, limit)).map((record) => record.tenant);
  expect(await tenantsOf(null, 10)).toEqual(["b", "a", "c", "a", "b"]);
  expect(await tenantsOf(null, 2)).toEqual(["b", "a"]);
  expect(await tenantsOf("a", 10)).toEqual(["a", "a"]);
  expect(await tenantsOf("nobody", 10)).toEqual([]);
});
