import { readFileSync } from "node:fs";
import type { Claim } from "@dovecote/core";
import type Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { schemaSql } from "../src/index.ts";
import {
  contents,
  createSpace,
  dropSchema,
  enqueued,
  event,
  ids,
  JOINING,
  LIFECYCLE,
  migrated,
  refused,
  type Store,
} from "./support.ts";

const schemaOf = (db: Database.Database) =>
  db.prepare("select type, name, sql from sqlite_schema order by type, name").all();

describe("SCHEMA-05: a database without the schema", () => {
  it.each(LIFECYCLE)("%s is SCHEMA_MISSING, and makes nothing", async (_name, call) => {
    const space = createSpace();
    const db = space.open();
    db.exec("create table business (id text)");
    const store = space.store(db);
    await refused("SCHEMA_MISSING", () => call(store));
    expect(schemaOf(space.open())).toHaveLength(1);
  });

  it.each(JOINING)("%s is SCHEMA_MISSING, and makes nothing", async (_name, call) => {
    const space = createSpace();
    const db = space.open();
    db.exec("create table business (id text)");
    const store = space.store(db);
    db.exec("begin immediate");
    await refused("SCHEMA_MISSING", () => call(store, db));
    db.exec("insert into business (id) values ('mine'); commit");
    expect(contents(space.open())).toEqual([["business", [{ id: "mine" }]]]);
  });

  it("SCHEMA-08: neither construction nor a check makes anything", async () => {
    const space = createSpace();
    const store = space.store(space.open());
    expect(await store.checkSchema()).toEqual({ status: "missing", version: null, findings: [] });
    expect(readFileSync(space.file)).toHaveLength(0);
  });

  it("tables without the marker's row are no schema, and migrate adds it", async () => {
    const { db, other, store } = await migrated();
    other.exec("delete from dovecote_schema");
    const second = store(db);
    await refused("SCHEMA_MISSING", () => second.claim({ worker: "w" }));
    expect(await second.migrate()).toEqual({ applied: [1, 2], version: 2 });
    expect((await second.checkSchema()).status).toBe("ok");
  });
});

describe("SCHEMA-05: a schema from the future", () => {
  async function fromTheFuture(marker: { version: number; requires: number }) {
    const space = await migrated();
    enqueued(space.db, space.dovecote);
    space.other
      .prepare("update dovecote_schema set version = ?, requires = ?")
      .run(marker.version, marker.requires);
    const db = space.open();
    return { ...space, db, dovecote: space.store(db), before: contents(space.other) };
  }

  it.each([...LIFECYCLE, ["migrate", (store: Store) => store.migrate()] as const])(
    "that only newer code may write: %s is SCHEMA_TOO_NEW before any write",
    async (_name, call) => {
      const { dovecote, other, before } = await fromTheFuture({ version: 9, requires: 3 });
      await refused("SCHEMA_TOO_NEW", () => call(dovecote));
      expect(contents(other)).toEqual(before);
    },
  );

  it.each(JOINING)(
    "that only newer code may write: %s is SCHEMA_TOO_NEW before any write",
    async (_name, call) => {
      const { db, dovecote, other, before } = await fromTheFuture({ version: 9, requires: 3 });
      db.exec("begin immediate");
      await refused("SCHEMA_TOO_NEW", () => call(dovecote, db));
      db.exec("commit");
      expect(contents(other)).toEqual(before);
    },
  );

  it("is refused by migrate before the file is changed in any way", async () => {
    const space = createSpace();
    const db = space.open();
    db.exec(schemaSql);
    db.exec("update dovecote_schema set version = 9, requires = 3");
    const before = readFileSync(space.file);
    await refused("SCHEMA_TOO_NEW", () => space.store(db).migrate());
    expect(db.pragma("journal_mode", { simple: true })).toBe("delete");
    expect(readFileSync(space.file).equals(before)).toBe(true);
  });

  it("that still takes this code is used as it is, so that a deployment can roll", async () => {
    const { db, dovecote, other } = await fromTheFuture({ version: 9, requires: 1 });
    other.exec("alter table dovecote_events add column later text");
    expect(await dovecote.migrate()).toEqual({ applied: [], version: 9 });
    expect(other.prepare("select version, requires from dovecote_schema").get()).toEqual({
      version: 9,
      requires: 1,
    });
    enqueued(db, dovecote);
    const claims = await dovecote.claim({ worker: "w" });
    expect(await dovecote.ack(claims)).toEqual([{ outcome: "applied" }, { outcome: "applied" }]);
  });

  it("is reported by checkSchema", async () => {
    const { dovecote } = await fromTheFuture({ version: 9, requires: 3 });
    expect(await dovecote.checkSchema()).toEqual({ status: "tooNew", version: 9, findings: [] });
  });
});

describe("SCHEMA-05: a schema from the past", () => {
  async function fromThePast() {
    const space = await migrated();
    enqueued(space.db, space.dovecote);
    space.other.exec("update dovecote_schema set version = 0, requires = 0");
    const db = space.open();
    return { ...space, db, dovecote: space.store(db), before: contents(space.other) };
  }

  it.each(LIFECYCLE)("%s is SCHEMA_TOO_OLD before any write", async (_name, call) => {
    const { dovecote, other, before } = await fromThePast();
    await refused("SCHEMA_TOO_OLD", () => call(dovecote));
    expect(contents(other)).toEqual(before);
  });

  it("is brought up to date by migrate, and used", async () => {
    const { dovecote, db, other } = await fromThePast();
    expect((await dovecote.checkSchema()).status).toBe("tooOld");
    db.exec("begin immediate");
    await refused("SCHEMA_TOO_OLD", () => dovecote.enqueue(db, event()));
    db.exec("rollback");
    expect(await dovecote.migrate()).toEqual({ applied: [1, 2], version: 2 });
    expect(other.prepare("select version, requires from dovecote_schema").get()).toEqual({
      version: 2,
      requires: 1,
    });
    expect(await dovecote.claim({ worker: "w" })).toHaveLength(1);
  });
});

