import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { schemaSql } from "../src/index.ts";
import { contents, createSpace, enqueued, migrated, refused, type Store } from "./support.ts";

const schemaOf = (db: Database.Database) =>
  db.prepare("select type, name, tbl_name, sql from sqlite_schema order by type, name").all();

describe("schemaSql", () => {
  it("SCHEMA-01: applied by hand it is what migrate makes, which then applies nothing", async () => {
    const { other: made } = await migrated();
    made.exec("drop table business");
    const space = createSpace();
    const db = space.open();
    db.transaction(() => db.exec(schemaSql)).immediate();
    expect(schemaOf(db)).toEqual(schemaOf(made));
    expect(contents(db)).toEqual(contents(made));

    const dovecote = space.store(db);
    expect(await dovecote.checkSchema()).toEqual({ status: "ok", version: 2, findings: [] });
    expect(await dovecote.migrate()).toEqual({ applied: [], version: 2 });
    enqueued(db, dovecote);
    expect(await dovecote.claim({ worker: "w" })).toHaveLength(1);
  });

  it("SCHEMA-01: applied again, also after migrate, it changes nothing", async () => {
    const { db, other, dovecote } = await migrated();
    enqueued(db, dovecote);
    const before = [schemaOf(other), contents(other)];
    db.transaction(() => db.exec(schemaSql)).immediate();
    expect([schemaOf(other), contents(other)]).toEqual(before);
  });

  it("SCHEMA-05: never lowers a marker", async () => {
    const { db, other } = await migrated();
    other.exec("update dovecote_schema set version = 9, requires = 2");
    db.exec(schemaSql);
    expect(other.prepare("select version, requires from dovecote_schema").get()).toEqual({
      version: 9,
      requires: 2,
    });
  });
});

/** What `migrate` makes, read without the driver's help. */
const reference = new Database(":memory:");
reference.exec(schemaSql);
const named = (type: string) =>
  reference
    .prepare("select name from sqlite_schema where type = ? and name not like 'sqlite_%' order by name")
    .pluck()
    .all(type) as string[];
const tables = named("table");
const indexes = named("index");
const columns = tables.flatMap((table) =>
  (reference.prepare("select name from pragma_table_info(?)").pluck().all(table) as string[]).map(
    (column) => [table, column] as const,
  ),
);
const checks = tables.flatMap((table) => {
  const sql = reference.prepare("select sql from sqlite_schema where name = ?").pluck().get(table) as string;
  return [...sql.matchAll(/,\s*constraint (\w+) check \(.*\)/g)].map(
    ([text, name]) => [table, String(name), text] as const,
  );
});
reference.close();

