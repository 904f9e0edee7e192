/** From version 1 to version 2, with rows in the tables and with programs at work that know version 1 alone. */
import { assertSchemaUsable, type SchemaNeeds } from "@dovecote/core";
import type Database from "better-sqlite3";
import { assert, describe, expect, it } from "vitest";
import { Connection } from "../src/connection.ts";
import { schemaSql } from "../src/index.ts";
import { outbox } from "../src/migrations/0001-outbox.ts";
import { idempotency } from "../src/migrations/0002-idempotency.ts";
import { inspect, page, stats } from "../src/read.ts";
import { readMarker } from "../src/schema.ts";
import { STATEMENTS } from "../src/statements.ts";
import { createSpace, event, JOINING, LIFECYCLE, refused, type Space, type Store } from "./support.ts";

/** What code of version 1 says that it needs. */
const NEEDS_1: SchemaNeeds = { version: 1, needed: 1 };
const SCOPE = { principal: "user-1", method: "POST", path: "/payments" };
const REQUEST = {
  scope: SCOPE,
  key: "key",
  fingerprint: { algorithm: "json-1", digest: new Uint8Array(32) },
  takeover: "rerun",
} as const;
const RESPONSE = { status: 201, body: "paid" };
const CLAIM = {
  tenant: "default",
  scopeDigest: "0".repeat(64),
  keyDigest: "0".repeat(64),
  token: "0".repeat(32),
};
const ONCE = { consumer: "c", event: { source: "/shop", id: "1" } };

interface Version1 extends Space {
  /** The connection of `dovecote`, which is of this code and has not looked at the schema yet. */
  readonly db: Database.Database;
  readonly dovecote: Store;
  /** Of version 1, and open. */
  readonly old: Store;
  /** Whose transactions are the application's. */
  readonly oldDb: Database.Database;
  readonly other: Database.Database;
}

/** A database that the first migration made, with events of every kind in every state. */
async function version1(): Promise<Version1> {
  const space = createSpace();
  const other = space.open();
  other.pragma("journal_mode = wal");
  other.exec(outbox.sql);
  other.exec(`create table business (id text primary key);
    insert into dovecote_schema (id, version, requires) values (1, 2, 1)`);
  // What a store of this code does when it has once looked at the marker, code of version 1 does as well.
  const oldDb = space.open();
  const old = space.store(oldDb, { busyBudgetMs: 600_000 });
  await old.stats();
  other.exec("update dovecote_schema set version = 1, requires = 1");
  await inEveryState(old, oldDb, other);
  const db = space.open();
  return { ...space, db, dovecote: space.store(db, { busyBudgetMs: 600_000 }), old, oldDb, other };
}

async function inEveryState(old: Store, db: Database.Database, other: Database.Database): Promise<void> {
  const enqueue = (overrides: Parameters<typeof event>[0]) =>
    db.transaction(() => old.enqueue(db, event(overrides))).immediate();
  const claimed = async (id: string) => {
    enqueue({ id });
    const [claim] = await old.claim({ worker: `of ${id}`, leaseMs: 24 * 60 * 60 * 1000 });
    assert(claim);
    return claim;
  };
  const failure = { code: "http-500", detail: "it's broken" };
  await old.ack(await claimed("delivered"));
  await old.quarantine(await claimed("quarantined"), { reason: "spoiled", failure });
  await old.release([await claimed("released")], { delayMs: 60_000 });
  await old.retry(await claimed("retried"), { failure, delayMs: 60_000 });
  await claimed("claimed");
  const { rowId } = await claimed("expired");
  other.prepare("update dovecote_deliveries set claim_expires_at = 1 where event_row_id = ?").run(rowId);
  enqueue({ id: "absent", data: undefined });
  enqueue({ id: "binary", data: Uint8Array.of(0, 255, 10), subject: "ü 🕊", partitionkey: "p" });
  enqueue({ id: "text", data: "two\nlines", datacontenttype: "text/plain", extensions: { shop: "a", n: 1 } });
}

const EVERYTHING = { tenant: null, stream: null, after: 0, upTo: null, limit: 1000 };
const TABLES_1 = ["dovecote_events", "dovecote_deliveries"];

