import { symlinkSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it, onTestFinished } from "vitest";
import { sqlite } from "../src/index.ts";
import { contents, count, enqueued, event, FORGED, ids, JOINING, migrated, refused } from "./support.ts";

describe("TX-05: a handle without a transaction", () => {
  it.each(JOINING)("%s is TX_REQUIRED", async (_name, call) => {
    const { db, other, dovecote } = await migrated();
    const before = contents(other);
    await refused("TX_REQUIRED", () => call(dovecote, db));
    db.exec("begin immediate; commit");
    await refused("TX_REQUIRED", () => call(dovecote, db), "after a transaction");
    expect(contents(other)).toEqual(before);
  });

  it.each([
    ["null", null],
    ["undefined", undefined],
    ["a path", "shop.db"],
    ["an empty object", {}],
    ["an object without a prototype", Object.create(null)],
    ["a statement", new Database(":memory:").prepare("select 1")],
  ])("ERR-03: %s is INVALID_ARGUMENT", async (_what, handle) => {
    const { dovecote } = await migrated();
    await refused("INVALID_ARGUMENT", () => dovecote.enqueue(handle as never, event()));
    await refused("INVALID_ARGUMENT", () => dovecote.redriveIn(handle as never, 1));
  });

  it("LIFE-01: a handle that was closed", async () => {
    const { dovecote, open } = await migrated();
    const db = open();
    db.close();
    await refused("TX_REQUIRED", () => dovecote.enqueue(db, event()));
  });
});

describe("handles of other databases", () => {
  it.each(JOINING)("%s in the transaction of another file is TX_FOREIGN", async (_name, call) => {
    const { dovecote, other } = await migrated();
    const foreign = await migrated();
    const before = [contents(other), contents(foreign.other)];
    foreign.db.exec("begin immediate");
    await refused("TX_FOREIGN", () => call(dovecote, foreign.db));
    expect(foreign.db.inTransaction).toBe(true);
    foreign.db.exec("commit");
    expect([contents(other), contents(foreign.other)]).toEqual(before);
  });

  it("a database in memory is foreign to a file, the other way round, and to another one in memory", async () => {
    const { db, dovecote } = await migrated();
    const [one, two] = [new Database(":memory:"), new Database(":memory:")];
    onTestFinished(() => [one, two].forEach((memory) => void memory.close()));
    const inMemory = sqlite(one);
    await inMemory.migrate();
    for (const each of [db, one, two]) each.exec("begin immediate");
    await refused("TX_FOREIGN", () => dovecote.enqueue(one, event()), "in memory for a file");
    await refused("TX_FOREIGN", () => inMemory.enqueue(db, event()), "a file for one in memory");
    await refused("TX_FOREIGN", () => inMemory.enqueue(two, event()), "another one in memory");
    inMemory.enqueue(one, event());
  });

  it("TX-01: another connection to the same file works, and its commit decides", async () => {
    const { dovecote, other, open } = await migrated();
    const caller = open();
    caller.exec("begin immediate");
    const { rowId } = dovecote.enqueue(caller, event({ id: "mine" }));
    expect(ids(other)).toEqual([]);
    expect(await dovecote.claim({ worker: "w" })).toEqual([]);
    caller.exec("commit");
    expect((await dovecote.claim({ worker: "w" })).map((claim) => claim.rowId)).toEqual([rowId]);

    caller.exec("begin immediate");
    dovecote.enqueue(caller, event({ id: "doomed" }));
    caller.exec("rollback");
    expect(ids(other)).toEqual(["mine"]);
  });

  it("another connection by way of a symbolic link is one to the same file", async () => {
    const { dovecote, folder, file, other } = await migrated();
    const link = join(folder, "link.db");
    symlinkSync(file, link);
    const caller = new Database(link);
    onTestFinished(() => void caller.close());
    caller.transaction(() => dovecote.enqueue(caller, event({ id: "mine" }))).immediate();
    expect(ids(other)).toEqual(["mine"]);
  });

  it("an attached database does not make a handle another one", async () => {
    const { db, dovecote, other, folder } = await migrated();
    db.prepare("attach ? as archive").run(join(folder, "archive.db"));
    db.exec("create table archive.dovecote_events (row_id integer)");
    db.transaction(() => dovecote.enqueue(db, event({ id: "mine" }))).immediate();
    expect(ids(other)).toEqual(["mine"]);
    expect((await dovecote.checkSchema()).findings).toEqual([]);
  });
});

