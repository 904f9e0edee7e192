/** `dovecote.transaction(fn)`: what becomes of it when its connection dies, its callback fails, or it ends. */
import { type AddressInfo, createConnection, createServer } from "node:net";
import { extname } from "node:path";
import type postgresClient from "postgres";
import { assert, describe, expect, it, onTestFinished } from "vitest";
import type { PostgresTransaction } from "../src/index.ts";
import type { Moment, SafeTransactionReport, SafeTransactionTask } from "./safe-transaction-child.ts";
import { event, killBackend, migrated, refused, runChild, serverUrl, until, written } from "./support.ts";

const ENTRY = new URL(`./safe-transaction-child${extname(import.meta.url)}`, import.meta.url);

/** The bound of TX-06. */
const REJECTED_WITHIN_MS = 2000;

/** 100 kills: the moment, the size of the pool, how many. */
const KILLS: readonly (readonly [moment: Moment, max: number, kills: number])[] = [
  ["quiet", 1, 5],
  ["quiet", 2, 10],
  ["inFlight", 2, 15],
  ["queued", 2, 15],
  ["poolBusy", 2, 15],
  ["poolBusy", 4, 15],
  ["beforeCommit", 2, 10],
  ["duringCommit", 2, 10],
  ["racingCommit", 2, 5],
];

describe("TX-06: the backend is killed", () => {
  it.each(KILLS)("%s, on a pool of %i, %i times", async (moment, max, kills) => {
    const { schema, other } = await migrated();
    await other.unsafe(`
      create function ${schema}.block_commit() returns trigger language plpgsql as $$ begin
        if current_setting('test.block_commit', true) = 'yes' then
          perform pg_advisory_xact_lock(hashtext('${schema}'), 1);
        end if;
        return null;
      end $$;
      create constraint trigger block_commit after insert on ${schema}.business
        deferrable initially deferred for each row execute function ${schema}.block_commit()`);
    const task: SafeTransactionTask = { url: serverUrl(), schema, max, moment, kills };
    const { report, exit } = await runChild<SafeTransactionReport>(ENTRY, task);
    expect(exit).toBe(0);
    expect(report?.faults).toEqual([]);
    const endings = report?.endings ?? [];
    expect(endings).toHaveLength(kills);

    const { events, business } = await written(other, schema);
    const committed = endings.map(({ name }) => name).filter((name) => events.includes(name));
    for (const { name, code, retryable, ambiguous, elapsedMs, late, others } of endings) {
      expect(elapsedMs, name).toBeLessThan(REJECTED_WITHIN_MS);
      for (const end of late) expect(["CONNECTION_LOST", "TX_CLOSED"], `${name}: ${end}`).toContain(end);
      expect(late, name).toHaveLength(2);
      expect(others, name).toEqual(moment === "poolBusy" ? Array(3 * max).fill("resolved") : []);
      if (moment === "racingCommit" && code === "resolved") {
        expect(committed).toContain(name);
        continue;
      }
      expect({ code, retryable }, name).toEqual({ code: "CONNECTION_LOST", retryable: true });
      if (moment === "duringCommit") expect(ambiguous, name).toBe(true);
      else if (moment !== "beforeCommit" && moment !== "racingCommit") expect(ambiguous, name).toBe(false);
      // Only where the commit was sent may it have been applied, and only if nothing held it up.
      if (moment !== "racingCommit" || !ambiguous) expect(committed, name).not.toContain(name);
    }
    // The event and the business row go together, nothing late was written, and the pool worked on.
    expect([...business].sort()).toEqual([...committed].sort());
    const after = endings.map(({ name }) => `${name}-after`);
    expect([...events].sort()).toEqual([...committed, ...after].sort());
  });
});