/** Every value with its type, and where each table and index of version 1 is in the file. */
function bytes(other: Database.Database): unknown {
  const rows = TABLES_1.map((table) => {
    const columns = other.prepare("select name from pragma_table_info(?)").pluck().all(table) as string[];
    const values = columns.map((column) => `typeof(${column}) || ' ' || quote(${column})`).join(", ");
    return other.prepare(`select rowid, ${values} from ${table} order by rowid`).raw().all();
  });
  const objects = other
    .prepare(`select type, name, tbl_name, rootpage, sql from sqlite_schema
      where tbl_name in ('dovecote_events', 'dovecote_deliveries') order by name`)
    .all();
  const drawn = other.prepare("select * from sqlite_sequence order by name").all();
  return [...rows, objects, drawn];
}

function markerOf(other: Database.Database): unknown {
  return other.prepare("select id, version, requires from dovecote_schema").all();
}

/** Everything that a program of version 1 does, in one go, and as it starts. */
async function oldWork({ old, other }: Version1, name: string): Promise<void> {
  assertSchemaUsable(readMarker(other), NEEDS_1);
  const scope = old.tenant(name);
  const ids = ["1", "2", "3", "4"].map((id) => `${name}-${id}`);
  await old.transaction((tx) => {
    tx.client.prepare("insert into business (id) values (?)").run(name);
    scope.enqueueMany(
      tx,
      ids.map((id) => event({ id })),
    );
  });
  const claims = await scope.claim({ worker: "old", limit: 4 });
  expect(claims).toMatchObject(ids.map((id) => ({ event: { id } })));
  const [acked, retried, quarantined, released] = claims;
  assert(acked && retried && quarantined && released);
  await scope.renew(claims, { leaseMs: 60_000 });
  await scope.ack(acked);
  await scope.retry(retried, { failure: { code: "c", detail: "d" }, delayMs: 0 });
  await scope.quarantine(quarantined, { reason: "r" });
  await scope.release([released]);
  await scope.redrive(quarantined.rowId);
  const again = await scope.claim({ worker: "old", limit: 4 });
  expect(await scope.ack(again)).toEqual([
    { outcome: "applied" },
    { outcome: "applied" },
    { outcome: "applied" },
  ]);
  expect((await scope.page()).entries.map(({ delivery }) => delivery.state)).toEqual(
    ids.map(() => "delivered"),
  );
  expect(await scope.stats()).toMatchObject({ due: { count: 0 }, claimed: { count: 0 } });
}

type Call = readonly [name: string, call: (store: Store, db: Database.Database) => unknown];

const KEYS: readonly Call[] = [
  ["begin", ({ keys }) => keys.begin(REQUEST)],
  ["run", ({ keys }) => keys.run(REQUEST, () => expect.unreachable())],
  ["complete", ({ keys }) => keys.complete(CLAIM, RESPONSE)],
  ["renew", ({ keys }) => keys.renew(CLAIM)],
  ["release", ({ keys }) => keys.release(CLAIM)],
  ["inspect", ({ keys }) => keys.inspect({ scope: SCOPE, key: "key" })],
  ["list", ({ keys }) => keys.list({ stuck: true })],
  ["sweep", ({ keys }) => keys.sweep()],
  ["forget", ({ keys }) => keys.forget({ principal: "user-1" })],
];

const KEYS_JOINING: readonly Call[] = [
  ["hold", ({ keys }, db) => keys.hold(db, CLAIM)],
  ["complete in a transaction", ({ keys }, db) => keys.complete(CLAIM, RESPONSE, db)],
  ["once", ({ inbox }, db) => inbox.once(db, ONCE, () => expect.unreachable())],
];

