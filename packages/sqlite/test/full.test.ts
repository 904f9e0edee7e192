import type Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { contents, count, dropSchema, enqueued, event, ids, migrated, refused } from "./support.ts";

/** No page can be added from now on. What is free in the pages that are there stays usable. */
function fill(db: Database.Database): void {
  db.pragma(`max_page_count = ${db.pragma("page_count", { simple: true })}`);
}

function mend(db: Database.Database): void {
  db.pragma("max_page_count = 1000000");
}

const big = (id: string) => event({ id, data: "x".repeat(40_000) });

describe("a full disk", () => {
  it("TX-02: refuses an enqueue, and nothing is left after the caller's rollback", async () => {
    const { db, other, dovecote } = await migrated();
    fill(db);
    const before = contents(other);
    db.exec("begin immediate");
    db.prepare("insert into business (id) values ('mine')").run();
    await refused("STORE_FULL", () => dovecote.enqueue(db, big("big")));
    if (db.inTransaction) db.exec("rollback"); // SQLite may have done it
    expect(contents(other)).toEqual(before);

    mend(db);
    db.transaction(() => dovecote.enqueue(db, big("big"))).immediate();
    expect(ids(other)).toEqual(["big"]);
    expect(await dovecote.claim({ worker: "w" })).toHaveLength(1);
  });

  it("an error that is not retryable, with the native code as its cause", async () => {
    const { db, dovecote } = await migrated();
    fill(db);
    db.exec("begin immediate");
    const error = await refused("STORE_FULL", () => dovecote.enqueue(db, big("big")));
    expect(error.retryable).toBe(false);
    expect(error.cause).toMatchObject({ code: "SQLITE_FULL" });
    if (db.inTransaction) db.exec("rollback");
  });

  it("TX-10: leaves nothing of a batch half-way, although the caller catches the error and commits", async () => {
    const { db, other, dovecote } = await migrated();
    db.pragma(`max_page_count = ${Number(db.pragma("page_count", { simple: true })) + 25}`);
    // The first two find room, the third does not.
    const batch = () => [big("big-1"), big("big-2"), big("big-3"), event({ id: "last" })];
    const attempt = db.transaction(() => {
      db.prepare("insert into business (id) values ('mine')").run();
      dovecote.enqueue(db, event({ id: "before" }));
      expect(() => dovecote.enqueueMany(db, batch())).toThrow("full");
      // SQLite itself has ended the transaction: nothing can slip in after it, nor be committed.
      expect(db.inTransaction).toBe(false);
      expect(() => dovecote.enqueue(db, event({ id: "after" }))).toThrow("none is open");
    });
    expect(() => attempt.immediate()).toThrow("no transaction is active");
    expect(ids(other)).toEqual([]);
    expect(count(other, "dovecote_deliveries")).toBe(0);
    expect(count(other, "business")).toBe(0);
    mend(db);
    db.transaction(() => dovecote.enqueueMany(db, batch())).immediate();
    expect(ids(other)).toEqual(["big-1", "big-2", "big-3", "last"]);
  });

  it("CLAIM-14: a claim takes nothing, and works later", async () => {
    const { db, other, dovecote } = await migrated();
    enqueued(db, dovecote, 500);
    fill(db);
    const before = contents(other);
    // A long name makes every row grow.
    const claim = () => dovecote.claim({ worker: "w".repeat(255), limit: 500 });
    await refused("STORE_FULL", claim);
    expect(contents(other)).toEqual(before);
    expect(db.inTransaction).toBe(false);
    mend(db);
    expect(await claim()).toHaveLength(500);
  });

  it("a settlement changes nothing, and works later", async () => {
    const { db, other, dovecote } = await migrated();
    enqueued(db, dovecote, 200);
    const claims = await dovecote.claim({ worker: "w", limit: 200 });
    fill(db);
    const before = contents(other);
    const quarantine = () => dovecote.quarantine(claims, { reason: "r".repeat(2048) });
    await refused("STORE_FULL", quarantine);
    expect(contents(other)).toEqual(before);
    expect(db.inTransaction).toBe(false);
    mend(db);
    expect((await quarantine()).every(({ outcome }) => outcome === "applied")).toBe(true);
  });

  it("rolls a transaction of ours back whole", async () => {
    const { db, other, dovecote } = await migrated();
    fill(db);
    const before = contents(other);
    const call = dovecote.transaction((tx) => {
      tx.client.prepare("insert into business (id) values ('mine')").run();
      return dovecote.enqueue(tx, big("big"));
    });
    await refused("STORE_FULL", () => call);
    expect(contents(other)).toEqual(before);
    mend(db);
    await dovecote.transaction((tx) => dovecote.enqueue(tx, big("big")));
    expect(ids(other)).toEqual(["big"]);
  });

  it("a migration that finds no room leaves no table", async () => {
    const { db, other, ...space } = await migrated();
    dropSchema(db);
    db.exec("vacuum");
    fill(db);
    const store = space.store(db);
    await refused("STORE_FULL", () => store.migrate());
    expect(contents(other)).toEqual([["business", []]]);
    mend(db);
    expect((await store.migrate()).applied).toEqual([1, 2]);
  });
});
