import { randomUUID } from "node:crypto";
import type postgresClient from "postgres";
import { assert, describe, expect, it, onTestFinished } from "vitest";
import { PostgresDriver } from "../src/driver.ts";
import { postgres, schemaSql } from "../src/index.ts";
import { quoteIdentifier } from "../src/schema.ts";
import {
  connect,
  event,
  freshSchema,
  killBackend,
  type Migrated,
  migrated,
  ROLE_PASSWORD,
  refused,
  role,
  until,
} from "./support.ts";

/** What the schema holds of ours, by name. */
async function objects(other: postgresClient.Sql, schema: string): Promise<readonly string[]> {
  const rows = await other`select relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = ${schema} and relname like 'dovecote%' order by relname`;
  return rows.map((row) => String(row.relname));
}

/** Every byte that the tables hold. */
async function contents(other: postgresClient.Sql, schema: string): Promise<unknown> {
  const quoted = quoteIdentifier(schema);
  const tables = ["dovecote_events", "dovecote_deliveries", "dovecote_schema"];
  const all = await Promise.all(
    tables.map((table) => other.unsafe(`select t::text, t.xmin::text from ${quoted}.${table} t order by 1`)),
  );
  return all.map((rows) => rows.map((row) => ({ ...row })));
}

/** A migrated store with one claimed event, and a claim of it. */
async function inUse(): Promise<Migrated & { readonly writes: Record<string, () => Promise<unknown>> }> {
  const store = await migrated();
  const elsewhere = postgres(store.other, { schema: store.schema });
  await elsewhere.transaction((tx) => elsewhere.enqueueMany(tx, [event("1"), event("2")]));
  const [claim] = await elsewhere.claim({ worker: "w", limit: 1 });
  assert(claim);
  const { sql, dovecote } = store;
  return {
    ...store,
    writes: {
      enqueue: () => sql.begin((tx) => dovecote.enqueue(tx, event("3"))),
      "enqueue in our own": () => dovecote.transaction((tx) => dovecote.enqueue(tx, event("3"))),
      claim: () => dovecote.claim({ worker: "w" }),
      renew: () => dovecote.renew(claim),
      ack: () => dovecote.ack(claim),
      quarantine: () => dovecote.quarantine(claim, { reason: "r" }),
      redrive: () => dovecote.redrive(claim.rowId),
      redriveIn: () => sql.begin((tx) => dovecote.redriveIn(tx, {})),
      prune: () => dovecote.prune({ olderThanMs: 1 }),
      reconcile: () => dovecote.admin().reconcile(claim.rowId),
      page: () => dovecote.page(),
      stats: () => dovecote.stats(),
      snapshot: () => dovecote.snapshot(),
    },
  };
}

describe("SCHEMA-02: odd names of a schema", () => {
  it.each([
    ["a double quote", 'say "hi"'],
    ["only a double quote", '"'],
    ["a single quote", "it's"],
    ["a space", "two words"],
    ["only a space", " "],
    ["upper case", "UPPER"],
    ["unicode", "süß-名前-🕊"],
    ["a dollar", "cost$1"],
    ["what a replacement would expand", "$&$'$`$$"],
    ["the placeholder of the statements", "{schema}"],
    ["a dot", "a.b"],
    ["a backslash", "a\\b\\"],
    ["a semicolon and a comment", "x; -- y /*"],
    ["a percent sign", "100%s"],
    ["a line break", "two\nlines"],
    ["a keyword", "select"],
    ["the name of a table of ours", "dovecote_events"],
    ["one letter", "s"],
    ["63 bytes", "x".repeat(63)],
    ["63 bytes in 32 characters", `${"ü".repeat(31)}x`],
  ])("%s", async (_what, name) => {
    // The name cannot be a test's own: it is dropped before and after.
    const sql = connect();
    const drop = (client: postgresClient.Sql): Promise<unknown> =>
      client.unsafe(`drop schema if exists ${quoteIdentifier(name)} cascade`);
    await drop(sql);
    const last = connect();
    onTestFinished(() => drop(last).then(() => {}));

    const dovecote = postgres(sql, { schema: name });
    await refused("SCHEMA_MISSING", () => dovecote.claim({ worker: "w" }));
    expect(await dovecote.checkSchema()).toMatchObject({ status: "missing" });
    expect(await dovecote.migrate()).toEqual({ applied: [1, 2], version: 2 });
    expect(await dovecote.migrate()).toEqual({ applied: [], version: 2 });
    expect(await dovecote.checkSchema()).toEqual({ status: "ok", version: 2, findings: [] });
    expect(await objects(last, name)).toContain("dovecote_deliveries");

    await sql.begin((tx) => dovecote.enqueue(tx, event("1")));
    const [claim] = await dovecote.claim({ worker: "w" });
    assert(claim);
    await dovecote.ack(claim);
    expect(await dovecote.page()).toMatchObject({
      entries: [{ rowId: claim.rowId, delivery: { state: "delivered" } }],
    });

    await last.unsafe(`drop index ${quoteIdentifier(name)}.dovecote_deliveries_pending`);
    expect(await dovecote.checkSchema()).toMatchObject({
      status: "changed",
      findings: [{ problem: "missing" }],
    });
  });
});