describe("SCHEMA-05: this code on a schema of version 1", () => {
  it("is SCHEMA_TOO_OLD before anything is read or written, until it is migrated", async () => {
    const { db, dovecote, other } = await version1();
    const before = [bytes(other), markerOf(other)];
    for (const [name, call] of [...LIFECYCLE, ...KEYS]) {
      const { retryable } = await refused("SCHEMA_TOO_OLD", () => call(dovecote, db), name);
      expect(retryable).toBe(false);
    }
    for (const [name, call] of [...JOINING, ...KEYS_JOINING]) {
      db.exec("begin");
      await refused("SCHEMA_TOO_OLD", () => call(dovecote, db), name);
      db.exec("commit");
    }
    expect(await dovecote.checkSchema()).toEqual({ status: "tooOld", version: 1, findings: [] });
    expect([bytes(other), markerOf(other)]).toEqual(before);
    await dovecote.migrate();
    expect(await dovecote.checkSchema()).toEqual({ status: "ok", version: 2, findings: [] });
    expect(await dovecote.keys.run(REQUEST, () => RESPONSE)).toMatchObject({ outcome: "completed" });
    expect(await dovecote.keys.begin(REQUEST)).toMatchObject({ outcome: "replay" });
  });
});

describe("the second migration", () => {
  it("touches no byte of version 1, and asks no newer code than that of those who write", async () => {
    const { dovecote, other } = await version1();
    const before = bytes(other);
    expect(await dovecote.migrate()).toEqual({ applied: [2], version: 2 });
    expect(bytes(other)).toEqual(before);
    expect(markerOf(other)).toEqual([{ id: 1, version: 2, requires: 1 }]);
    expect(await dovecote.migrate()).toEqual({ applied: [], version: 2 });
    expect(bytes(other)).toEqual(before);
  });

  it("by hand, from schemaSql, is the same", async () => {
    const { dovecote, db, other } = await version1();
    const before = bytes(other);
    db.transaction(() => db.exec(schemaSql)).immediate();
    expect(bytes(other)).toEqual(before);
    expect(markerOf(other)).toEqual([{ id: 1, version: 2, requires: 1 }]);
    expect(await dovecote.checkSchema()).toEqual({ status: "ok", version: 2, findings: [] });
  });

  it("lets code of version 1 read while it runs and write when it is done", async () => {
    const space = await version1();
    const { db, dovecote, open } = space;
    await oldWork(space, "before");
    // A program that reads, and one that has begun to: neither is in its way.
    const reader = open();
    reader.exec("begin");
    const count = () => reader.prepare("select count(*) from dovecote_events").pluck().get();
    const counted = count();
    // What a store reads with, on a connection of its own.
    const reading = new Connection(open(), STATEMENTS);
    const read = () => [
      page(reading, EVERYTHING),
      inspect(reading, null, 1),
      stats(reading, null, 100).due.count,
    ];
    const before = read();
    const during: Promise<void>[] = [];
    const exec = db.exec.bind(db);
    db.exec = (sql) => {
      exec(sql);
      if (sql !== idempotency.sql) return db;
      expect(markerOf(reader)).toEqual([{ id: 1, version: 1, requires: 1 }]);
      expect(read()).toEqual(before);
      // It makes its first attempt at once, and waits for the migration's commit.
      during.push(oldWork(space, "during"));
      return db;
    };
    expect(await dovecote.migrate()).toEqual({ applied: [2], version: 2 });
    expect(during).toHaveLength(1);
    await Promise.all(during);
    expect(count()).toBe(counted);
    reader.exec("commit");
    await oldWork(space, "after");
    expect(await dovecote.checkSchema()).toEqual({ status: "ok", version: 2, findings: [] });
  });

  it("both versions work beside each other on the same rows", async () => {
    const space = await version1();
    const { db, dovecote, old, oldDb } = space;
    await dovecote.migrate();
    const [of, ofOld] = [dovecote.tenant("acme"), old.tenant("acme")];
    db.transaction(() => of.enqueue(db, event())).immediate();
    oldDb.transaction(() => ofOld.enqueue(oldDb, event())).immediate();
    const [byOld] = await ofOld.claim({ worker: "old", limit: 1 });
    const [byNew] = await of.claim({ worker: "new", limit: 1 });
    assert(byOld && byNew);
    await of.ack(byOld);
    await ofOld.ack(byNew);
    expect(await dovecote.keys.run(REQUEST, () => RESPONSE)).toMatchObject({ outcome: "completed" });
    await oldWork(space, "after");
  });
});
