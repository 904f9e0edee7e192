/**
 * What the product costs beside the floor on Postgres: the same work on the same tables and the same server, alternating.
 * fsync is on. Ratios above 1 are in the product's favour.
 *
 *     node src/postgres-overhead.ts [events] [rounds]
 */
import { postgres, schemaSql } from "@dovecote/postgres";
import { startServer } from "@dovecote-internal/postgres-server";
import postgresjs from "postgres";
import { batches } from "./events.ts";
import { PostgresFloor } from "./postgres-floor.ts";
import { alternate, median, ratio, shown } from "./rounds.ts";

const EVENTS = Number(process.argv[2] ?? 10_000);
const ROUNDS = Number(process.argv[3] ?? 5);
const SINGLES = Math.ceil(EVENTS / 10);
const SCHEMA = "bench";

const FIGURES = {
  "enqueue 1": { batch: 1, events: SINGLES },
  "enqueue 100": { batch: 100, events: EVENTS },
  "enqueue 1000": { batch: 1000, events: EVENTS },
} as const;
const DRAINS = {
  "drain 1": { batch: 1, events: SINGLES },
  "drain 100": { batch: 100, events: EVENTS },
  "drain 500": { batch: 500, events: EVENTS },
} as const;
type Figure = keyof typeof FIGURES | keyof typeof DRAINS;

interface Worker {
  enqueue(events: ReturnType<typeof batches>[number]): Promise<unknown>;
  drain(batch: number): Promise<unknown>;
}

const server = await startServer({ flags: ["-c", "shared_buffers=512MB", "-c", "max_wal_size=4GB"] });
const sql = postgresjs(server.url, { max: 1, onnotice: () => {} });
const floor = new PostgresFloor(sql, SCHEMA);

const rounds = await alternate<Figure>(
  [
    { name: "product", measure: () => measure(product()) },
    { name: "floor", measure: () => measure(floor) },
  ],
  ROUNDS,
);
await sql.end();
await server.stop();

console.log("| | product, per second | floor, per second | ratio, median (lowest to highest round) |");
console.log("| --- | --- | --- | --- |");
for (const figure of [...Object.keys(FIGURES), ...Object.keys(DRAINS)] as Figure[]) {
  const middle = (name: string): string =>
    Math.round(median((rounds.get(name) ?? []).map((one) => one[figure]))).toString();
  console.log(
    `| ${figure} | ${middle("product")} | ${middle("floor")} | ${shown(ratio(rounds, figure, "product", "floor"))} |`,
  );
}

function product(): Worker {
  const dovecote = postgres(sql, { schema: SCHEMA });
  return {
    enqueue: (events) => dovecote.transaction((tx) => dovecote.enqueueMany(tx, events)),
    async drain(batch) {
      for (;;) {
        const claims = await dovecote.admin().claim({ worker: "bench", limit: batch });
        if (claims.length === 0) return;
        await dovecote.admin().ack(claims);
      }
    },
  };
}

async function measure(worker: Worker): Promise<Readonly<Record<Figure, number>>> {
  await sql.unsafe(`drop schema if exists ${SCHEMA} cascade`);
  await sql.unsafe(schemaSql(SCHEMA));
  for (const batch of batches(500, 100)) await worker.enqueue(batch);
  await worker.drain(100);
  const figures: Partial<Record<Figure, number>> = {};
  const filled = Object.entries(FIGURES) as [keyof typeof FIGURES, { batch: number; events: number }][];
  const drained = Object.entries(DRAINS) as [keyof typeof DRAINS, { batch: number; events: number }][];
  for (const [place, [figure, { batch, events }]] of filled.entries()) {
    const given = batches(events, batch);
    figures[figure] = await perSecond(events, async () => {
      for (const each of given) await worker.enqueue(each);
    });
    const [drain, { batch: claimed }] = drained[place] as (typeof drained)[number];
    figures[drain] = await perSecond(events, () => worker.drain(claimed));
  }
  return figures as Record<Figure, number>;
}

async function perSecond(events: number, work: () => Promise<unknown>): Promise<number> {
  await sql.unsafe("checkpoint");
  const from = performance.now();
  await work();
  return events / ((performance.now() - from) / 1000);
}
