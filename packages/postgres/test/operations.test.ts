/** docs/operations.md: its queries run, show what they are for, and it says something to every error code. */
import { readFileSync } from "node:fs";
import type postgresClient from "postgres";
import { describe, expect, it, onTestFinished } from "vitest";
import { type PostgresDovecote, postgres } from "../src/index.ts";
import { acquired, named, PRINCIPAL, RESPONSE, request } from "./keys-support.ts";
import {
  connect,
  event,
  type Migrated,
  migrated,
  ROLE_PASSWORD,
  refused,
  role,
  serverUrl,
} from "./support.ts";

type Store = PostgresDovecote<postgresClient.Sql>;

const page = readFileSync(new URL("../../../docs/operations.md", import.meta.url), "utf8");
const queries = [...page.matchAll(/```sql\n(.*?)```/gs)].map(([, text]) => String(text).trim());

/** The query of the page that has these words. */
function query(words: string): string {
  const [found, ...more] = queries.filter((text) => text.includes(words));
  if (found === undefined || more.length > 0) throw new Error(`there must be one query with ${words}`);
  return found;
}

async function reading(schema: string): Promise<postgresClient.Sql> {
  const sql = connect({ max: 1, connection: { search_path: schema } });
  await sql`select 1`;
  return sql;
}

describe("every query of the page", () => {
  it.each(queries.filter((text) => !text.startsWith("set ")))("runs: %s", async (text) => {
    const { schema } = await migrated();
    await (await reading(schema)).unsafe(text);
  });

  it("shows what it is for", async () => {
    const { sql, schema, dovecote } = await migrated();
    for (const id of ["1", "2", "3"]) await dovecote.transaction((tx) => dovecote.enqueue(tx, event(id)));
    await dovecote.claim({ worker: "w1", limit: 2, leaseMs: 600_000 });
    const watching = await reading(schema);
    expect(await watching.unsafe(query("group by tenant_id, stream order by oldest"))).toMatchObject([
      { tenant_id: "default", stream: "orders", due: "1" },
    ]);
    expect(await watching.unsafe(query("group by claimed_by"))).toMatchObject([
      { claimed_by: "w1", claims: "2" },
    ]);
    const { rowId } = await dovecote.transaction((tx) => dovecote.enqueue(tx, event("4")));
    await dovecote.quarantine(rowId, { reason: "spoiled" });
    expect(await watching.unsafe(query("group by tenant_id, stream, last_failure_code"))).toMatchObject([
      { stream: "orders", quarantined: "1" },
    ]);
    expect(await watching.unsafe(query("as last_drawn"))).toMatchObject([{ last_drawn: String(rowId) }]);
    expect(await watching.unsafe(query("reloptions"))).toContainEqual({
      relname: "dovecote_deliveries",
      reloptions: expect.arrayContaining(["autovacuum_vacuum_scale_factor=0.02"]),
    });

    const open = await sql.reserve();
    await open`begin`;
    const [backend] = await open`select pg_backend_pid() as pid`;
    await dovecote.enqueue(open, event("5"));
    const snapshot = await dovecote.admin().snapshot();
    expect((await watching.unsafe(query("RowExclusiveLock"))).map(({ pid }) => pid)).toEqual([backend?.pid]);
    expect((await watching.unsafe(query("backend_xmin"))).length).toBeGreaterThan(0);
    await snapshot.close();
    await open`rollback`;
    open.release();
    expect(await watching.unsafe(query("RowExclusiveLock"))).toEqual([]);
  });
});

it("every error code is on the page", () => {
  const source = readFileSync(new URL("../../core/src/errors.ts", import.meta.url), "utf8");
  const codes = [...source.matchAll(/^ {2}\| "([A-Z_]+)"/gm)].map(([, code]) => String(code));
  expect(codes.length).toBeGreaterThan(30);
  const rows = page.slice(page.indexOf("## What each error asks of you"));
  expect(codes.filter((code) => !rows.includes(`\`${code}\``))).toEqual([]);
});

