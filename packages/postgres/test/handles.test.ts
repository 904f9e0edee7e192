/** Every kind of handle that can be given to `enqueue`, and those that cannot: by type, and at run time. */
import { sql as drizzleSql } from "drizzle-orm";
import { drizzle as drizzlePg } from "drizzle-orm/node-postgres";
import { drizzle } from "drizzle-orm/postgres-js";
import { sql as drizzleSqlRc } from "drizzle-orm-rc";
import { drizzle as drizzleRc } from "drizzle-orm-rc/postgres-js";
import { CompiledQuery, Kysely, PostgresDialect, type Transaction } from "kysely";
import pg from "pg";
import type postgresClient from "postgres";
import { assert, describe, expect, it, onTestFinished } from "vitest";
import type { PostgresExecutor, PostgresHandle } from "../src/index.ts";
import { connect, event, type Migrated, migrated, refused, serverUrl, written } from "./support.ts";

/** The application's side of one open transaction. */
interface Open {
  readonly handle: PostgresHandle;
  insert(id: string): Promise<unknown>;
}

/** Runs `work` in a transaction of the application's, which commits if it returns. */
type Run = (space: Migrated, work: (open: Open) => Promise<void>) => Promise<unknown>;

function pool(): pg.Pool {
  const made = new pg.Pool({ connectionString: serverUrl(), max: 3 });
  onTestFinished(() => made.end());
  return made;
}

async function client(): Promise<pg.Client> {
  const made = new pg.Client({ connectionString: serverUrl() });
  await made.connect();
  onTestFinished(() => made.end());
  return made;
}

/** By hand, on a client with one connection. */
async function byHand(
  run: (statement: string) => PromiseLike<unknown>,
  work: () => Promise<void>,
): Promise<void> {
  await run("begin");
  try {
    await work();
    await run("commit");
  } catch (error) {
    await run("rollback");
    throw error;
  }
}

function kysely(): Kysely<unknown> {
  const db = new Kysely<unknown>({
    dialect: new PostgresDialect({ pool: new pg.Pool({ connectionString: serverUrl() }) }),
  });
  onTestFinished(() => db.destroy());
  return db;
}

/** As the documentation of {@link PostgresExecutor} says. */
function kyselyHandle(trx: Kysely<unknown> | Transaction<unknown>): PostgresExecutor {
  return {
    query: (text, values) => trx.executeQuery<object>(CompiledQuery.raw(text, values)),
  };
}

const insertText = (schema: string, id: string): string =>
  `insert into ${schema}.business (id) values ('${id}')`;

const HANDLES: Readonly<Record<string, Run>> = {
  "sql.begin": ({ sql, schema }, work) =>
    sql.begin((tx) => work({ handle: tx, insert: async (id) => tx.unsafe(insertText(schema, id)) })),
  "sql.reserve, begun by hand": async ({ sql, schema }, work) => {
    const reserved = await sql.reserve();
    const insert = async (id: string): Promise<unknown> => reserved.unsafe(insertText(schema, id));
    await byHand(
      (statement) => reserved.unsafe(statement),
      () => work({ handle: reserved, insert }),
    ).finally(() => reserved.release());
  },
  "drizzle 0.45": ({ sql, schema }, work) =>
    drizzle(sql).transaction((tx) =>
      work({ handle: tx, insert: async (id) => tx.execute(drizzleSql.raw(insertText(schema, id))) }),
    ),
  "drizzle 1.0 rc": ({ sql, schema }, work) =>
    drizzleRc({ client: sql }).transaction((tx) =>
      work({ handle: tx, insert: async (id) => tx.execute(drizzleSqlRc.raw(insertText(schema, id))) }),
    ),
  "drizzle 0.45 over node-postgres": ({ schema }, work) =>
    drizzlePg(pool()).transaction((tx) =>
      work({ handle: tx, insert: async (id) => tx.execute(drizzleSql.raw(insertText(schema, id))) }),
    ),
  "node-postgres Client": async ({ schema }, work) => {
    const made = await client();
    await byHand(
      (statement) => made.query(statement),
      () => work({ handle: made, insert: (id) => made.query(insertText(schema, id)) }),
    );
  },
  "node-postgres PoolClient": async ({ schema }, work) => {
    const made = await pool().connect();
    await byHand(
      (statement) => made.query(statement),
      () => work({ handle: made, insert: (id) => made.query(insertText(schema, id)) }),
    ).finally(() => made.release());
  },
  "Kysely, through the structural interface": ({ schema }, work) =>
    kysely()
      .transaction()
      .execute((trx) =>
        work({
          handle: kyselyHandle(trx),
          insert: (id) => trx.executeQuery(CompiledQuery.raw(insertText(schema, id))),
        }),
      ),
};