describe("SCHEMA-06: checkSchema", () => {
  it("looks at what there is to look at", () => {
    expect(tables).toHaveLength(5);
    expect(indexes).toHaveLength(14);
    expect(columns).toHaveLength(61);
    expect(checks).toHaveLength(30);
  });

  it("writes nothing", async () => {
    const { db, other, dovecote } = await migrated();
    const version = other.pragma("data_version", { simple: true });
    const schema = schemaOf(other);
    await dovecote.checkSchema();
    expect(other.pragma("data_version", { simple: true })).toBe(version);
    expect(schemaOf(other)).toEqual(schema);
    expect(db.inTransaction).toBe(false);
  });

  it.each(tables.filter((table) => table !== "dovecote_schema"))(
    "reports the missing table %s",
    async (table) => {
      const { dovecote, other } = await migrated();
      other.exec(`pragma foreign_keys = off; drop table ${table}`);
      await reports(dovecote, "missing", "table", table);
    },
  );

  it.each(indexes)("reports the missing index %s", async (index) => {
    const { dovecote, other } = await migrated();
    other.exec(`drop index ${index}`);
    const { findings } = await reports(dovecote, "missing", "index", index);
    expect(findings).toHaveLength(1);
  });

  it.each(columns.filter(([table]) => table !== "dovecote_schema"))(
    "reports the missing column %s.%s",
    async (table, column) => {
      const { dovecote, other } = await migrated();
      other.exec(`alter table ${table} rename column ${column} to renamed`);
      await reports(dovecote, "missing", "column", `${table}.${column}`);
    },
  );

  it.each(checks)("reports that %s lacks the constraint %s", async (table, name, text) => {
    const { dovecote, other } = await migrated();
    edit(other, text, "");
    const { findings } = await reports(dovecote, "missing", "constraint", `${table}.${name}`);
    expect(findings).toHaveLength(1);
  });

  it.each(checks)("reports that %s has another constraint %s", async (table, name, text) => {
    const { dovecote, other } = await migrated();
    edit(other, text, `${text.slice(0, -1)} or 1)`);
    const { findings } = await reports(dovecote, "changed", "constraint", `${table}.${name}`);
    expect(findings).toHaveLength(1);
  });

  it.each([
    [
      "a column's type",
      "available_at integer",
      "available_at text",
      "column",
      "dovecote_deliveries.available_at",
    ],
    [
      "a column that may be null",
      "forgiven integer not null",
      "forgiven integer",
      "column",
      "dovecote_deliveries.forgiven",
    ],
    [
      "a column that may not be null",
      "subject text",
      "subject text not null",
      "column",
      "dovecote_events.subject",
    ],
    [
      "a column's collation",
      "source text not null",
      "source text not null collate nocase",
      "column",
      "dovecote_events.source",
    ],
    [
      "a default",
      "forgiven integer not null",
      "forgiven integer not null default 1",
      "column",
      "dovecote_deliveries.forgiven",
    ],
    ["row ids that are used again", "primary key autoincrement", "primary key", "table", "dovecote_events"],
    [
      "another action of the foreign key",
      "references dovecote_events (row_id)",
      "references dovecote_events (row_id) on delete cascade",
      "constraint",
      "dovecote_deliveries.event_row_id foreign key",
    ],
  ] as const)("reports %s as changed", async (_what, from, to, object, name) => {
    const { dovecote, other } = await migrated();
    edit(other, from, to);
    await reports(dovecote, "changed", object, name);
  });

  it("reports a foreign key that is missing", async () => {
    const { dovecote, other } = await migrated();
    edit(other, " references dovecote_events (row_id)", "");
    await reports(dovecote, "missing", "constraint", "dovecote_deliveries.event_row_id foreign key");
  });

  it("reports a table that is not strict", async () => {
    const { dovecote, other } = await migrated();
    const sql = other
      .prepare("select sql from sqlite_schema where name = 'dovecote_deliveries'")
      .pluck()
      .get() as string;
    edit(other, sql, sql.replace(/strict$/, ""));
    await reports(dovecote, "changed", "table", "dovecote_deliveries");
  });

  it.each([
    [
      "other columns",
      "dovecote_events_identity",
      "create unique index dovecote_events_identity on dovecote_events (source, event_id)",
    ],
    [
      "columns in another order",
      "dovecote_events_identity",
      "create unique index dovecote_events_identity on dovecote_events (source, tenant_id, event_id)",
    ],
    [
      "no uniqueness",
      "dovecote_events_identity",
      "create index dovecote_events_identity on dovecote_events (tenant_id, source, event_id)",
    ],
    [
      "another condition",
      "dovecote_deliveries_pending",
      "create index dovecote_deliveries_pending on dovecote_deliveries (available_at) where state = 'claimed'",
    ],
    [
      "no condition",
      "dovecote_deliveries_pending",
      "create index dovecote_deliveries_pending on dovecote_deliveries (available_at)",
    ],
    [
      "descending order",
      "dovecote_deliveries_pending",
      "create index dovecote_deliveries_pending on dovecote_deliveries (available_at desc) where state = 'pending'",
    ],
    [
      "another collation",
      "dovecote_events_identity",
      "create unique index dovecote_events_identity on dovecote_events (tenant_id, source collate nocase, event_id)",
    ],
  ])("reports an index with %s as changed", async (_what, index, sql) => {
    const { dovecote, other } = await migrated();
    other.exec(`drop index ${index}; ${sql}`);
    const { findings } = await reports(dovecote, "changed", "index", index);
    expect(findings).toHaveLength(1);
  });

  it("reports everything at once", async () => {
    const { dovecote, other } = await migrated();
    other.exec(`drop index dovecote_deliveries_pending; drop index dovecote_events_tenant;
      alter table dovecote_events rename column subject to topic`);
    const { findings } = await dovecote.checkSchema();
    expect(findings.map(({ problem, name }) => `${problem} ${name}`)).toEqual([
      "missing dovecote_events.subject",
      "missing dovecote_events_tenant",
      "missing dovecote_deliveries_pending",
    ]);
  });

  it("takes additions, other spellings and objects of the user's for no fault", async () => {
    const { dovecote, other } = await migrated();
    other.exec(`create table mine (id integer primary key);
      alter table dovecote_events add column note text;
      alter table dovecote_deliveries add column note text default 'x';
      create index mine_by_type on dovecote_events (event_type);
      create view due as select * from dovecote_deliveries where state = 'pending';
      create trigger mine_too after insert on dovecote_events begin insert into mine (id) values (null); end;
      drop index dovecote_deliveries_pending;
      CREATE INDEX "dovecote_deliveries_pending" ON "dovecote_deliveries" ("available_at")
        WHERE "dovecote_deliveries"."state" =   'pending'`);
    expect(await dovecote.checkSchema()).toEqual({ status: "ok", version: 2, findings: [] });
  });

  it("answers the same on a connection that speaks bigints", async () => {
    const space = await migrated();
    space.other.exec("drop index dovecote_events_tenant");
    const db = space.open();
    db.defaultSafeIntegers(true);
    expect(await space.store(db).checkSchema()).toEqual(await space.dovecote.checkSchema());
  });
});

