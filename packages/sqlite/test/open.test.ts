import { existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it, onTestFinished } from "vitest";
import { type SqliteOptions, sqlite } from "../src/index.ts";
import { contents, createSpace, enqueued, event, ids, migrated, refused } from "./support.ts";

describe("paths that cannot be opened", () => {
  it("ERR-01: a directory", async () => {
    const { folder } = createSpace();
    await refused("STORE_UNAVAILABLE", () => sqlite(folder));
  });

  it("ERR-01: a file in a directory that is not there", async () => {
    const { folder } = createSpace();
    await refused("STORE_UNAVAILABLE", () => sqlite(join(folder, "missing", "shop.db")));
    expect(readdirSync(folder)).toEqual([]);
  });

  it.each([
    ["migrate", (path: string) => sqlite(path).migrate()],
    ["claim", (path: string) => sqlite(path).claim({ worker: "w" })],
  ])("ERR-01: a file that is no database, at the latest when %s is called", async (_name, call) => {
    const { file } = createSpace();
    const text = "this is no database ".repeat(100);
    writeFileSync(file, text);
    await refused("STORE_CORRUPT", () => call(file));
    expect(readFileSync(file, "utf8")).toBe(text);
  });

  it("ERR-01: a connection to a file that is no database", async () => {
    const space = createSpace();
    writeFileSync(space.file, "this is no database ".repeat(100));
    const db = space.open();
    await refused("STORE_CORRUPT", () => sqlite(db).migrate());
    expect(db.open).toBe(true);
  });

  it("a refused path leaves no connection open", async () => {
    const { file } = createSpace();
    writeFileSync(file, "this is no database ".repeat(100));
    await refused("STORE_CORRUPT", () => sqlite(file));
    expect(openFiles().filter((path) => path.startsWith(file))).toEqual([]);
  });

  it("LIFE-01: a connection that was closed before", async () => {
    const db = createSpace().open();
    db.close();
    await refused("CLOSED", () => sqlite(db));
  });
});

describe("arguments", () => {
  it.each([
    ["a number", 7],
    ["null", null],
    ["undefined", undefined],
    ["an empty object", {}],
    ["a list", []],
    ["an object without a prototype", Object.create(null)],
    ["an object with a constructor that is none", { constructor: 7 }],
    ["a class", Database],
  ])("ERR-03: %s is no target", async (_what, target) => {
    await refused("INVALID_ARGUMENT", () => sqlite(target as never));
  });

  it.each<[string, unknown]>([
    ["a negative budget", { busyBudgetMs: -1 }],
    ["a budget that is no number", { busyBudgetMs: Number.NaN }],
    ["a budget of half a millisecond", { busyBudgetMs: 1.5 }],
    ["a budget above ten minutes", { busyBudgetMs: 600_001 }],
    ["a budget in digits", { busyBudgetMs: "50" }],
    ["a budget of null", { busyBudgetMs: null }],
    ["a durability that is not offered", { synchronous: "off" }],
    ["a durability of null", { synchronous: null }],
    ["no bytes for an event", { maxEventBytes: 0 }],
    ["a redaction that is no function", { redact: "all" }],
    ["a source of randomness that is no function", { randomBytes: 4 }],
    ["a misspelt member", { busyBudget: 50 }],
    ["a list of options", []],
    ["a text for options", "full"],
  ])("ERR-03: %s is refused before anything is opened", async (_what, options) => {
    const { folder, file } = createSpace();
    await refused("INVALID_ARGUMENT", () => sqlite(file, options as SqliteOptions));
    expect(readdirSync(folder)).toEqual([]);
  });

  it("ERR-03: the durability of a connection that was passed in is its owner's", async () => {
    const db = createSpace().open();
    const before = db.pragma("synchronous", { simple: true });
    await refused("INVALID_ARGUMENT", () => sqlite(db, { synchronous: "full" } as never));
    expect(db.open).toBe(true);
    expect(db.pragma("synchronous", { simple: true })).toBe(before);
  });

  it.each([0, 600_000])("accepts a budget of %i ms", async (busyBudgetMs) => {
    const space = createSpace();
    expect((await space.store(space.open(), { busyBudgetMs }).migrate()).version).toBe(2);
  });
});