describe("a handle of the caller's", () => {
  it("TX-04: savepoints of the caller's, also one with the name of ours", async () => {
    const { db, dovecote, other } = await migrated();
    db.exec("begin immediate; savepoint dovecote");
    dovecote.enqueue(db, event({ id: "before" }));
    db.exec("savepoint inner_one");
    dovecote.enqueue(db, event({ id: "dropped" }));
    db.exec("rollback to inner_one; release inner_one");
    dovecote.enqueue(db, event({ id: "after" }));
    db.exec("release dovecote; commit");
    expect(ids(other)).toEqual(["before", "after"]);
  });

  it("TX-05: a savepoint without BEGIN is a transaction", async () => {
    const { db, dovecote, other } = await migrated();
    db.exec("savepoint mine");
    dovecote.enqueue(db, event({ id: "mine" }));
    expect(ids(other)).toEqual([]);
    db.exec("release mine");
    expect(ids(other)).toEqual(["mine"]);
  });

  it("an error inside an enqueue leaves the transaction as it was, and usable", async () => {
    const { db, dovecote, other } = await migrated();
    other.exec(`create trigger no_poison before insert on dovecote_events when new.stream = 'poison'
      begin select raise(abort, 'no poison here'); end`);
    db.exec("begin immediate");
    dovecote.enqueue(db, event({ id: "before" }));
    const batch = [event({ id: "a" }), event({ id: "b", stream: "poison" })];
    await refused("DRIVER_FAILURE", () => dovecote.enqueueMany(db, batch));
    dovecote.enqueue(db, event({ id: "after" }));
    db.exec("commit");
    expect(ids(other)).toEqual(["before", "after"]);
    expect(count(other, "dovecote_deliveries")).toBe(2);
  });

  it("TX-08: better-sqlite3 refuses an asynchronous transaction, and nothing is stored", async () => {
    const { db, dovecote, other } = await migrated();
    let late: Promise<void> | undefined;
    const run = db.transaction(() => {
      late = (async () => {
        dovecote.enqueue(db, event({ id: "before-await" }));
        await undefined;
        dovecote.enqueue(db, event({ id: "after-await" }));
      })();
      return late;
    });
    expect(() => run.immediate()).toThrow("cannot return a promise");
    await refused("TX_REQUIRED", () => late);
    expect(ids(other)).toEqual([]);
  });
});

describe("defaultSafeIntegers(true)", () => {
  /** The life of a store, with what differs from run to run taken out. */
  async function life(bigints: boolean): Promise<unknown> {
    const { open, store, other } = await migrated();
    const db = open();
    db.defaultSafeIntegers(bigints);
    const dovecote = store(db);
    const answers: unknown[] = [await dovecote.migrate()];
    const given = event({ id: "one", data: 7 });
    db.transaction(() => {
      answers.push(dovecote.enqueue(db, given), dovecote.enqueue(db, given));
      answers.push(dovecote.enqueueMany(db, [event({ id: "one", data: 8 }), event({ id: "two" })]));
    }).immediate();
    const claims = await dovecote.claim({ worker: "w", shared: true });
    for (const { rowId, attempt, forgiven, shared, reclaimed, expiresAt } of claims) {
      answers.push({ rowId, attempt, forgiven, shared, reclaimed, expires: expiresAt instanceof Date });
    }
    answers.push(await dovecote.renew(claims).then((outcomes) => outcomes.map(({ outcome }) => outcome)));
    answers.push(
      await dovecote.settle(claims.map((claim) => ({ action: "quarantine", claim, reason: "r" }))),
    );
    answers.push(await dovecote.ack([FORGED]), await dovecote.redrive({}), await dovecote.stats());
    answers.push((await dovecote.list({ state: "pending" })).entries.map(({ rowId }) => rowId));
    answers.push((await dovecote.page()).cursor, (await dovecote.checkSchema()).status);
    const snapshot = await dovecote.snapshot();
    answers.push(snapshot.cursor);
    await snapshot.close();
    answers.push(await dovecote.admin().reconcile(1), await dovecote.prune({ olderThanMs: 1 }));
    answers.push(ids(other), typeof db.prepare("select 1 as one").pluck().get());
    return JSON.parse(JSON.stringify(answers, (_key, value) => (_key === "oldestDueMs" ? 0 : value)));
  }

  it("changes nothing for the store, and the store changes nothing of it", async () => {
    const plain = (await life(false)) as unknown[];
    const bigints = (await life(true)) as unknown[];
    expect(bigints.slice(0, -1)).toEqual(plain.slice(0, -1));
    expect([plain.at(-1), bigints.at(-1)]).toEqual(["number", "bigint"]);
  });
});

describe("ID-08: a row id beyond 2^53", () => {
  it.each([false, true])(
    "is a typed error, and the caller can still go on (bigints: %s)",
    async (bigints) => {
      const { db, dovecote, other } = await migrated();
      enqueued(db, dovecote);
      other
        .prepare("update sqlite_sequence set seq = ? where name = 'dovecote_events'")
        .run(Number.MAX_SAFE_INTEGER);
      db.defaultSafeIntegers(bigints);
      const before = contents(other);
      db.exec("begin immediate");
      const error = await refused("COUNTER_OVERFLOW", () => dovecote.enqueue(db, event()));
      expect(error.retryable).toBe(false);
      expect(db.inTransaction).toBe(true);
      db.prepare("insert into business (id) values ('mine')").run();
      db.exec("rollback");
      expect(contents(other)).toEqual(before);

      db.exec("begin immediate");
      await refused("COUNTER_OVERFLOW", () => dovecote.enqueueMany(db, [event(), event()]));
      db.prepare("insert into business (id) values ('mine')").run();
      db.exec("commit");
      expect(count(other, "dovecote_events")).toBe(1);
      expect(count(other, "business")).toBe(1);
    },
  );

  it("is never answered rounded", async () => {
    const { db, dovecote, other } = await migrated();
    enqueued(db, dovecote);
    other.exec(`pragma foreign_keys = off;
      update dovecote_events set row_id = 9007199254740993; update dovecote_deliveries set event_row_id = 9007199254740993`);
    const before = contents(other);
    await refused("COUNTER_OVERFLOW", () => dovecote.claim({ worker: "w" }));
    expect(contents(other)).toEqual(before);
  });
});
