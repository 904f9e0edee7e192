/** What can only be seen of a tail on Postgres: prepared transactions, locks that are no writer's, standbys, reloads. */
import { randomUUID } from "node:crypto";
import { pipeline } from "node:stream/promises";
import type { TailLag } from "@dovecote/core";
import postgresClient from "postgres";
import { describe, expect, it, onTestFinished } from "vitest";
import { type Server, startServer, TEST_FLAGS } from "../../../tools/postgres-server/src/index.ts";
import { PostgresDriver } from "../src/driver.ts";
import { isDecoded, type PostgresDovecote, postgres, schemaSql } from "../src/index.ts";
import { event, migrated, refused, until } from "./support.ts";

const TIMEOUT_MS = 120_000;

interface Tail {
  readonly seen: string[];
  lag(): TailLag | undefined;
  /** Until it has looked again, after this call. */
  looks(times?: number): Promise<void>;
  /** Until it has yielded so many. */
  yields(count: number): Promise<void>;
}

function follow(dovecote: PostgresDovecote<postgresClient.Sql>, after = 0): Tail {
  const seen: string[] = [];
  const end = new AbortController();
  let looks = 0;
  let last: TailLag | undefined;
  let wake: () => void = () => {};
  const onLag = (lag: TailLag): void => {
    last = lag;
    looks += 1;
    wake();
  };
  const reading = (async () => {
    for await (const entry of dovecote.admin().tail({ after, pollMs: 5, signal: end.signal, onLag })) {
      seen.push("undecodable" in entry.event ? "undecodable" : entry.event.id);
    }
  })();
  let failure: unknown;
  reading.catch((error: unknown) => {
    failure = error;
    wake();
  });
  onTestFinished(async () => {
    end.abort();
    await reading;
  });
  const looked = async (done: () => boolean): Promise<void> => {
    while (!done()) {
      if (failure !== undefined) throw failure;
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  };
  return {
    seen,
    lag: () => last,
    looks(times = 3) {
      const wanted = looks + times;
      return looked(() => looks >= wanted);
    },
    yields: (count) => looked(() => seen.length >= count),
  };
}

/** A transaction of the application's that ends by `prepare transaction`. */
async function opened(sql: postgresClient.Sql): Promise<postgresClient.ReservedSql> {
  const connection = await sql.reserve();
  await connection`begin`;
  return connection;
}

async function ownServer(): Promise<Server> {
  const server = await startServer({ flags: TEST_FLAGS });
  onTestFinished(() => server.stop());
  return server;
}

async function storeOn(url: string): Promise<{
  readonly sql: postgresClient.Sql;
  readonly dovecote: PostgresDovecote<postgresClient.Sql>;
}> {
  const sql = postgresClient(url, { max: 4, fetch_types: false, backoff: () => 0.05, onnotice: () => {} });
  onTestFinished(() => sql.end({ timeout: 1 }));
  const dovecote = postgres(sql);
  return { sql, dovecote };
}

const answers = (sql: postgresClient.Sql): Promise<boolean> =>
  sql`select 1`.then(
    () => true,
    () => false,
  );

/** All there is, in one page. */
const EVERYTHING = { tenant: null, stream: null, after: 0, upTo: null, limit: 1000 } as const;

describe("a prepared transaction", () => {
  it("that was prepared before the tail looked holds it up until it commits", async () => {
    const { sql, dovecote, other } = await migrated();
    const name = `prepared-${randomUUID()}`;
    const early = await opened(sql);
    await dovecote.enqueue(early, event("late"));
    await early.unsafe(`prepare transaction '${name}'`);
    early.release();
    await dovecote.transaction((tx) => dovecote.enqueue(tx, event("above")));

    const tail = follow(dovecote);
    await tail.looks();
    expect(tail.seen).toEqual([]);
    await other.unsafe(`commit prepared '${name}'`);
    await tail.yields(2);
    expect(tail.seen).toEqual(["late", "above"]);
  });

  it("that is prepared while the tail waits for it is waited for, also when it had written nothing by then", async () => {
    const { sql, schema, dovecote, other } = await migrated();
    const names = ["written", "unwritten"].map((name) => `${name}-${randomUUID()}`);
    const [written, unwritten] = [await opened(sql), await opened(sql)];
    await dovecote.enqueue(written, event("written"));
    // The lock of an insert, without a transaction id.
    await unwritten.unsafe(`lock table ${schema}.dovecote_events in row exclusive mode`);
    await dovecote.transaction((tx) => dovecote.enqueue(tx, event("above")));

    const tail = follow(dovecote);
    await tail.looks();
    await dovecote.enqueue(unwritten, event("unwritten"));
    for (const [index, connection] of [written, unwritten].entries()) {
      await connection.unsafe(`prepare transaction '${names[index]}'`);
      connection.release();
      await tail.looks();
      expect(tail.seen).toEqual([]);
    }
    await other.unsafe(`commit prepared '${names[0]}'`);
    await tail.looks();
    expect(tail.seen).toEqual([]);
    await other.unsafe(`commit prepared '${names[1]}'`);
    await tail.yields(3);
    expect(tail.seen).toEqual(["written", "above", "unwritten"]);
  });

  it("is waited for across a restart of the server, which gives it another name", {
    timeout: TIMEOUT_MS,
  }, async () => {
    const server = await ownServer();
    const { sql, dovecote } = await storeOn(server.url);
    await dovecote.migrate();
    const early = await opened(sql);
    await dovecote.enqueue(early, event("late"));
    await dovecote.transaction((tx) => dovecote.enqueue(tx, event("above")));
    const driver = new PostgresDriver({ client: sql, ownsClient: false, schema: "public" });
    expect((await driver.tail(EVERYTHING)).rows).toEqual([]);
    await early.unsafe("prepare transaction 'early'");
    early.release();
    await server.halt("fast");
    await server.resume();
    await until(() => answers(sql));
    expect((await driver.tail(EVERYTHING)).rows).toEqual([]);
    await sql.unsafe("commit prepared 'early'");
    expect((await driver.tail(EVERYTHING)).rows.map(({ event: { id } }) => id)).toEqual(["late", "above"]);
  });
});

describe("what holds no tail up", () => {
  it("is a lock that no insert takes, and an insert into another schema", async () => {
    const { sql, schema, dovecote } = await migrated();
    const elsewhere = await migrated();
    await dovecote.transaction((tx) => dovecote.enqueue(tx, event("here")));
    // What VACUUM, ANALYZE and CREATE INDEX CONCURRENTLY take, and a reader.
    const [vacuum, reader, writer] = [await opened(sql), await opened(sql), await opened(elsewhere.sql)];
    await vacuum.unsafe(`lock table ${schema}.dovecote_events in share update exclusive mode`);
    await reader.unsafe(`select 1 from ${schema}.dovecote_events for key share`);
    await elsewhere.dovecote.enqueue(writer, event("there"));
    const tail = follow(dovecote);
    await tail.looks();
    expect(tail.seen).toEqual(["here"]);
    expect(tail.lag()).toMatchObject({ heldBackMs: 0 });
    for (const connection of [vacuum, reader, writer]) {
      await connection`rollback`;
      connection.release();
    }
  });

  it("is a stream of transactions that always overlap", async () => {
    const { sql, dovecote } = await migrated();
    const tail = follow(dovecote);
    let open = await opened(sql);
    await dovecote.enqueue(open, event("0"));
    let n = 0;
    await until(async () => {
      const next = await opened(sql);
      n += 1;
      await dovecote.enqueue(next, event(String(n)));
      await open`commit`;
      open.release();
      open = next;
      await tail.looks(1);
      return tail.seen.length >= 20;
    });
    await open`rollback`;
    open.release();
    expect(tail.seen.slice(0, 20)).toEqual(Array.from({ length: 20 }, (_, index) => String(index)));
  });
});

describe("the cursor of a snapshot", () => {
  it("waits for a writer that ends soon", async () => {
    const { sql, dovecote } = await migrated();
    const { rowId } = await dovecote.transaction((tx) => dovecote.enqueue(tx, event("first")));
    const early = await opened(sql);
    const late = await dovecote.enqueue(early, event("late"));
    const opening = dovecote.admin().snapshot();
    await early`commit`;
    early.release();
    await using snapshot = await opening;
    expect([rowId, late.rowId]).toContain(snapshot.cursor);
    const shown: string[] = [];
    for await (const { rowId: shownId } of snapshot) shown.push(String(shownId));
    expect(shown).toContain(String(snapshot.cursor));
  });

  it("is what was final before, if one stays open", async () => {
    const { sql, dovecote } = await migrated();
    const first = await dovecote.transaction((tx) => dovecote.enqueue(tx, event("first")));
    await (await dovecote.admin().snapshot()).close();
    const early = await opened(sql);
    await dovecote.enqueue(early, event("late"));
    await dovecote.transaction((tx) => dovecote.enqueue(tx, event("above")));
    await using snapshot = await dovecote.admin().snapshot();
    expect(snapshot.cursor).toBe(first.rowId);
    await early`commit`;
    early.release();
    const tail = follow(dovecote, snapshot.cursor);
    await tail.yields(2);
    expect(tail.seen).toEqual(["late", "above"]);
  });
});

describe("another server", { timeout: TIMEOUT_MS }, () => {
  it("that is a standby refuses a tail, and shows snapshots from which nothing is missed", async () => {
    const server = await ownServer();
    const { sql, dovecote } = await storeOn(server.url);
    await dovecote.migrate();
    await dovecote.transaction((tx) => dovecote.enqueue(tx, event("first")));
    await server.halt("fast");
    await server.resume({ standby: true });
    await until(() => answers(sql));
    await refused("STORE_READ_ONLY", async () => {
      for await (const _ of dovecote.admin().tail()) throw new Error("a standby must not be followed");
    });
    await using snapshot = await dovecote.admin().snapshot();
    expect(snapshot.cursor).toBe(0);
    const shown: number[] = [];
    for await (const { rowId } of snapshot) shown.push(rowId);
    expect(shown).toHaveLength(1);

    await sql`select pg_promote()`;
    const { rowId } = await dovecote.transaction((tx) => dovecote.enqueue(tx, event("after the failover")));
    const tail = follow(dovecote, shown[0]);
    await tail.yields(1);
    expect(tail.seen).toEqual(["after the failover"]);
    expect(rowId).toBeGreaterThan(shown[0] ?? 0);
  });

  it("that was loaded from a dump takes the cursors of the first one", async () => {
    const { sql: from, schema, dovecote } = await migrated();
    for (const id of ["1", "2", "3"]) await dovecote.transaction((tx) => dovecote.enqueue(tx, event(id)));
    const [, second] = (await dovecote.admin().page()).entries;
    await dovecote.admin().ack(await dovecote.admin().claim({ worker: "w", limit: 1 }));

    // As pg_dump and a restore do it: definitions, rows by COPY, then the sequences. Transaction ids begin anew.
    const server = await ownServer();
    const restored = await storeOn(server.url);
    await restored.sql.unsafe(`create schema ${schema}; ${schemaSql(schema)}`);
    for (const table of ["dovecote_schema", "dovecote_events", "dovecote_deliveries"]) {
      await restored.sql.unsafe(`truncate ${schema}.${table} cascade`);
    }
    for (const table of ["dovecote_schema", "dovecote_events", "dovecote_deliveries"]) {
      const dump = await from.unsafe(`copy ${schema}.${table} to stdout`).readable();
      await pipeline(dump, await restored.sql.unsafe(`copy ${schema}.${table} from stdin`).writable());
    }
    const [drawn] = await from.unsafe(`select last_value from ${schema}.dovecote_events_row_id_seq`);
    await restored.sql`select setval(${`${schema}.dovecote_events_row_id_seq`}, ${drawn?.last_value})`;

    const store = postgres(restored.sql, { schema });
    expect(await store.checkSchema()).toMatchObject({ status: "ok" });
    await store.transaction((tx) => store.enqueue(tx, event("4")));
    const tail = follow(store, second?.rowId);
    await tail.yields(2);
    expect(tail.seen).toEqual(["3", "4"]);
    expect(
      (await store.admin().claim({ worker: "w", limit: 10 })).map(
        ({ event: stored }) => isDecoded(stored) && stored.id,
      ),
    ).toEqual(["2", "3", "4"]);
  });
});
