/** Everything that is asked of large tables, one after another on the same load. */
import postgresClient from "postgres";
import { type PostgresDovecote, postgres } from "../../src/index.ts";
import { statementsOf } from "../../src/statements.ts";
import { CALLS, explain, faultsOf, type PlanMode } from "../plan-explain.ts";
import { fillKeys, fillLarge } from "../plan-load.ts";
import { event } from "../support.ts";
import { Timings } from "./timings.ts";

export interface Check {
  readonly name: string;
  readonly fault: string | undefined;
}

export interface GrowthOptions {
  /** Of a server of its own. */
  readonly url: string;
  /** How long a snapshot is held open under load. */
  readonly snapshotSeconds: number;
  readonly print: (line: string) => void;
}

type Store = PostgresDovecote<postgresClient.Sql>;

const SCHEMA = "growth";
const TABLES = ["dovecote_events", "dovecote_deliveries", "dovecote_idempotency_keys", "dovecote_inbox"];
const MODES: readonly PlanMode[] = ["force_generic_plan", "force_custom_plan"];
const ROUNDS = 100;
const BATCH = 100;

export async function growth({ url, snapshotSeconds, print }: GrowthOptions): Promise<readonly Check[]> {
  const sql = postgresClient(url, { max: 8, fetch_types: false, onnotice: () => {} });
  const dovecote = postgres(sql, { schema: SCHEMA });
  await dovecote.migrate();
  for (const table of TABLES) {
    await sql.unsafe(
      `alter table ${SCHEMA}.${table} set (autovacuum_enabled = false); analyze ${SCHEMA}.${table}`,
    );
  }
  await fillLarge(sql, SCHEMA);
  await fillKeys(sql, SCHEMA);
  const checks: Check[] = [];
  checks.push(...(await plans(sql, "statistics of empty tables")));
  await calls(dovecote, "statistics of empty tables", print);
  for (const table of TABLES) {
    await sql.unsafe(`analyze ${SCHEMA}.${table}; alter table ${SCHEMA}.${table} reset (autovacuum_enabled)`);
  }
  checks.push(...(await plans(sql, "fresh statistics")));
  await calls(dovecote, "fresh statistics", print);
  checks.push(...(await snapshotHeldOpen(sql, dovecote, snapshotSeconds, print)));
  checks.push(...(await pruneUnderLoad(sql, dovecote, print)));
  await sql.end();
  return checks;
}

async function plans(sql: postgresClient.Sql, statistics: string): Promise<readonly Check[]> {
  const texts = statementsOf(SCHEMA);
  const checks: Check[] = [];
  await sql.begin(async (tx) => {
    for (const { name, what, parameters } of CALLS) {
      for (const mode of MODES) {
        const faults = faultsOf(await explain(tx, texts[name], parameters, mode));
        checks.push({
          name: `plan of ${name} ${what} (${mode}, ${statistics})`,
          fault: faults.length === 0 ? undefined : faults.join(", "),
        });
      }
    }
  });
  return checks;
}

/** Every call that a store of this size is asked for, by a tenant and by the admin. */
async function calls(dovecote: Store, statistics: string, print: (line: string) => void): Promise<void> {
  const timings = new Timings();
  const [acme, admin] = [dovecote.tenant("acme"), dovecote.admin()];
  const failure = { code: "c", detail: "d" };
  for (let round = 0; round < ROUNDS; round++) {
    for (const [who, handle] of [
      ["tenant", acme],
      ["admin", admin],
    ] as const) {
      const claim = (limit: number) =>
        timings.time(`claim ${limit}, ${who}`, () => handle.claim({ worker: "w", leaseMs: 600_000, limit }));
      await claim(1);
      const claims = await claim(BATCH);
      await timings.time(`renew ${BATCH}, ${who}`, () => handle.renew(claims, { leaseMs: 600_000 }));
      const [acked, retried] = [claims.slice(0, BATCH / 2), claims.slice(BATCH / 2)];
      await timings.time(`ack ${BATCH / 2}, ${who}`, () => handle.ack(acked));
      await timings.time(`retry ${BATCH / 2}, ${who}`, () => handle.retry(retried, { failure, delayMs: 0 }));
      await timings.time(`page 100, ${who}`, () => handle.page({ after: 1_000 * round }));
      await timings.time(`stats, ${who}`, () => handle.stats());
    }
    await timings.time("list 100 delivered, tenant", () => acme.list({ state: "delivered" }));
    await timings.time("list 100 pending, tenant", () => acme.list({ state: "pending" }));
    await timings.time("list 100 claimed, all", () => admin.list({ state: "claimed", all: true }));
    await timings.time("prune 100, tenant", () => acme.prune({ olderThanMs: 1, limit: BATCH }));
    await timings.time("enqueue 1", () => enqueued(dovecote, `${statistics}-${round}`, 1));
    await timings.time(`enqueue ${BATCH}`, () => enqueued(dovecote, `${statistics}-${round}-batch`, BATCH));
    await timings.time("tail 100", () => first(admin.tail({ after: 1_000 * round })));
  }
  print(`\ncalls, with ${statistics}: median, 99th percentile and longest in ms`);
  for (const line of timings.lines()) print(`  ${line}`);
}

