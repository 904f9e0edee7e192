import { existsSync } from "node:fs";
import type Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { sqlite } from "../src/index.ts";
import { createSpace, enqueued, event, ids, JOINING, LIFECYCLE, migrated, refused } from "./support.ts";

const SETTINGS = [
  "busy_timeout",
  "journal_mode",
  "foreign_keys",
  "synchronous",
  "cache_size",
  "temp_store",
  "locking_mode",
  "wal_autocheckpoint",
  "journal_size_limit",
  "recursive_triggers",
  "secure_delete",
  "query_only",
  "defer_foreign_keys",
  "ignore_check_constraints",
  "max_page_count",
] as const;

const settingsOf = (db: Database.Database) =>
  SETTINGS.map((name) => [name, db.pragma(name, { simple: true })]);

describe("LIFE-04: a client that was passed in", () => {
  /** A client with settings that are nobody's default. */
  async function peculiar() {
    const space = await migrated();
    const db = space.open();
    db.pragma("busy_timeout = 4321");
    db.pragma("foreign_keys = off");
    db.pragma("synchronous = off");
    db.pragma("cache_size = 77");
    db.pragma("temp_store = memory");
    db.pragma("wal_autocheckpoint = 7");
    db.pragma("recursive_triggers = on");
    db.pragma("journal_size_limit = 12345");
    const [rowId] = enqueued(db, space.dovecote);
    return { ...space, db, rowId, dovecote: space.store(db, { busyBudgetMs: 5 }), before: settingsOf(db) };
  }

  it.each(LIFECYCLE)("keeps its settings through %s", async (_name, call) => {
    const { db, dovecote, before } = await peculiar();
    await call(dovecote).catch(() => {});
    expect(settingsOf(db)).toEqual(before);
  });

  it.each(LIFECYCLE)("keeps its settings through %s when the database is locked", async (_name, call) => {
    const { db, dovecote, other, before } = await peculiar();
    other.exec("begin immediate");
    await call(dovecote).catch(() => {});
    expect(settingsOf(db)).toEqual(before);
  });

  it("keeps its settings through migrate, checkSchema, transactions and close", async () => {
    const { db, dovecote, before } = await peculiar();
    await dovecote.migrate();
    await dovecote.checkSchema();
    await dovecote.transaction((tx) => dovecote.enqueue(tx, event()));
    await dovecote.transaction(() => Promise.reject(new Error("late"))).catch(() => {});
    await dovecote
      .transaction(() => {
        throw new Error("mine");
      })
      .catch(() => {});
    expect(settingsOf(db)).toEqual(before);
    await dovecote.close();
    expect(settingsOf(db)).toEqual(before);
  });

  it("keeps its settings when a schema is missing, and when entropy fails", async () => {
    const { db, other, store, before } = await peculiar();
    const failing = store(db, {
      randomBytes: () => {
        throw new Error("no entropy");
      },
    });
    await refused("ENTROPY_UNAVAILABLE", () => failing.claim({ worker: "w" }));
    expect(settingsOf(db)).toEqual(before);
    other.exec("drop table dovecote_deliveries");
    await refused("SCHEMA_MISMATCH", () => failing.claim({ worker: "w" }));
    expect(settingsOf(db)).toEqual(before);
  });

  it("is left open, and usable, with what it has in hand", async () => {
    const { db, dovecote, other } = await migrated();
    db.exec("begin immediate");
    dovecote.enqueue(db, event({ id: "mine" }));
    await dovecote.close();
    expect(db.inTransaction).toBe(true);
    db.exec("commit");
    expect(ids(other)).toEqual(["mine"]);
  });

  it("serves another store after the first one was closed", async () => {
    const { db, dovecote, store } = await migrated();
    enqueued(db, dovecote);
    await dovecote.close();
    expect(await store(db).claim({ worker: "w" })).toHaveLength(1);
  });
});