describe.each(Object.entries(HANDLES))("%s", (_name, run) => {
  it("TX-01: event and business row commit together, with what enqueue answers", async () => {
    const space = await migrated();
    const { schema, other, dovecote } = space;
    await run(space, async ({ handle, insert }) => {
      await insert("one");
      expect(await dovecote.enqueue(handle, event("one"))).toEqual({
        outcome: "enqueued",
        rowId: 1,
        id: "one",
      });
      const again = await dovecote.enqueueMany(handle, [
        event("two"),
        event("one"),
        event("one", { type: "x" }),
      ]);
      expect(again.map(({ outcome }) => outcome)).toEqual([
        "enqueued",
        "alreadyEnqueued",
        "identityConflict",
      ]);
      expect((await written(other, schema)).events).toEqual([]);
    });
    expect(await written(other, schema)).toEqual({ events: ["one", "two"], business: ["one"] });
  });

  it("TX-02: a callback that throws leaves nothing", async () => {
    const space = await migrated();
    const { schema, other, dovecote } = space;
    const attempt = run(space, async ({ handle, insert }) => {
      await insert("one");
      await dovecote.enqueue(handle, event("one"));
      throw new Error("changed my mind");
    });
    await expect(attempt).rejects.toThrow("changed my mind");
    expect(await written(other, schema)).toEqual({ events: [], business: [] });
  });

  it("TX-10: concurrent enqueues all land", async () => {
    const space = await migrated();
    const { schema, other, dovecote } = space;
    const names = ["a", "b", "c", "d", "e"];
    await run(space, async ({ handle }) => {
      await Promise.all(names.map((name) => dovecote.enqueue(handle, event(name))));
    });
    expect([...(await written(other, schema)).events].sort()).toEqual(names);
  });

  it("SETTLE-05: redriveIn", async () => {
    const space = await migrated();
    const { other, schema, dovecote } = space;
    const { rowId } = await dovecote.transaction((tx) => dovecote.enqueue(tx, event("one")));
    await dovecote.quarantine(rowId, { reason: "stuck" });
    await run(space, async ({ handle }) => {
      await dovecote.redriveIn(handle, rowId);
      await refused("ILLEGAL_TRANSITION", () => dovecote.redriveIn(handle, rowId));
    });
    const [row] = await other`select state from ${other(schema)}.dovecote_deliveries`;
    expect(row?.state).toBe("pending");
  });
});

describe("TX-05: what is no transaction is refused at run time, and nothing is written", () => {
  it.each<[name: string, make: (sql: postgresClient.Sql) => unknown]>([
    ["the root client of postgres.js", (sql) => sql],
    ["drizzle 0.45's database", (sql) => drizzle(sql)],
    ["drizzle 1.0 rc's database", (sql) => drizzleRc({ client: sql })],
    ["drizzle's database over node-postgres", () => drizzlePg(pool())],
    ["node-postgres's Pool", () => pool()],
    ["node-postgres's Client without a transaction", () => client()],
    ["Kysely without a transaction", () => kyselyHandle(kysely())],
  ])("%s", async (_name, make) => {
    const { sql, schema, other, dovecote } = await migrated();
    const handle = (await make(sql)) as PostgresHandle;
    for (const id of ["one", "two", "three"]) {
      await refused("TX_REQUIRED", () => dovecote.enqueue(handle, event(id)));
      await refused("TX_REQUIRED", () => dovecote.admin().enqueue(handle, event(id), { tenant: "acme" }));
      await refused("TX_REQUIRED", () => dovecote.enqueueMany(handle, [event(`${id}-a`), event(`${id}-b`)]));
    }
    const { rowId } = await dovecote.transaction((tx) => dovecote.enqueue(tx, event("real")));
    await dovecote.quarantine(rowId, { reason: "stuck" });
    await refused("TX_REQUIRED", () => dovecote.redriveIn(handle, rowId));
    await refused("TX_REQUIRED", () => dovecote.redriveIn(handle, {}));
    expect((await written(other, schema)).events).toEqual(["real"]);
    const [row] = await other`select state from ${other(schema)}.dovecote_deliveries`;
    expect(row?.state).toBe("quarantined");
  });

  it.each([null, undefined, 5, "tx", {}, [], () => {}])("ERR-03: %j is no handle", async (wrong) => {
    const { schema, other, dovecote } = await migrated();
    const error = await refused("INVALID_ARGUMENT", () => dovecote.enqueue(wrong as never, event("one")));
    expect(error.path).toBe("tx");
    await refused("INVALID_ARGUMENT", () => dovecote.redriveIn(wrong as never, 1));
    expect((await written(other, schema)).events).toEqual([]);
  });
});

