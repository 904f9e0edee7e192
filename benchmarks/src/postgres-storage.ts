/**
 * What the tables and indexes on Postgres cost: variants of the product's DDL, alternating in one run on one server with
 * fsync, medians over rounds, all through the public API. The floor, the same statements by hand, is not measured here.
 *
 *     node src/postgres-storage.ts [events] [rounds]
 */
import { randomBytes } from "node:crypto";
import { postgres, schemaSql } from "@dovecote/postgres";
import { startServer } from "@dovecote-internal/postgres-server";
import postgresjs from "postgres";

const EVENTS = Number(process.argv[2] ?? 10_000);
const ROUNDS = Number(process.argv[3] ?? 5);
const BATCH = 100;
const WARM_UP = 1000;
const SCHEMA = "bench";

interface Variant {
  readonly name: string;
  /** Changes to the product's DDL. */
  readonly ddl: readonly string[];
}

const VARIANTS: readonly Variant[] = [
  { name: "product", ddl: [] },
  { name: "fillfactor 100", ddl: ["alter table bench.dovecote_deliveries set (fillfactor = 100)"] },
  { name: "fillfactor 50", ddl: ["alter table bench.dovecote_deliveries set (fillfactor = 50)"] },
  { name: "no index by stream", ddl: ["drop index bench.dovecote_deliveries_pending_stream"] },
  { name: "no index by tenant", ddl: ["drop index bench.dovecote_deliveries_pending_tenant"] },
  { name: "no expiry by tenant", ddl: ["drop index bench.dovecote_deliveries_claimed_tenant"] },
  { name: "no delivered index", ddl: ["drop index bench.dovecote_deliveries_delivered"] },
  { name: "no events by tenant", ddl: ["drop index bench.dovecote_events_tenant"] },
];

interface Figures {
  readonly enqueue: number;
  readonly drain: number;
  readonly wal: number;
  readonly hot: number;
  readonly bytes: number;
}

const server = await startServer({ flags: ["-c", "shared_buffers=512MB", "-c", "max_wal_size=4GB"] });
const sql = postgresjs(server.url, { max: 4, onnotice: () => {} });
const results = new Map<string, Figures[]>();
for (let round = 1; round <= ROUNDS; round++) {
  for (const variant of VARIANTS) {
    const figures = await measure(variant);
    results.set(variant.name, [...(results.get(variant.name) ?? []), figures]);
    process.stderr.write(`round ${round} of ${ROUNDS}: ${variant.name}\n`);
  }
}
await sql.end();
await server.stop();
report();

async function measure({ ddl }: Variant): Promise<Figures> {
  await sql.unsafe(`drop schema if exists ${SCHEMA} cascade`);
  await sql.unsafe(schemaSql(SCHEMA));
  for (const statement of ddl) await sql.unsafe(statement);
  const dovecote = postgres(sql, { schema: SCHEMA });
  await enqueue(dovecote, WARM_UP);
  await drain(dovecote);
  await sql.unsafe("checkpoint");
  const before = await walPosition();
  const enqueued = performance.now();
  await enqueue(dovecote, EVENTS);
  const drained = performance.now();
  await drain(dovecote);
  const done = performance.now();
  const wal = ((await walPosition()) - before) / EVENTS;
  const [health] = await sql<{ hot: number; bytes: number }[]>`
    select (n_tup_hot_upd::float8 / nullif(n_tup_upd, 0)) as hot,
      pg_total_relation_size(${`${SCHEMA}.dovecote_deliveries`}::regclass)::float8 as bytes
    from pg_stat_user_tables where schemaname = ${SCHEMA} and relname = 'dovecote_deliveries'`;
  await dovecote.close();
  return {
    enqueue: EVENTS / ((drained - enqueued) / 1000),
    drain: EVENTS / ((done - drained) / 1000),
    wal,
    hot: health?.hot ?? 0,
    bytes: (health?.bytes ?? 0) / EVENTS,
  };
}

type Store = ReturnType<typeof postgres>;

async function enqueue(dovecote: Store, count: number): Promise<void> {
  for (let done = 0; done < count; done += BATCH) {
    const events = Array.from({ length: BATCH }, () => ({
      stream: "bench",
      source: "/bench",
      type: "bench.event",
      data: { payload: randomBytes(75).toString("hex") },
    }));
    await dovecote.transaction((tx) => dovecote.enqueueMany(tx, events));
  }
}

async function drain(dovecote: Store): Promise<void> {
  for (;;) {
    const claims = await dovecote.admin().claim({ worker: "bench", limit: BATCH });
    if (claims.length === 0) return;
    await dovecote.admin().ack(claims);
  }
}

async function walPosition(): Promise<number> {
  const [row] = await sql<{ at: number }[]>`select (pg_current_wal_lsn() - '0/0'::pg_lsn)::float8 as at`;
  return row?.at ?? 0;
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}

function report(): void {
  const product = results.get("product") ?? [];
  const ratio = (name: string, figure: keyof Figures): string => {
    const figures = results.get(name) ?? [];
    return median(
      figures.map((one, round) => one[figure] / (product[round]?.[figure] ?? Number.NaN)),
    ).toFixed(2);
  };
  const absolute = (figure: keyof Figures, digits = 0): string =>
    median(product.map((one) => one[figure])).toFixed(digits);
  console.log(
    `product, medians: enqueue ${absolute("enqueue")}/s, drain ${absolute("drain")}/s (batches of ${BATCH}), ` +
      `WAL ${absolute("wal")} bytes per event, HOT ${absolute("hot", 2)}, ${absolute("bytes")} bytes per delivery`,
  );
  console.log("variant as a ratio to the product, median of per-round ratios\n");
  console.log(
    "| variant | enqueue | drain | WAL per event | bytes per delivery |\n| --- | --- | --- | --- | --- |",
  );
  for (const { name } of VARIANTS) {
    const cells = (["enqueue", "drain", "wal", "bytes"] as const).map((figure) => ratio(name, figure));
    console.log(`| ${name} | ${cells.join(" | ")} |`);
  }
}