describe("TX-09: after the end", () => {
  it.each(["commit", "rollback"])("a handle kept beyond the %s sends nothing", async (end) => {
    const { schema, other, dovecote } = await migrated({ max: 1 });
    const handles: { tx: PostgresTransaction<postgresClient.Sql>; sql: postgresClient.ReservedSql }[] = [];
    await dovecote
      .transaction(async (tx) => {
        const { sql } = tx;
        await dovecote.enqueue(tx, event("inside"));
        handles.push({ tx, sql });
        if (end === "rollback") throw new Error("rolled back");
      })
      .catch(() => {});
    const [kept] = handles;
    assert(kept !== undefined);
    const { tx, sql } = kept;
    await refused("TX_CLOSED", () => dovecote.enqueue(tx, event("late")));
    await refused("TX_CLOSED", () => dovecote.redriveIn(tx, 1));
    await refused("TX_CLOSED", async () => sql`insert into ${sql(schema)}.business (id) values ('late')`);
    await refused("TX_CLOSED", async () => sql.unsafe(`insert into ${schema}.business (id) values ('late')`));
    await refused("TX_CLOSED", async () => tx.sql);
    expect(await written(other, schema)).toEqual({
      events: end === "commit" ? ["inside"] : [],
      business: [],
    });
  });

  it("a handle kept beyond the end is refused while another transaction has its connection", async () => {
    const { schema, other, dovecote } = await migrated({ max: 1 });
    const kept = await dovecote.transaction(async (tx) => {
      await dovecote.enqueue(tx, event("first"));
      return { tx, sql: tx.sql };
    });
    await dovecote.transaction(async (tx) => {
      await dovecote.enqueue(tx, event("second"));
      await refused("TX_CLOSED", () => dovecote.enqueue(kept.tx, event("late")));
      await refused("TX_CLOSED", async () => kept.sql`select 1`);
    });
    expect((await written(other, schema)).events).toEqual(["first", "second"]);
  });
});

describe("TX-02: the callback", () => {
  it("its own error comes out unchanged, and nothing is committed", async () => {
    const { schema, other, dovecote } = await migrated();
    const own = new RangeError("no such order");
    const call = dovecote.transaction(async (tx) => {
      await tx.sql`insert into ${tx.sql(schema)}.business (id) values ('one')`;
      await dovecote.enqueue(tx, event("one"));
      throw own;
    });
    await expect(call).rejects.toBe(own);
    expect(await written(other, schema)).toEqual({ events: [], business: [] });
  });

  it("a synchronous throw rolls back as well", async () => {
    const { sql, schema, other, dovecote } = await migrated({ max: 1 });
    const own = new RangeError("at once");
    const call = dovecote.transaction(() => {
      throw own;
    });
    await expect(call).rejects.toBe(own);
    expect(await sql`select 1 as one`).toEqual([{ one: 1 }]);
    expect((await written(other, schema)).events).toEqual([]);
  });

  it("a statement's error that it swallows rejects the call, and nothing is committed", async () => {
    const { schema, other, dovecote } = await migrated();
    const call = dovecote.transaction(async (tx) => {
      await dovecote.enqueue(tx, event("one"));
      await tx.sql`insert into ${tx.sql(schema)}.business (id) values (null)`.catch(() => {});
      return "done";
    });
    await expect(call).rejects.toMatchObject({ code: "TX_CLOSED", cause: { code: "23502" } });
    expect(await written(other, schema)).toEqual({ events: [], business: [] });
  });

  it("a refused enqueue that it swallows leaves the transaction usable", async () => {
    const { schema, other, dovecote } = await migrated();
    await dovecote.transaction(async (tx) => {
      await dovecote.enqueue(tx, event("one"));
      await refused("IDENTITY_CONFLICT", () => dovecote.enqueue(tx, event("one", { data: "other" })));
      await dovecote.enqueue(tx, event("two"));
    });
    expect((await written(other, schema)).events).toEqual(["one", "two"]);
  });

  it("its answer is the call's", async () => {
    const { dovecote } = await migrated();
    const answer = await dovecote.transaction(async (tx) => (await dovecote.enqueue(tx, event("one"))).rowId);
    expect(answer).toBe(1);
  });
});

it("TX-04: rollback to a savepoint drops what came after it, and the handle stays usable", async () => {
  const { schema, other, dovecote } = await migrated();
  await dovecote.transaction(async (tx) => {
    await dovecote.enqueue(tx, event("before"));
    await tx.sql`savepoint here`;
    await dovecote.enqueue(tx, event("dropped"));
    await tx.sql`rollback to savepoint here`;
    await dovecote.enqueue(tx, event("after"));
  });
  expect((await written(other, schema)).events).toEqual(["before", "after"]);
});