describe("schemaSql", () => {
  it("SCHEMA-01: run by hand it equals migrate", async () => {
    for (const name of [`by hand ${randomUUID()}`, `it's "$1" ${randomUUID().slice(0, 8)}`]) {
      const sql = connect();
      const last = connect();
      onTestFinished(() =>
        last.unsafe(`drop schema if exists ${quoteIdentifier(name)} cascade`).then(() => {}),
      );
      await sql.begin((tx) => tx.unsafe(schemaSql(name)).simple());
      const dovecote = postgres(sql, { schema: name });
      expect(await dovecote.checkSchema()).toEqual({ status: "ok", version: 2, findings: [] });
      expect(await dovecote.migrate()).toEqual({ applied: [], version: 2 });
      await dovecote.transaction((tx) => dovecote.enqueue(tx, event("1")));
      expect(await dovecote.claim({ worker: "w" })).toHaveLength(1);
    }
  });
});

describe("SCHEMA-05: the marker", () => {
  const mark = (other: postgresClient.Sql, schema: string, version: number, requires: number) =>
    other`update ${other(schema)}.dovecote_schema set version = ${version}, requires = ${requires}`;

  it("a later version that only adds: this code works on, before and after it looks", async () => {
    const { sql, dovecote, schema, other } = await inUse();
    const q = quoteIdentifier(schema);
    // Prepared on every connection before the columns come.
    for (const store of [dovecote, postgres(sql, { schema })]) {
      await store.page();
      await store.list({ state: "claimed" });
    }
    await other.unsafe(`create table ${q}.dovecote_more (id integer primary key);
      alter table ${q}.dovecote_deliveries add column priority integer not null default 0;
      alter table ${q}.dovecote_events add column origin text;
      create index dovecote_deliveries_priority on ${q}.dovecote_deliveries (priority) where state = 'pending'`);
    await mark(other, schema, 2, 1);
    for (const store of [dovecote, postgres(sql, { schema })]) {
      const id = randomUUID();
      await sql.begin((tx) => store.enqueue(tx, event(id)));
      const claims = await store.claim({ worker: "w", limit: 100 });
      expect(claims.map((claim) => "id" in claim.event && claim.event.id)).toContain(id);
      await store.renew(claims);
      expect(await store.ack(claims)).toEqual(claims.map(() => ({ outcome: "applied" })));
      expect((await store.page()).entries.length).toBeGreaterThan(2);
      expect((await store.list({ state: "claimed" })).entries).toHaveLength(1);
      expect(await store.checkSchema()).toEqual({ status: "ok", version: 2, findings: [] });
      expect(await store.migrate()).toEqual({ applied: [], version: 2 });
    }
  });

  it.each([
    ["SCHEMA_TOO_NEW", "tooNew", 3, 3],
    ["SCHEMA_TOO_OLD", "tooOld", 0, 0],
  ] as const)("%s: nothing is read or written", async (code, status, version, requires) => {
    const { schema, dovecote, other, writes } = await inUse();
    await mark(other, schema, version, requires);
    const before = await contents(other, schema);
    for (const call of Object.values(writes)) {
      const { retryable } = await refused(code, call);
      expect(retryable).toBe(false);
    }
    expect(await dovecote.checkSchema()).toEqual({ status, version, findings: [] });
    expect(await contents(other, schema)).toEqual(before);
  });

  it("SCHEMA_TOO_NEW: migrate refuses as well, and changes nothing", async () => {
    const { schema, dovecote, other } = await inUse();
    await mark(other, schema, 4, 3);
    const before = await contents(other, schema);
    await refused("SCHEMA_TOO_NEW", () => dovecote.migrate());
    expect(await contents(other, schema)).toEqual(before);
  });

  it("SCHEMA_MISSING: of a schema without the marker's row, until it is migrated", async () => {
    const { schema, dovecote, other, writes } = await inUse();
    await other`delete from ${other(schema)}.dovecote_schema`;
    for (const call of Object.values(writes)) await refused("SCHEMA_MISSING", call);
    expect(await dovecote.checkSchema()).toMatchObject({ status: "missing", version: null });
  });
});

