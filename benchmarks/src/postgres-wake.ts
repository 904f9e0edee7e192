/**
 * How long an event waits from its commit to its handler, for each way in which a relay hears of it, and what notifying
 * costs those who enqueue. One server, one relay at a time, alternating; fsync is on.
 *
 *     node src/postgres-wake.ts [events] [rounds]
 */
import { performance } from "node:perf_hooks";
import { setTimeout as delay } from "node:timers/promises";
import { type PostgresOptions, postgres } from "@dovecote/postgres";
import { startServer } from "@dovecote-internal/postgres-server";
import postgresjs from "postgres";
import { alternate, median, ratio, shown } from "./rounds.ts";

const EVENTS = Number(process.argv[2] ?? 30);
const ROUNDS = Number(process.argv[3] ?? 5);
/** Who enqueues at once, each with a connection of its own: their commits meet. */
const PRODUCERS = 8;
const COMMITS_EACH = 250;
const SCHEMA = "bench";

type Figure = "median ms" | "longest ms" | "commits per s";

const server = await startServer();
const sql = postgresjs(server.url, { max: PRODUCERS, onnotice: () => {} });
await postgres(sql, { schema: SCHEMA }).migrate();

const form = (name: string, options: PostgresOptions, pollMs: number) => ({
  name,
  measure: async () => ({
    ...(await latencies(options, pollMs)),
    "commits per s": await throughput(options),
  }),
});

const rounds = await alternate<Figure>(
  [
    form("polling every 1000 ms", {}, 1000),
    form("polling every 100 ms", {}, 100),
    form("notify", { notify: true }, 1000),
  ],
  ROUNDS,
);
await sql.end();
await server.stop();

for (const [name, figures] of rounds) {
  const of = (figure: Figure): string => median(figures.map((each) => each[figure])).toFixed(1);
  console.log(`${name}: median ${of("median ms")} ms, longest ${of("longest ms")} ms from commit to handler`);
}
const cost = ratio(rounds, "commits per s", "notify", "polling every 1000 ms");
console.log(`commits per second of ${PRODUCERS} producers, notifying ÷ not: ${shown(cost)}`);

/** One event after another, at moments that have nothing to do with the relay's. */
async function latencies(options: PostgresOptions, pollMs: number) {
  const dovecote = postgres(sql, { schema: SCHEMA, ...options });
  const committed = new Map<string, number>();
  const waited: number[] = [];
  let arrived = Promise.withResolvers<void>();
  const stop = new AbortController();
  const relay = dovecote.relay({
    pollMs,
    deliver: ({ id }) => {
      waited.push(performance.now() - (committed.get(id) ?? performance.now()));
      arrived.resolve();
    },
  });
  const running = relay.run({ signal: stop.signal });
  for (let n = 0; n < EVENTS; n++) {
    await delay(200 + Math.random() * 800);
    arrived = Promise.withResolvers();
    const { id } = await dovecote.transaction(async (tx) => {
      const enqueued = crypto.randomUUID();
      await dovecote.enqueue(tx, { stream: "bench", source: "/bench", type: "bench.event", id: enqueued });
      return { id: enqueued };
    });
    committed.set(id, performance.now());
    await arrived.promise;
  }
  stop.abort();
  await running;
  return { "median ms": median(waited), "longest ms": Math.max(...waited) };
}

async function throughput(options: PostgresOptions): Promise<number> {
  const dovecote = postgres(sql, { schema: SCHEMA, ...options });
  const started = performance.now();
  await Promise.all(
    Array.from({ length: PRODUCERS }, async () => {
      for (let n = 0; n < COMMITS_EACH; n++) {
        await dovecote.transaction((tx) =>
          dovecote.enqueue(tx, { stream: "bench", source: "/bench", type: "bench.event" }),
        );
      }
    }),
  );
  const seconds = (performance.now() - started) / 1000;
  await sql.unsafe(`truncate ${SCHEMA}.dovecote_deliveries, ${SCHEMA}.dovecote_events`);
  return (PRODUCERS * COMMITS_EACH) / seconds;
}