it("TX-10: ten transactions at once on a pool of three, each with concurrent enqueues, all commit", async () => {
  const { sql, schema, other, dovecote } = await migrated({ max: 3 });
  const transactions = Array.from({ length: 10 }, (_, n) =>
    dovecote.transaction(async (tx) => {
      await Promise.all([
        tx.sql`insert into ${tx.sql(schema)}.business (id) values (${String(n)})`,
        dovecote.enqueue(tx, event(`${n}-a`)),
        dovecote.enqueue(tx, event(`${n}-b`)),
      ]);
    }),
  );
  const others = Array.from({ length: 10 }, () => sql`select 1`); // of the pool, beside the transactions
  await Promise.all([...transactions, ...others]);
  const { events, business } = await written(other, schema);
  expect(business).toHaveLength(10);
  expect(events).toHaveLength(20);
});

it("TX-06: with a client that fails to connect the call rejects, retryable", async () => {
  const { dovecote } = await migrated({ host: "127.0.0.1", port: 1, connect_timeout: 2 });
  const error = await refused("STORE_UNAVAILABLE", () => dovecote.transaction(() => {}));
  expect(error.retryable).toBe(true);
});

it("TX-06: a transaction right after a kill in mid-query is never ambiguous, and the pool works on", async () => {
  const { sql, schema, other, dovecote } = await migrated({ max: 1 });
  const [backend] = await sql`select pg_backend_pid() as pid`;
  const sleeping = sql`select pg_sleep(60)`.catch(() => {});
  await until(async () => {
    const waiting = await other`select 1 from pg_stat_activity
      where pid = ${Number(backend?.pid)} and wait_event = 'PgSleep'`;
    return waiting.length === 1;
  });
  await killBackend(other, Number(backend?.pid));
  await sleeping;
  // postgres.js 3.4.9 rejects what first waits for the new connection with the error that ended the old one.
  const first = await dovecote
    .transaction((tx) => dovecote.enqueue(tx, event("first")))
    .then(
      () => undefined,
      (error: unknown) => error,
    );
  if (first !== undefined) {
    expect(first).toMatchObject({ code: "CONNECTION_LOST", retryable: true, ambiguous: false });
  }
  await dovecote.transaction((tx) => dovecote.enqueue(tx, event("second")));
  expect((await written(other, schema)).events).toEqual(
    first === undefined ? ["first", "second"] : ["second"],
  );
}, 10_000);

it("RELAY-05: transactions that could not connect leave the pool whole", async () => {
  const { port } = new URL(serverUrl());
  const proxy = createServer((socket) => {
    const upstream = createConnection(Number(port), "127.0.0.1");
    socket.on("error", () => upstream.destroy()).pipe(upstream);
    upstream.on("error", () => socket.destroy()).pipe(socket);
  });
  const listen = (on: number) =>
    new Promise<number>((resolve) =>
      proxy.listen(on, "127.0.0.1", () => resolve((proxy.address() as AddressInfo).port)),
    );
  const at = await listen(0);
  await new Promise((resolve) => proxy.close(resolve));
  onTestFinished(() => void proxy.close());
  const { schema, other, dovecote } = await migrated({ max: 2, host: "127.0.0.1", port: at });
  for (let n = 0; n < 2; n++) await refused("STORE_UNAVAILABLE", () => dovecote.transaction(() => {}));
  await listen(at);
  for (const id of ["one", "two", "three"]) {
    await dovecote.transaction((tx) => dovecote.enqueue(tx, event(id)));
    await dovecote.stats();
  }
  expect((await written(other, schema)).events).toEqual(["one", "two", "three"]);
}, 10_000);

it("TX-06: migrate survives the death of its connection", async () => {
  const { schema, other, sql, dovecote } = await migrated({ max: 2 });
  const holder = await other.reserve();
  await holder`begin`;
  await holder`select pg_advisory_xact_lock(8098991003982651)`;
  const migration = dovecote.migrate();
  const refusal = refused("CONNECTION_LOST", () => migration);
  const waiting = () => other`
    select pid from pg_stat_activity where wait_event = 'advisory' and query like '%8098991003982651%'`;
  let [backend] = await waiting();
  while (backend === undefined) [backend] = await waiting();
  await killBackend(other, Number(backend.pid));
  expect((await refusal).retryable).toBe(true);
  await holder`rollback`;
  holder.release();
  expect(await dovecote.migrate()).toEqual({ applied: [], version: 2 });
  expect(await sql`select 1 as one`).toEqual([{ one: 1 }]);
  expect((await written(other, schema)).events).toEqual([]);
});
