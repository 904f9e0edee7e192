/** From version 1 to version 2, with rows in the tables and with programs at work that know version 1 alone. */
import { assertSchemaUsable, type SchemaNeeds } from "@dovecote/core";
import { assert, describe, expect, it } from "vitest";
import { postgres, schemaSql } from "../src/index.ts";
import { outbox } from "../src/migrations/0001-outbox.ts";
import { readMarker } from "../src/schema.ts";
import { acquired, pidOf, RESPONSE, request, retried } from "./keys-support.ts";
import { connect, event, freshSchema, type Migrated, refused, until, written } from "./support.ts";

/** What code of version 1 says that it needs. */
const NEEDS_1: SchemaNeeds = { version: 1, needed: 1 };

interface Version1 extends Migrated {
  /** Of version 1, and open. */
  readonly old: Migrated["dovecote"];
}

/** A schema that the first migration made, with events of every kind in every state. `dovecote` has not looked at it yet. */
async function version1(): Promise<Version1> {
  const { sql, schema } = await freshSchema();
  const other = connect();
  await other.unsafe(outbox.sql.replaceAll("{schema}", `"${schema}"`));
  await other`insert into ${other(schema)}.dovecote_schema (id, version, requires) values (1, 2, 1)`;
  // What a store of this code does when it has once looked at the marker, code of version 1 does as well.
  const old = postgres(connect(), { schema });
  await old.stats();
  await other`update ${other(schema)}.dovecote_schema set version = 1, requires = 1`;
  await inEveryState({ old, other, schema });
  return { sql, schema, other, old, dovecote: postgres(sql, { schema }) };
}

