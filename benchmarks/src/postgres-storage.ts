/**
 * What the tables and indexes on Postgres cost: variants of the product's DDL, alternating in one run on one server with
 * fsync, each worked by the floor, so that what is measured is the storage and not the library. Every round enqueues and
 * drains several times over and prunes in between, as an outbox in use does. Time is the processor's, of the backend
 * alone (Linux): the differences are a few percent, and the wall clock has everything else of the machine in it.
 *
 *     node src/postgres-storage.ts [events per cycle] [cycles] [rounds]
 */
import { readFileSync } from "node:fs";
import { schemaSql } from "@dovecote/postgres";
import { startServer } from "@dovecote-internal/postgres-server";
import postgresjs from "postgres";
import { batches } from "./events.ts";
import { PostgresFloor } from "./postgres-floor.ts";
import { alternate, median, ratio, shown } from "./rounds.ts";

const EVENTS = Number(process.argv[2] ?? 5_000);
const CYCLES = Number(process.argv[3] ?? 3);
const ROUNDS = Number(process.argv[4] ?? 5);
const BATCH = 100;
const SCHEMA = "bench";

/** Changes to the product's DDL. */
const VARIANTS: Readonly<Record<string, string>> = {
  product: "",
  "product again": "",
  "fill factor 100": "alter table bench.dovecote_deliveries set (fillfactor = 100)",
  "fill factor 50": "alter table bench.dovecote_deliveries set (fillfactor = 50)",
  "autovacuum by default":
    "alter table bench.dovecote_deliveries reset (autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold)",
  "no pending index by stream": "drop index bench.dovecote_deliveries_pending_stream",
  "no pending index by tenant": "drop index bench.dovecote_deliveries_pending_tenant",
  "no index of expiries by tenant": "drop index bench.dovecote_deliveries_claimed_tenant",
  "no index of delivered rows": "drop index bench.dovecote_deliveries_delivered",
  "no index of events by tenant": "drop index bench.dovecote_events_tenant",
};

type Figure = "enqueue" | "drain" | "wal" | "bytes" | "hot";

// A nap of autovacuum is a minute by default: longer than a round.
const server = await startServer({
  flags: ["-c", "shared_buffers=512MB", "-c", "max_wal_size=4GB", "-c", "autovacuum_naptime=1s"],
});
const sql = postgresjs(server.url, { max: 1, onnotice: () => {} });
const floor = new PostgresFloor(sql, SCHEMA);
const rounds = await alternate<Figure>(
  Object.entries(VARIANTS).map(([name, ddl]) => ({ name, measure: () => measure(ddl) })),
  ROUNDS,
);
await sql.end();
await server.stop();
report();

async function measure(ddl: string): Promise<Readonly<Record<Figure, number>>> {
  await sql.unsafe(`drop schema if exists ${SCHEMA} cascade`);
  await sql.unsafe(schemaSql(SCHEMA));
  await sql.unsafe(ddl);
  await cycle();
  await sql.unsafe("checkpoint");
  const before = await walPosition();
  const spent = { enqueue: 0, drain: 0 };
  for (let done = 0; done < CYCLES; done++) {
    const { enqueue, drain } = await cycle();
    spent.enqueue += enqueue;
    spent.drain += drain;
  }
  const total = EVENTS * CYCLES;
  const [health] = await sql<{ hot: number; bytes: number }[]>`
    select (n_tup_hot_upd::float8 / nullif(n_tup_upd, 0)) as hot,
      pg_total_relation_size(${`${SCHEMA}.dovecote_deliveries`}::regclass)::float8 as bytes
    from pg_stat_user_tables where schemaname = ${SCHEMA} and relname = 'dovecote_deliveries'`;
  return {
    enqueue: spent.enqueue / total,
    drain: spent.drain / total,
    wal: ((await walPosition()) - before) / total,
    bytes: (health?.bytes ?? 0) / EVENTS,
    hot: health?.hot ?? 0,
  };
}

/** Processor time of the backend in µs; what was delivered is pruned afterwards. */
async function cycle(): Promise<{ readonly enqueue: number; readonly drain: number }> {
  const given = batches(EVENTS, BATCH);
  const from = await cpu();
  for (const batch of given) await floor.enqueue(batch);
  const enqueued = await cpu();
  await floor.drain(BATCH);
  const drained = await cpu();
  await sql.unsafe(`with gone as (delete from ${SCHEMA}.dovecote_deliveries returning event_row_id)
    delete from ${SCHEMA}.dovecote_events where row_id = any (array(select event_row_id from gone))`);
  return { enqueue: enqueued - from, drain: drained - enqueued };
}

/** In µs: user and system time, in ticks of 10 ms. */
async function cpu(): Promise<number> {
  const [row] = await sql<{ pid: number }[]>`select pg_backend_pid() as pid`;
  // The name, in parentheses, may hold spaces.
  const fields =
    readFileSync(`/proc/${Number(row?.pid)}/stat`, "latin1")
      .split(") ")[1]
      ?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) * 10_000;
}

async function walPosition(): Promise<number> {
  const [row] = await sql<{ at: number }[]>`select (pg_current_wal_lsn() - '0/0'::pg_lsn)::float8 as at`;
  return row?.at ?? 0;
}

function report(): void {
  const absolute = (figure: Figure, digits = 0): string =>
    median((rounds.get("product") ?? []).map((one) => one[figure])).toFixed(digits);
  console.log(
    `product, medians: enqueue ${absolute("enqueue")} µs, drain ${absolute("drain")} µs per event, WAL ${absolute("wal")} bytes per ` +
      `event with its prune, HOT ${absolute("hot", 2)}, ${absolute("bytes")} bytes of deliveries per event of a cycle\n`,
  );
  console.log(
    "| variant | enqueue, time | drain, time | WAL per event | size of deliveries |\n| --- | --- | --- | --- | --- |",
  );
  for (const name of Object.keys(VARIANTS).slice(1)) {
    const cells = [
      shown(ratio(rounds, "enqueue", name, "product")),
      shown(ratio(rounds, "drain", name, "product")),
      ratio(rounds, "wal", name, "product").median.toFixed(2),
      ratio(rounds, "bytes", name, "product").median.toFixed(2),
    ];
    console.log(`| ${name} | ${cells.join(" | ")} |`);
  }
}