describe("SCHEMA-05: a schema that changes after the first use", () => {
  /** A store that has been used, with one due event, one claim, and one quarantined row. */
  async function used() {
    const space = await migrated();
    enqueued(space.db, space.dovecote, 3);
    const [held, poison] = (await space.dovecote.claim({ worker: "w", limit: 2 })) as [Claim, Claim];
    await space.dovecote.quarantine(poison, { reason: "poison" });
    return { ...space, held, poison };
  }

  // A subscription asks the tables for nothing at the time.
  const asking = LIFECYCLE.filter(([name]) => name !== "subscribe");
  it.each(asking)("%s is SCHEMA_MISSING once it was dropped", async (_name, call) => {
    const { dovecote, other } = await used();
    dropSchema(other);
    await refused("SCHEMA_MISSING", () => call(dovecote));
    expect(contents(other)).toEqual([["business", []]]);
  });

  it.each(JOINING)(
    "%s is SCHEMA_MISSING once it was dropped, and the transaction remains usable",
    async (_name, call) => {
      const { db, dovecote, other } = await used();
      dropSchema(other);
      db.exec("begin immediate");
      await refused("SCHEMA_MISSING", () => call(dovecote, db));
      db.exec("insert into business (id) values ('mine'); commit");
      expect(contents(other)).toEqual([["business", [{ id: "mine" }]]]);
    },
  );

  it("works again once it was migrated anew", async () => {
    const { db, dovecote, other } = await used();
    dropSchema(other);
    await refused("SCHEMA_MISSING", () => dovecote.claim({ worker: "w" }));
    await dovecote.migrate();
    const [rowId] = enqueued(db, dovecote);
    expect((await dovecote.claim({ worker: "w" })).map((claim) => claim.rowId)).toEqual([rowId]);
  });

  it.each([
    ["a table", "drop table dovecote_deliveries"],
    ["a column", "alter table dovecote_deliveries rename column claim_token to proof"],
    [
      "an index",
      "drop index dovecote_deliveries_pending_tenant; drop index dovecote_deliveries_claimed_tenant",
    ],
  ])("without %s that it had, a claim is SCHEMA_MISMATCH", async (_what, damage) => {
    const { dovecote, other } = await used();
    other.exec(damage);
    const before = contents(other);
    const error = await refused("SCHEMA_MISMATCH", () => dovecote.claim({ worker: "w" }));
    expect(error.retryable).toBe(false);
    expect(contents(other)).toEqual(before);
  });

  it("without the table of events, an enqueue is SCHEMA_MISMATCH", async () => {
    const { db, dovecote, other } = await used();
    other.exec("pragma foreign_keys = off; alter table dovecote_events rename to events");
    db.exec("begin immediate");
    await refused("SCHEMA_MISMATCH", () => dovecote.enqueue(db, event()));
    db.exec("rollback");
  });

  it("with another check, what violates it is SCHEMA_MISMATCH", async () => {
    const { db, dovecote, held, other } = await used();
    edit(
      other,
      "constraint dovecote_deliveries_attempts check (attempts between 0 and 2147483647)",
      (found) => found.replace("2147483647", "1 and state <> 'delivered' and available_at > 9e15"),
    );
    const before = contents(other);
    const ack = await refused("SCHEMA_MISMATCH", () => dovecote.ack(held));
    expect(ack.cause).toMatchObject({ code: "SQLITE_CONSTRAINT_CHECK" });
    await refused("SCHEMA_MISMATCH", () => dovecote.claim({ worker: "w" }));
    db.exec("begin immediate");
    await refused("SCHEMA_MISMATCH", () => dovecote.enqueue(db, event()));
    db.exec("commit");
    expect(contents(other)).toEqual(before);
  });

  it("a violated check leads to the marker, which may say that newer code is needed", async () => {
    const { db, dovecote, held, other } = await used();
    edit(
      other,
      "constraint dovecote_deliveries_attempts check (attempts between 0 and 2147483647)",
      (found) => found.replace("2147483647", "1 and state <> 'delivered' and available_at > 9e15"),
    );
    other.exec("update dovecote_schema set version = 2, requires = 3");
    const before = contents(other);
    await refused("SCHEMA_TOO_NEW", () => dovecote.ack(held));
    await refused("SCHEMA_TOO_NEW", () => dovecote.page(), "every call after it");
    db.exec("begin immediate");
    await refused("SCHEMA_TOO_NEW", () => dovecote.enqueue(db, event({ id: "late" })));
    db.exec("commit");
    expect(contents(other)).toEqual(before);
    expect(ids(other)).not.toContain("late");
  });
});

/** SQLite cannot change a constraint: its text is edited where it is stored. */
function edit(db: Database.Database, part: string, change: (part: string) => string): void {
  db.unsafeMode(true);
  db.pragma("writable_schema = on");
  const { changes } = db
    .prepare("update sqlite_schema set sql = replace(sql, ?, ?) where instr(sql, ?) > 0")
    .run(part, change(part), part);
  db.pragma("writable_schema = reset");
  // Other connections read the schema again when its version has moved.
  db.pragma(`schema_version = ${Number(db.pragma("schema_version", { simple: true })) + 1}`);
  db.unsafeMode(false);
  expect(changes, `one definition must have ${part}`).toBe(1);
}
