/** What an application's connection may be like, beyond what a harness can say. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, expect, test } from "vitest";
import { hasTransaction } from "../src/client.ts";
import { type NodeSqliteDovecote, nodeSqlite } from "../src/index.ts";

const EVENT = { stream: "orders", source: "/shop", type: "order.placed", data: { id: 17 } };

let folder: string;
let store: NodeSqliteDovecote;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "node-sqlite-driver-"));
  store = nodeSqlite(join(folder, "shop.db"));
  await store.migrate();
});

afterEach(async () => {
  await store.close();
  rmSync(folder, { recursive: true });
});

test("TX-05: an open transaction is recognised without `isTransaction`, as before Node 22.16", () => {
  const db = new DatabaseSync(":memory:");
  const older = { exec: (sql: string): void => db.exec(sql) };
  expect(hasTransaction(older)).toBe(false);
  expect(db.isTransaction).toBe(false);
  db.exec("begin; create table kept (id integer)");
  expect(hasTransaction(older)).toBe(true);
  db.exec("commit");
  expect(db.prepare("select count(*) as n from kept").get()?.n).toBe(0);
  db.close();
});

test("LIFE-04: a connection with defaults of its own can be handed over, and keeps them", () => {
  const options = { readBigInts: true, returnArrays: true, allowBareNamedParameters: false };
  const db = new DatabaseSync(join(folder, "shop.db"), options);
  db.exec("begin immediate");
  expect(store.enqueue(db, EVENT)).toMatchObject({ outcome: "enqueued", rowId: 1 });
  db.exec("commit");
  expect(db.prepare("select 1").all()).toEqual([[1n]]);
  db.close();
});

test("TX-01: inside a transaction of the store, its connection serves the application's own statements", async () => {
  await store.transaction((tx) => {
    tx.client.exec("create table orders (id integer primary key)");
    tx.client.prepare("insert into orders (id) values (?)").run(17);
    store.enqueue(tx, EVENT);
  });
  const db = new DatabaseSync(join(folder, "shop.db"));
  expect(db.prepare("select id from orders").get()?.id).toBe(17);
  db.close();
  expect((await store.stats()).due.count).toBe(1);
});

test("TX-07: inside a transaction of the store, every call that is no part of it is TX_OPEN", async () => {
  const calls: Promise<unknown>[] = [];
  await store.transaction(() => {
    calls.push(store.migrate(), store.checkSchema(), store.snapshot(), store.page());
    calls.push(store.transaction(() => {}));
    for (const call of calls) call.catch(() => {});
  });
  for (const call of calls) await expect(call).rejects.toMatchObject({ code: "TX_OPEN" });
});

test("a transaction of another file is TX_FOREIGN", () => {
  const db = new DatabaseSync(join(folder, "other.db"));
  db.exec("begin");
  expect(() => store.enqueue(db, EVENT)).toThrow(expect.objectContaining({ code: "TX_FOREIGN" }));
  db.close();
});

test("ID-08: a row id beyond 2^53 is refused, never rounded, and nothing is written", async () => {
  const db = new DatabaseSync(join(folder, "shop.db"));
  db.exec("insert into sqlite_sequence (name, seq) values ('outbox_events', 9007199254740993)");
  db.exec("begin immediate");
  expect(() => store.enqueue(db, EVENT)).toThrow(expect.objectContaining({ code: "COUNTER_OVERFLOW" }));
  db.exec("commit");
  db.close();
  expect((await store.page()).entries).toEqual([]);
});

test("only a file can be a store", () => {
  for (const path of [":memory:", ""]) {
    expect(() => nodeSqlite(path)).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT" }));
  }
  const nowhere = join(folder, "missing", "shop.db");
  expect(() => nodeSqlite(nowhere)).toThrow(expect.objectContaining({ code: "STORE_UNAVAILABLE" }));
});