describe("migrations", () => {
  const lockOf = "pg_advisory_xact_lock(8098991003982651)";

  /** The backend that waits for a connection's lock. */
  async function waitingFor(holder: postgresClient.ReservedSql, other: postgresClient.Sql): Promise<number> {
    const [row] = await holder`select pg_backend_pid() as pid`;
    assert(row);
    let pid: number | undefined;
    await until(async () => {
      const [waiting] = await other`select pid from pg_stat_activity
        where ${row.pid}::integer = any (pg_blocking_pids(pid))`;
      pid = waiting?.pid as number | undefined;
      return pid !== undefined;
    });
    assert(pid !== undefined);
    return pid;
  }

  it("SCHEMA-03: one waits for another, and then finds nothing to do", async () => {
    const { sql, schema } = await freshSchema();
    const other = connect();
    const holder = await connect().reserve();
    await holder.unsafe(`begin; select ${lockOf}`);
    const first = postgres(sql, { schema }).migrate();
    const second = postgres(connect(), { schema }).migrate();
    await until(
      async () =>
        (
          await other`select from pg_locks where locktype = 'advisory' and not granted
          and (classid::bigint << 32 | objid::bigint) = 8098991003982651`
        ).length === 2,
    );
    await holder.unsafe("rollback");
    const reports = await Promise.all([first, second]);
    expect(reports.map(({ applied }) => applied.length).sort()).toEqual([0, 2]);
  });

  it("SCHEMA-03: one that waits too long is STORE_BUSY, retryable, and has done nothing", async () => {
    const { sql, schema } = await freshSchema();
    const other = connect();
    const holder = await connect().reserve();
    await holder.unsafe(`begin; select ${lockOf}`);
    const impatient = new PostgresDriver({ client: sql, ownsClient: false, schema, migrationLockMs: 50 });
    const { retryable, ambiguous } = await refused("STORE_BUSY", () => impatient.migrate());
    expect([retryable, ambiguous]).toEqual([true, false]);
    expect(await objects(other, schema)).toEqual([]);
    await holder.unsafe("rollback");
    expect(await impatient.migrate()).toEqual({ applied: [1, 2], version: 2 });
  });

  it("SCHEMA-04: killed in the middle it leaves nothing, and the next one completes", async () => {
    const { sql, schema } = await freshSchema();
    const other = connect();
    const holder = await connect().reserve();
    // The events come first, then the deliveries: which somebody else is about to make.
    await holder.unsafe(`begin; create table "${schema}".dovecote_deliveries (id integer)`);
    const call = refused("CONNECTION_LOST", () => postgres(sql, { schema }).migrate());
    await killBackend(other, await waitingFor(holder, other));
    const { retryable } = await call;
    expect(retryable).toBe(true);
    await holder.unsafe("rollback");
    expect(await objects(other, schema)).toEqual([]);
    const dovecote = postgres(sql, { schema });
    expect(await dovecote.migrate()).toEqual({ applied: [1, 2], version: 2 });
    expect(await dovecote.checkSchema()).toEqual({ status: "ok", version: 2, findings: [] });
  });

  it("SCHEMA-01: a role that may create tables in the schema, but no schemas, can migrate", async () => {
    const { schema } = await freshSchema();
    const other = connect();
    const name = await role();
    await other.unsafe(`grant usage, create on schema "${schema}" to ${name}`);
    const dovecote = postgres(connect({ username: name, password: ROLE_PASSWORD }), { schema });
    expect(await dovecote.migrate()).toEqual({ applied: [1, 2], version: 2 });
    await dovecote.transaction((tx) => dovecote.enqueue(tx, event("1")));
    expect(await dovecote.claim({ worker: "w" })).toHaveLength(1);
  });
});