it("TX-05: what is no transaction is refused by type", async () => {
  const accept = (handle: PostgresHandle): PostgresHandle => handle;
  const sql = connect();
  const made = pool();
  // @ts-expect-error: the pool of postgres.js
  accept(sql);
  // @ts-expect-error: the database of drizzle 0.45
  accept(drizzle(sql));
  // @ts-expect-error: the database of drizzle 1.0
  accept(drizzleRc({ client: sql }));
  // @ts-expect-error: the pool of node-postgres
  accept(made);
  // @ts-expect-error: the database of drizzle over node-postgres
  accept(drizzlePg(made));
  // @ts-expect-error: Kysely itself has no `query`
  accept(kysely());
  // @ts-expect-error: nothing
  accept(null);
  // @ts-expect-error: no handle
  accept({});
  // What is one, by type: a Client cannot be told from one without a transaction.
  const accepted: PostgresHandle[] = [accept(new pg.Client()), accept(kyselyHandle(kysely()))];
  expect(accepted).toHaveLength(2);
});

it("TX-01: the handle of our own transaction is the client's own type", async () => {
  const { sql, dovecote } = await migrated({ max: 1 });
  const answer = await dovecote.transaction(async (tx) => {
    const own: postgresClient.ReservedSql = tx.sql;
    const [row] = await own<{ one: number }[]>`select 1 as one`;
    return row?.one;
  });
  expect(answer).toBe(1);
  expect(await sql`select 1 as one`).toEqual([{ one: 1 }]);
});

it("TX-10: a client that cannot pipeline is never given two queries at once", async () => {
  const { schema, other, dovecote } = await migrated();
  const made = await client();
  let running = 0;
  const handle: PostgresExecutor = {
    async query(text, parameters) {
      running += 1;
      assert(running === 1, "a query was sent while another one ran");
      try {
        return await made.query<object>(text, parameters);
      } finally {
        running -= 1;
      }
    },
  };
  await made.query("begin");
  await Promise.all([dovecote.enqueue(handle, event("one")), dovecote.enqueue(handle, event("two"))]);
  await made.query("commit");
  expect([...(await written(other, schema)).events].sort()).toEqual(["one", "two"]);
});

it("TX-04: savepoints of drizzle and node-postgres", async () => {
  const { sql, schema, other, dovecote } = await migrated();
  await drizzle(sql).transaction(async (tx) => {
    const nested = tx.transaction(async (inner) => {
      await dovecote.enqueue(inner, event("dropped"));
      await dovecote.enqueue(tx, event("dropped too"));
      throw new Error("inner");
    });
    await expect(nested).rejects.toThrow("inner");
    await dovecote.enqueue(tx, event("drizzle"));
  });
  const made = await client();
  await made.query("begin");
  await made.query("savepoint here");
  await dovecote.enqueue(made, event("dropped"));
  await made.query("rollback to savepoint here");
  await dovecote.enqueue(made, event("pg"));
  await made.query("commit");
  expect((await written(other, schema)).events).toEqual(["drizzle", "pg"]);
});