describe("LIFE-01: a closed store", () => {
  it.each(LIFECYCLE)("%s is CLOSED", async (_name, call) => {
    const { dovecote } = await migrated();
    await dovecote.close();
    await refused("CLOSED", () => call(dovecote));
  });

  it.each(JOINING)("%s is CLOSED", async (_name, call) => {
    const { db, dovecote, other } = await migrated();
    db.exec("begin immediate");
    await dovecote.close();
    await refused("CLOSED", () => call(dovecote, db));
    db.exec("commit");
    expect(ids(other)).toEqual([]);
  });

  it("migrate, checkSchema and transaction are CLOSED", async () => {
    const { dovecote } = await migrated();
    await dovecote.close();
    await refused("CLOSED", () => dovecote.migrate());
    await refused("CLOSED", () => dovecote.checkSchema());
    await refused("CLOSED", () => dovecote.transaction(() => expect.unreachable()));
  });

  it("is CLOSED too when only its client was closed", async () => {
    const { db, dovecote } = await migrated();
    db.close();
    await refused("CLOSED", () => dovecote.claim({ worker: "w" }));
    await refused("CLOSED", () => dovecote.page());
    await dovecote.close();
  });
});

describe("a store from a path", () => {
  it("closes its connection", async () => {
    const { file } = createSpace();
    const dovecote = sqlite(file);
    await dovecote.migrate();
    const client = await dovecote.transaction((tx) => tx.client);
    expect(existsSync(`${file}-wal`)).toBe(true);
    await dovecote.close();
    expect(client.open).toBe(false);
    expect(existsSync(`${file}-wal`), "the last connection takes the log with it").toBe(false);
  });

  it("LIFE-02: can be closed twice, also at once", async () => {
    const { file } = createSpace();
    const dovecote = sqlite(file);
    await Promise.all([dovecote.close(), dovecote.close()]);
    await dovecote.close();
    await dovecote[Symbol.asyncDispose]();
  });

  it("can be closed before it was ever used", async () => {
    const { file } = createSpace();
    await sqlite(file).close();
    await refused("CLOSED", () => {
      const dovecote = sqlite(file);
      return dovecote.close().then(() => dovecote.migrate());
    });
  });
});

describe("PAGE-03: a snapshot", () => {
  it("that is left open is closed with the store", async () => {
    const { db, dovecote, other, file } = await migrated();
    enqueued(db, dovecote, 3);
    const snapshot = await dovecote.snapshot({ pageSize: 1 });
    const entries = snapshot[Symbol.asyncIterator]();
    expect((await entries.next()).value?.rowId).toBe(1);
    await dovecote.close();
    await refused("CLOSED", () => entries.next());
    await snapshot.close();
    other.close();
    db.close();
    expect(existsSync(`${file}-wal`), "no connection is left").toBe(false);
  });

  it("that is being opened while the store is closed is not left open", async () => {
    const { db, dovecote, other, file } = await migrated();
    enqueued(db, dovecote);
    const opening = dovecote.snapshot();
    await dovecote.close();
    await refused("CLOSED", async () => {
      for await (const _entry of await opening) break;
    });
    other.close();
    db.close();
    expect(existsSync(`${file}-wal`), "no connection is left").toBe(false);
  });

  it("sees one state, and releases its connection on every way out", async () => {
    const { db, dovecote, other, file } = await migrated();
    enqueued(db, dovecote, 3);
    const ways: readonly ((snapshot: Awaited<ReturnType<typeof dovecote.snapshot>>) => Promise<unknown>)[] = [
      async (snapshot) => {
        for await (const _entry of snapshot);
      },
      async (snapshot) => {
        for await (const _entry of snapshot) break;
      },
      async (snapshot) => {
        for await (const _entry of snapshot) throw new Error("reader");
      },
      async (snapshot) => snapshot.close(),
      async (snapshot) => snapshot[Symbol.asyncDispose](),
    ];
    for (const leave of ways) {
      const snapshot = await dovecote.snapshot({ pageSize: 1 });
      await leave(snapshot).catch(() => {});
      await snapshot.close();
    }
    other.close();
    db.close(); // the store is still open: it holds nothing of its own
    expect(existsSync(`${file}-wal`), "no connection is left").toBe(false);
  });
});