function enqueued(dovecote: Store, id: string, count: number): Promise<unknown> {
  const events = Array.from({ length: count }, (_, index) => event(`${id}-${index}`));
  return dovecote.transaction((tx) => dovecote.tenant("acme").enqueueMany(tx, events));
}

async function first(tail: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of tail) return;
}

/** Claims beside a snapshot: what it holds open cannot be vacuumed. */
async function snapshotHeldOpen(
  sql: postgresClient.Sql,
  dovecote: Store,
  seconds: number,
  print: (line: string) => void,
): Promise<readonly Check[]> {
  const acme = dovecote.tenant("acme");
  const work = async (timings: Timings, untilMs: number, name: string): Promise<void> => {
    for (let round = 0; performance.now() < untilMs; round++) {
      await enqueued(dovecote, `${name}-${round}`, BATCH);
      const claims = await timings.time(`claim ${BATCH}, ${name}`, () =>
        acme.claim({ worker: "w", leaseMs: 600_000, limit: BATCH }),
      );
      await timings.time(`ack ${BATCH}, ${name}`, () => acme.ack(claims));
    }
  };
  const timings = new Timings();
  await work(timings, performance.now() + 10_000, "before");
  const snapshot = await dovecote.admin().snapshot();
  const started = performance.now();
  const quarter = (seconds * 1000) / 4;
  for (const part of [1, 2, 3, 4])
    await work(timings, started + part * quarter, `snapshot open, quarter ${part}`);
  const [dead] = await sql`select n_dead_tup::float8 as count from pg_stat_user_tables
    where schemaname = ${SCHEMA} and relname = 'dovecote_deliveries'`;
  let shown = 0;
  for await (const _ of snapshot) {
    shown += 1;
    if (shown === 1000) break;
  }
  for (const table of TABLES) await sql.unsafe(`vacuum ${SCHEMA}.${table}`);
  await work(timings, performance.now() + 10_000, "after it, vacuumed");
  print(`\na snapshot held open for ${seconds} s under load; ${dead?.count} dead rows at its end`);
  for (const line of timings.lines()) print(`  ${line}`);
  return [{ name: "a snapshot of minutes still reads", fault: shown === 1000 ? undefined : `${shown} rows` }];
}

/** Everything that is delivered goes, in batches, while others enqueue, claim and acknowledge. */
async function pruneUnderLoad(
  sql: postgresClient.Sql,
  dovecote: Store,
  print: (line: string) => void,
): Promise<readonly Check[]> {
  const acme = dovecote.tenant("acme");
  const deadlocks = async (): Promise<number> =>
    Number(
      (await sql`select deadlocks from pg_stat_database where datname = current_database()`)[0]?.deadlocks,
    );
  const before = await deadlocks();
  const timings = new Timings();
  const faults: string[] = [];
  const note = (error: unknown): void => void faults.push(String(error));
  const [{ count } = { count: 0 }] = await sql<{ count: number }[]>`select count(*)::float8 as count
    from ${sql(SCHEMA)}.dovecote_deliveries where state = 'delivered' and tenant_id = 'acme'`;
  let pruning = true;
  let inserted = 0;
  const producer = (async () => {
    for (let round = 0; pruning; round++) {
      await timings.time(`enqueue ${BATCH}, while pruning`, () => enqueued(dovecote, `load-${round}`, BATCH));
      inserted += BATCH;
    }
  })().catch(note);
  const workers = [1, 2].map(async () => {
    try {
      while (pruning) {
        const claims = await timings.time(`claim ${BATCH}, while pruning`, () =>
          acme.claim({ worker: "w", leaseMs: 600_000, limit: BATCH }),
        );
        if (claims.length > 0) await timings.time(`ack ${BATCH}, while pruning`, () => acme.ack(claims));
      }
    } catch (error) {
      note(error);
    }
  });
  const started = performance.now();
  let pruned = 0;
  let largest = 0;
  while (pruned < count) {
    const report = await timings.time("prune 1000", () => acme.prune({ olderThanMs: 1, limit: 1000 }));
    pruned += report.pruned;
    largest = Math.max(largest, report.pruned);
    if (!report.more && pruned < count) break;
  }
  const seconds = (performance.now() - started) / 1000;
  pruning = false;
  await Promise.all([producer, ...workers]);
  print(
    `\n${pruned} rows pruned in ${seconds.toFixed(0)} s under load: ${(pruned / seconds).toFixed(0)} per second, `,
  );
  print(`${(pruned / Math.max(1, inserted)).toFixed(1)} times as fast as one producer inserted beside it`);
  for (const line of timings.lines()) print(`  ${line}`);
  const found = (await deadlocks()) - before;
  return [
    {
      name: "prune under load removes what was delivered",
      fault: pruned >= count ? undefined : `${pruned} of ${count}`,
    },
    { name: "batches of prune are bounded", fault: largest <= 1000 ? undefined : `${largest} rows` },
    {
      name: "prune keeps up with inserts",
      fault: pruned > inserted ? undefined : `${inserted} inserted meanwhile`,
    },
    { name: "no deadlock while pruning", fault: found === 0 ? undefined : `${found} deadlocks` },
    { name: "nothing fails while pruning", fault: faults.length === 0 ? undefined : faults.join("; ") },
  ];
}
