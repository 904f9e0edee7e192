/** docs/operations.md: its queries run, show what they are for, and it says something to every error code. */
import { readFileSync } from "node:fs";
import type postgresClient from "postgres";
import { describe, expect, it } from "vitest";
import { postgres } from "../src/index.ts";
import { connect, event, migrated, ROLE_PASSWORD, role, serverUrl } from "./support.ts";

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

it("the rights that the page names are enough", async () => {
  const { schema, other } = await migrated();
  const name = await role();
  await other.unsafe(`grant usage on schema ${schema} to ${name};
    grant select, insert, update, delete on all tables in schema ${schema} to ${name}`);
  const url = new URL(serverUrl());
  Object.assign(url, { username: name, password: ROLE_PASSWORD });
  const dovecote = postgres(url.href, { schema, notify: true });
  const admin = dovecote.admin();
  const subscription = await admin.subscribe(() => {});
  await dovecote.transaction((tx) => dovecote.enqueue(tx, event("1")));
  for await (const entry of admin.tail()) {
    expect(entry.event).toMatchObject({ id: "1" });
    break;
  }
  await (await admin.snapshot()).close();
  await admin.ack(await admin.claim({ worker: "w" }));
  expect(await admin.stats()).toMatchObject({ due: { count: 0 } });
  expect(await dovecote.checkSchema()).toMatchObject({ status: "ok" });
  expect(await admin.prune({ olderThanMs: 1, all: true })).toMatchObject({ more: false });
  await subscription.close();
  await dovecote.close();
});