async function inEveryState({
  old,
  other,
  schema,
}: Pick<Version1, "old" | "other" | "schema">): Promise<void> {
  const enqueue = (id: string, overrides: Parameters<typeof event>[1] = {}) =>
    old.transaction((tx) => old.enqueue(tx, event(id, overrides)));
  const claimed = async (id: string) => {
    await enqueue(id);
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
  const expired = await claimed("expired");
  await other`update ${other(schema)}.dovecote_deliveries set claim_expires_at = clock_timestamp()
    where event_row_id = ${expired.rowId}`;
  await enqueue("absent", { data: undefined });
  await enqueue("binary", { data: Uint8Array.of(0, 255, 10), subject: "ü 🕊", partitionkey: "p" });
  await enqueue("text", {
    data: "two\nlines",
    datacontenttype: "text/plain",
    extensions: { shop: "a", n: 1 },
  });
}

const TABLES_1 = ["dovecote_events", "dovecote_deliveries"] as const;

/** Every row as text, with what tells whether it was written again, and the files that the tables and indexes are in. */
async function bytes({ other, schema }: Pick<Version1, "other" | "schema">): Promise<unknown> {
  const rows = await Promise.all(
    TABLES_1.map(
      (table) =>
        other`select ctid::text, xmin::text, xmax::text, t::text as row from ${other(schema)}.${other(table)} t order by ctid`,
    ),
  );
  const files = await other`select relname, relkind::text, pg_relation_filenode(oid)::text as file
    from pg_class where relnamespace = ${schema}::regnamespace and relname ~ '^dovecote_(events|deliveries)' order by relname`;
  const constraints = await other`select conname, pg_get_constraintdef(oid) as definition from pg_constraint
    where connamespace = ${schema}::regnamespace and conname ~ '^dovecote_(events|deliveries)' order by conname`;
  const columns =
    await other`select attrelid::regclass::text as table, attname, format_type(atttypid, atttypmod) as type, attnotnull
    from pg_attribute a join pg_class c on c.oid = a.attrelid where relnamespace = ${schema}::regnamespace
    and relname = any (${[...TABLES_1]}) and attnum > 0 order by 1, attnum`;
  return [...rows, files, constraints, columns].map((found) => found.map((row) => ({ ...row })));
}

async function markerOf({ other, schema }: Pick<Version1, "other" | "schema">): Promise<unknown> {
  const rows = await other`select id, version, requires from ${other(schema)}.dovecote_schema`;
  return rows.map((row) => ({ ...row }));
}

/** Everything that a program of version 1 does, in one go, and as it starts. */
async function oldWork({ old, other, schema }: Version1, name: string): Promise<void> {
  const marker = await readMarker(
    async (text) => Object.values((await other.unsafe(text))[0] ?? {})[0] as string | undefined,
    `"${schema}"`,
  );
  assertSchemaUsable(marker, NEEDS_1);
  const scope = old.tenant(name);
  const ids = ["1", "2", "3", "4"].map((id) => `${name}-${id}`);
  await old.transaction(async (tx) => {
    await tx.sql`insert into ${tx.sql(schema)}.business (id) values (${name})`;
    await scope.enqueueMany(
      tx,
      ids.map((id) => event(id)),
    );
  });
  const claims = await scope.claim({ worker: "old", limit: 4 });
  expect(claims).toMatchObject(ids.map((id) => ({ event: { id } })));
  const [acked, retriedOne, quarantined, released] = claims;
  assert(acked && retriedOne && quarantined && released);
  await scope.renew(claims, { leaseMs: 60_000 });
  await scope.ack(acked);
  await scope.retry(retriedOne, { failure: { code: "c", detail: "d" }, delayMs: 0 });
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
  expect((await written(other, schema)).business).toContain(name);
}

describe("SCHEMA-05: this code on a schema of version 1", () => {
  it("is SCHEMA_TOO_OLD before anything is read or written, until it is migrated", async () => {
    const space = await version1();
    const { sql, dovecote } = space;
    const admin = dovecote.admin();
    const claim = {
      tenant: "default",
      scopeDigest: "0".repeat(64),
      keyDigest: "0".repeat(64),
      token: "0".repeat(32),
    };
    const once = { consumer: "c", event: { source: "/shop", id: "1" } };
    const calls: Readonly<Record<string, () => Promise<unknown>>> = {
      enqueue: () => sql.begin((tx) => dovecote.enqueue(tx, event("new"))),
      "enqueue in our own": () => dovecote.transaction((tx) => dovecote.enqueue(tx, event("new"))),
      claim: () => dovecote.claim({ worker: "w" }),
      redrive: () => dovecote.redrive({}),
      prune: () => admin.prune({ olderThanMs: 1, all: true }),
      page: () => dovecote.page(),
      stats: () => dovecote.stats(),
      begin: () => dovecote.keys.begin(request("key")),
      run: () => dovecote.keys.run(request("key"), () => expect.unreachable()),
      hold: () => sql.begin((tx) => dovecote.keys.hold(tx, claim)),
      complete: () => dovecote.keys.complete(claim, RESPONSE),
      "complete in a transaction": () => sql.begin((tx) => dovecote.keys.complete(claim, RESPONSE, tx)),
      renew: () => dovecote.keys.renew(claim),
      release: () => dovecote.keys.release(claim),
      inspect: () => dovecote.keys.inspect({ scope: request("key").scope, key: "key" }),
      list: () => dovecote.keys.list({ stuck: true }),
      sweep: () => dovecote.keys.sweep(),
      forget: () => dovecote.keys.forget({ principal: "user-1" }),
      once: () => sql.begin((tx) => dovecote.inbox.once(tx, once, () => expect.unreachable())),
    };
    const before = [await bytes(space), await markerOf(space)];
    for (const call of Object.values(calls)) {
      const { retryable } = await refused("SCHEMA_TOO_OLD", call);
      expect(retryable).toBe(false);
    }
    expect(await dovecote.checkSchema()).toEqual({ status: "tooOld", version: 1, findings: [] });
    expect([await bytes(space), await markerOf(space)]).toEqual(before);
    await dovecote.migrate();
    expect(await dovecote.checkSchema()).toEqual({ status: "ok", version: 2, findings: [] });
    await dovecote.keys.complete(await acquired(dovecote, "key"), RESPONSE);
    expect(await retried(dovecote, "key")).toBe("replay");
  });
});

describe("the second migration", () => {
  it("touches no byte of version 1, and asks no newer code than that of those who write", async () => {
    const space = await version1();
    const before = await bytes(space);
    expect(await space.dovecote.migrate()).toEqual({ applied: [2], version: 2 });
    expect(await bytes(space)).toEqual(before);
    expect(await markerOf(space)).toEqual([{ id: 1, version: 2, requires: 1 }]);
    expect(await space.dovecote.migrate()).toEqual({ applied: [], version: 2 });
    expect(await bytes(space)).toEqual(before);
  });

  it("by hand, from schemaSql, is the same", async () => {
    const space = await version1();
    const before = await bytes(space);
    await space.other.begin((tx) => tx.unsafe(schemaSql(space.schema)).simple());
    expect(await bytes(space)).toEqual(before);
    expect(await markerOf(space)).toEqual([{ id: 1, version: 2, requires: 1 }]);
    expect(await space.dovecote.checkSchema()).toEqual({ status: "ok", version: 2, findings: [] });
  });

  it("is in nobody's way while it runs, and nobody is in its way: code of version 1 goes on", async () => {
    const space = await version1();
    const { old, other, schema, dovecote } = space;
    await oldWork(space, "before");
    // It makes the keys first, then the inbox, which somebody else is about to make.
    const holder = await connect().reserve();
    await holder.unsafe(`begin; create table "${schema}".dovecote_inbox (id integer)`);
    const pid = await pidOf(holder);
    const begun = await other.reserve();
    await begun`begin`;
    await old.enqueue(begun, event("begun before"));
    const migration = dovecote.migrate();
    await until(async () => {
      const waiting =
        await other`select 1 from pg_stat_activity where ${pid}::integer = any (pg_blocking_pids(pid))`;
      return waiting.length > 0;
    });
    await oldWork(space, "during");
    await holder.unsafe("rollback");
    expect(await migration).toEqual({ applied: [2], version: 2 });
    // It has not waited for what was begun before it, which goes on in the same transaction.
    await old.enqueue(begun, event("begun before, ended after"));
    await begun`commit`;
    begun.release();
    await oldWork(space, "after");
    const { events } = await written(other, schema);
    expect(events).toEqual(expect.arrayContaining(["begun before", "begun before, ended after"]));
    expect(await dovecote.checkSchema()).toEqual({ status: "ok", version: 2, findings: [] });
  });

  it("both versions work beside each other on the same rows", async () => {
    const space = await version1();
    const { old, dovecote } = space;
    await dovecote.migrate();
    await dovecote.transaction(async (tx) => {
      await dovecote.tenant("acme").enqueue(tx, event("of the new"));
    });
    await old.transaction((tx) => old.tenant("acme").enqueue(tx, event("of the old")));
    const [byOld] = await old.tenant("acme").claim({ worker: "old", limit: 1 });
    const [byNew] = await dovecote.tenant("acme").claim({ worker: "new", limit: 1 });
    assert(byOld && byNew);
    await dovecote.tenant("acme").ack(byOld);
    await old.tenant("acme").ack(byNew);
    expect(await dovecote.keys.run(request("key"), () => RESPONSE)).toMatchObject({ outcome: "completed" });
    await oldWork(space, "after");
  });
});

it("SCHEMA-05: schemaSql by hand never lowers a marker", async () => {
  const { sql, schema } = await freshSchema();
  const other = connect();
  await postgres(sql, { schema }).migrate();
  await other`update ${other(schema)}.dovecote_schema set version = 9, requires = 3`;
  await other.begin((tx) => tx.unsafe(schemaSql(schema)).simple());
  expect(await markerOf({ other, schema })).toEqual([{ id: 1, version: 9, requires: 3 }]);
  await refused("SCHEMA_TOO_NEW", () => postgres(sql, { schema }).claim({ worker: "w" }));
});