describe("the rights that the page names", () => {
  const rights = [...page.matchAll(/^\| `(dovecote_\w+)` \| ((?:`\w+`(?:, )?)+) \|$/gm)].flatMap(
    ([, table, list]) => [...String(list).matchAll(/\w+/g)].map(([right]) => [right, String(table)] as const),
  );

  /** A store of a role that has these rights and no others. */
  async function withRights(granted: readonly (readonly [right: string, table: string])[], of?: Migrated) {
    const { schema, other } = of ?? (await migrated());
    const name = await role();
    await other.unsafe(`grant usage on schema ${schema} to ${name}`);
    for (const [right, table] of granted)
      await other.unsafe(`grant ${right} on ${schema}.${table} to ${name}`);
    const url = new URL(serverUrl());
    Object.assign(url, { username: name, password: ROLE_PASSWORD });
    const dovecote = postgres(url.href, { schema, notify: true });
    onTestFinished(() => dovecote.close());
    return { schema, other, name, dovecote };
  }

  async function useOutbox(dovecote: Store): Promise<void> {
    const admin = dovecote.admin();
    const subscription = await admin.subscribe(() => {});
    const { rowId } = await dovecote.transaction((tx) => dovecote.enqueue(tx, event("1")));
    for await (const entry of admin.tail()) {
      expect(entry.event).toMatchObject({ id: "1" });
      break;
    }
    await (await admin.snapshot()).close();
    const claims = await admin.claim({ worker: "w" });
    await admin.renew(claims);
    await admin.quarantine(claims[0] ?? expect.unreachable(), { reason: "r" });
    await dovecote.transaction((tx) => dovecote.redriveIn(tx, rowId));
    await admin.ack(await admin.claim({ worker: "w" }));
    await admin.reconcile(rowId);
    await admin.list({ state: "delivered", all: true });
    expect(await admin.stats()).toMatchObject({ due: { count: 0 } });
    expect(await dovecote.checkSchema()).toMatchObject({ status: "ok" });
    expect(await admin.prune({ olderThanMs: 1, all: true })).toMatchObject({ more: false });
    await subscription.close();
  }

  async function useKeys(dovecote: Store): Promise<void> {
    const { keys } = dovecote;
    const claim = await acquired(dovecote, "held");
    await keys.renew(claim);
    await dovecote.transaction(async (tx) => (await keys.hold(tx, claim)).complete(RESPONSE));
    await keys.complete(await acquired(dovecote, "completed"), RESPONSE);
    await keys.release(await acquired(dovecote, "released"));
    await keys.run(request("run"), () => RESPONSE);
    await keys.begin(request("run"));
    await keys.inspect(named("run"));
    await refused("ILLEGAL_TRANSITION", () => keys.resolve(named("run"), "completed"));
    await keys.list({ stuck: true });
    await keys.sweep();
    expect(await keys.forget({ principal: PRINCIPAL })).toEqual({ forgotten: 3, more: false });
  }

  const once = (dovecote: Store) =>
    dovecote.transaction((tx) =>
      dovecote.inbox.once(tx, { consumer: "c", event: { source: "/shop", id: "1" } }, () => {}),
    );

  async function useAll(dovecote: Store): Promise<void> {
    await useOutbox(dovecote);
    await useKeys(dovecote);
    expect(await once(dovecote)).toMatchObject({ outcome: "first" });
    expect(await once(dovecote)).toMatchObject({ outcome: "seen" });
    await dovecote.keys.sweep();
  }

  it("are enough", async () => {
    const { other, schema, dovecote } = await withRights(rights);
    const tables =
      await other`select tablename from pg_tables where schemaname = ${schema} and tablename like 'dovecote%'`;
    expect(new Set(rights.map(([, table]) => table))).toEqual(
      new Set(tables.map(({ tablename }) => tablename)),
    );
    await useAll(dovecote);
  });

  it.each(rights)("are needed: without %s on %s", async (right, table) => {
    const granted = rights.filter((each) => each[0] !== right || each[1] !== table);
    const { dovecote } = await withRights(granted);
    const { retryable } = await refused("PERMISSION_DENIED", () => useAll(dovecote));
    expect(retryable).toBe(false);
  });

  it("without those on the tables of version 2 the outbox works, and keys are refused", async () => {
    const ofOutbox = rights.filter(([, table]) => !/keys|inbox/.test(table));
    const { dovecote } = await withRights(ofOutbox);
    await useOutbox(dovecote);
    await refused("PERMISSION_DENIED", () => dovecote.keys.begin(request("key")));
    await refused("PERMISSION_DENIED", () => once(dovecote));
  });

  it("of whoever migrates what another role made", async () => {
    const space = await migrated();
    const { other, schema } = space;
    await other.unsafe(`drop table ${schema}.dovecote_idempotency_keys, ${schema}.dovecote_inbox;
      update ${schema}.dovecote_schema set version = 1`);
    const ofOutbox = rights.filter(([, table]) => !/keys|inbox/.test(table));
    const marking = [
      ["insert", "dovecote_schema"],
      ["update", "dovecote_schema"],
    ] as const;
    const { dovecote, name } = await withRights([...ofOutbox, ...marking], space);
    await refused("PERMISSION_DENIED", () => dovecote.migrate());
    await other.unsafe(`grant create on schema ${schema} to ${name}`);
    expect(await dovecote.migrate()).toEqual({ applied: [2], version: 2 });
    await useAll(dovecote);
  });
});