describe("migrate", () => {
  it("SCHEMA-01: makes what is missing of a schema whose marker is gone, and keeps the rows", async () => {
    const { db, dovecote, other, store } = await migrated();
    enqueued(db, dovecote, 2);
    other.exec("drop table dovecote_schema; drop index dovecote_deliveries_pending");
    const again = store(db);
    expect(await again.migrate()).toEqual({ applied: [1, 2], version: 2 });
    expect((await again.checkSchema()).status).toBe("ok");
    expect(await again.claim({ worker: "w" })).toHaveLength(2);
  });

  it("sets write-ahead logging on the file, and keeps it", async () => {
    const { other, dovecote } = await migrated();
    expect(other.pragma("journal_mode", { simple: true })).toBe("wal");
    await dovecote.migrate();
    expect(other.pragma("journal_mode", { simple: true })).toBe("wal");
  });

  it("leaves nothing behind when a table of the user's is in the way", async () => {
    const space = createSpace();
    const db = space.open();
    db.exec("create table dovecote_deliveries (id integer)");
    await refused("SCHEMA_MISMATCH", () => space.store(db).migrate());
    expect(schemaOf(space.open())).toHaveLength(1);
  });
});

async function reports(dovecote: Store, problem: "missing" | "changed", object: string, name: string) {
  const report = await dovecote.checkSchema();
  expect(report.status).toBe("changed");
  expect(report.version).toBe(2);
  const found = report.findings.map((finding) => `${finding.problem} ${finding.object} ${finding.name}`);
  expect(found).toContain(`${problem} ${object} ${name}`);
  return report;
}

/** SQLite cannot change a constraint: its text is edited where it is stored. */
function edit(db: Database.Database, from: string, to: string): void {
  db.unsafeMode(true);
  db.pragma("writable_schema = on");
  const update =
    "update sqlite_schema set sql = replace(sql, ?, ?) where type = 'table' and instr(sql, ?) > 0";
  const { changes } = db.prepare(update).run(from, to, from);
  // Other connections read the schema again when its version has moved.
  db.pragma(`schema_version = ${Number(db.pragma("schema_version", { simple: true })) + 1}`);
  db.pragma("writable_schema = reset");
  db.unsafeMode(false);
  expect(changes, `one table must have ${from}`).toBe(1);
}