describe("a read-only connection", () => {
  it("cannot migrate an empty database", async () => {
    const space = createSpace();
    space.open().exec("create table business (id text)");
    const db = space.open({ readonly: true });
    await refused("STORE_READ_ONLY", () => space.store(db).migrate());
    expect(contents(space.open())).toEqual([["business", []]]);
  });

  it("reads, and can neither claim what is due nor enqueue", async () => {
    const { db, dovecote, other, ...space } = await migrated();
    const [rowId = 0] = enqueued(db, dovecote);
    const before = contents(other);
    const reader = space.open({ readonly: true });
    const store = space.store(reader);
    expect((await store.page()).entries.map((entry) => entry.rowId)).toEqual([rowId]);
    expect((await store.checkSchema()).status).toBe("ok");
    expect((await store.migrate()).applied).toEqual([]);
    await refused("STORE_READ_ONLY", () => store.claim({ worker: "w" }));
    await refused("STORE_READ_ONLY", () => store.quarantine(rowId, { reason: "r" }));
    reader.exec("begin");
    await refused("STORE_READ_ONLY", () => store.enqueue(reader, event()));
    reader.exec("rollback");
    expect(contents(other)).toEqual(before);
  });
});

describe("a store from a path", () => {
  it.each([
    [undefined, 2],
    ["full", 2],
    ["normal", 1],
  ] as const)("opens with foreign keys on and synchronous %s", async (synchronous, level) => {
    const { file } = createSpace();
    await using dovecote = sqlite(file, synchronous === undefined ? {} : { synchronous });
    await dovecote.transaction(({ client }) => {
      expect(client.prepare("pragma foreign_keys").get()).toEqual({ foreign_keys: 1 });
      expect(client.prepare("pragma synchronous").get()).toEqual({ synchronous: level });
    });
  });

  it("TX-01: takes the transactions of a connection of the caller's", async () => {
    const { file, open } = createSpace();
    await using dovecote = sqlite(file);
    await dovecote.migrate();
    const db = open();
    const { rowId } = db.transaction(() => dovecote.enqueue(db, event({ id: "mine" }))).immediate();
    expect(ids(open())).toEqual(["mine"]);
    expect((await dovecote.claim({ worker: "w" })).map((claim) => claim.rowId)).toEqual([rowId]);
  });

  it("keeps the foreign key: an event with a delivery cannot be deleted alone", async () => {
    const { file, open } = createSpace();
    await using dovecote = sqlite(file);
    await dovecote.migrate();
    await dovecote.transaction((tx) => dovecote.enqueue(tx, event({ id: "kept" })));
    await expect(
      dovecote.transaction(({ client }) => client.prepare("delete from dovecote_events").run()),
    ).rejects.toThrow("FOREIGN KEY");
    expect(ids(open())).toEqual(["kept"]);
  });

  it("works from a relative path", async () => {
    const { folder, file, open } = createSpace();
    mkdirSync(join(folder, "elsewhere"));
    const home = process.cwd();
    onTestFinished(() => process.chdir(home));
    process.chdir(folder);
    await using dovecote = sqlite("shop.db");
    await dovecote.migrate();
    // The file stays the one that it was, wherever the process goes.
    process.chdir(join(folder, "elsewhere"));
    const snapshot = await dovecote.snapshot();
    await snapshot.close();
    const db = open();
    db.transaction(() => dovecote.enqueue(db, event({ id: "mine" }))).immediate();
    expect(ids(db)).toEqual(["mine"]);
    expect(existsSync(file)).toBe(true);
    expect(readdirSync(join(folder, "elsewhere"))).toEqual([]);
  });
});

/** Of this process, where the operating system tells. */
function openFiles(): readonly string[] {
  if (!existsSync("/proc/self/fd")) return [];
  return readdirSync("/proc/self/fd").flatMap((name) => {
    try {
      return [readlinkSync(`/proc/self/fd/${name}`)];
    } catch {
      return []; // that of the listing itself
    }
  });
}
