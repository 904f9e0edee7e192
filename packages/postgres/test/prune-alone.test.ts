/** The housekeeping of relays: one at a time, by a lock that ends with the transaction. */
import { expect, it } from "vitest";
import { PostgresDriver } from "../src/driver.ts";
import { event, migrated } from "./support.ts";

it("SETTLE-07: a prune that is to be alone does nothing while another one is at it, and a plain one does", async () => {
  const { sql, other, schema, dovecote } = await migrated({ max: 2 });
  await dovecote.transaction((tx) => dovecote.enqueueMany(tx, [event("1"), event("2")]));
  await dovecote.ack(await dovecote.claim({ worker: "w" }));
  await other`update ${other(schema)}.dovecote_deliveries set delivered_at = delivered_at - interval '1 hour'`;
  const driver = new PostgresDriver({ client: sql, ownsClient: false, schema });
  const prune = (alone: boolean): Promise<number | "busy"> =>
    driver.prune({ tenant: null, olderThanMs: 60_000, quarantined: true, limit: 1, alone });
  await other.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(hashtextextended(${`dovecote.prune ${schema}`}, 0))`;
    expect(await prune(true)).toBe("busy");
    expect(await prune(false)).toBe(1);
  });
  expect(await prune(true)).toBe(1);
  expect(await prune(true)).toBe(0);
  // Nothing of the lock outlives its transaction.
  const [lock] = await other`
    select pg_try_advisory_xact_lock(hashtextextended(${`dovecote.prune ${schema}`}, 0)) as free`;
  expect(lock?.free).toBe(true);
});

it("SETTLE-07: stores in two schemas do not wait for one another", async () => {
  const [one, two] = [await migrated({ max: 1 }), await migrated({ max: 1 })];
  await one.other.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(hashtextextended(${`dovecote.prune ${one.schema}`}, 0))`;
    const driver = new PostgresDriver({ client: two.sql, ownsClient: false, schema: two.schema });
    const request = { tenant: null, olderThanMs: 1, quarantined: false, limit: 1, alone: true };
    expect(await driver.prune(request)).toBe(0);
  });
});
