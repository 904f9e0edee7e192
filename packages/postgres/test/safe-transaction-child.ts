/**
 * Kills the backends of transactions of our own, in every moment that matters, and reports how each call ended. A
 * process of its own: what must not happen would end it.
 */
import { setImmediate as immediate } from "node:timers/promises";
import { isDovecoteError } from "@dovecote/core";
import postgresClient from "postgres";
import { postgres } from "../src/index.ts";

export type Moment =
  | "quiet"
  | "inFlight"
  | "queued"
  | "poolBusy"
  | "beforeCommit"
  | "duringCommit"
  | "racingCommit";

export interface SafeTransactionTask {
  readonly url: string;
  readonly schema: string;
  /** Connections of the pool. */
  readonly max: number;
  readonly moment: Moment;
  readonly kills: number;
}

export interface Ending {
  /** The name of the round: what it writes has this id, and no other round's. */
  readonly name: string;
  /** The code of the rejection, `resolved`, or what was thrown that is no error of ours. */
  readonly code: string;
  readonly retryable: boolean;
  readonly ambiguous: boolean;
  /** From sending the kill to the end of the call. */
  readonly elapsedMs: number;
  /** How late uses of the handle ended: in the callback that goes on, and of a `sql` that was kept. */
  readonly late: readonly string[];
  /** How the other queries of the pool ended. */
  readonly others: readonly string[];
}

export interface SafeTransactionReport {
  readonly endings: readonly Ending[];
  readonly faults: readonly string[];
}

interface Round {
  readonly sql: postgresClient.ReservedSql;
  /** Waits for the lock that the killer holds. */
  readonly wait: () => PromiseLike<unknown>;
  readonly kill: () => Promise<void>;
  /** Until the backend of the transaction waits for that lock. */
  readonly blocked: () => Promise<void>;
}

const moments: Readonly<Record<Moment, (round: Round) => Promise<void>>> = {
  async quiet({ kill }) {
    await kill();
    await never();
  },
  async inFlight({ wait, kill, blocked }) {
    await Promise.all([wait(), blocked().then(kill)]);
  },
  async queued({ sql, wait, kill, blocked }) {
    const queued = [
      sql`select 1`,
      sql`select ${"a"}::text`,
      sql.unsafe("select 2"),
      sql`select ${"b"}::text`,
    ];
    await Promise.all([wait(), ...queued, blocked().then(kill)]);
  },
  async poolBusy({ kill }) {
    await kill();
    await never();
  },
  async beforeCommit({ kill }) {
    await kill();
  },
  async duringCommit({ sql, kill, blocked }) {
    // The commit waits for the lock, in a deferred trigger.
    await sql`select set_config('test.block_commit', 'yes', true)`;
    void blocked().then(kill);
  },
  async racingCommit({ kill }) {
    void kill();
  },
};

await main(JSON.parse(String(process.argv[2])) as SafeTransactionTask);

async function main({ url, schema, max, moment, kills }: SafeTransactionTask): Promise<void> {
  const faults: string[] = [];
  process.on("uncaughtException", (error) => faults.push(`uncaughtException: ${error.stack}`));
  process.on("unhandledRejection", (error) => faults.push(`unhandledRejection: ${String(error)}`));
  const sql = postgresClient(url, { max, onnotice: () => {} });
  const killer = postgresClient(url, { max: 2, onnotice: () => {} });
  const dovecote = postgres(sql, { schema });
  const endings: Ending[] = [];
  for (let kill = 0; kill < kills; kill++) endings.push(await round(`${moment}-${max}-${kill}`));
  await dovecote.close();
  await Promise.all([sql.end(), killer.end()]);
  const report: SafeTransactionReport = { endings, faults };
  process.send?.(report, () => process.disconnect());

  async function round(name: string): Promise<Ending> {
    const holder = await killer.reserve();
    await holder`select pg_advisory_lock(hashtext(${schema}), 1)`;
    const gate = Promise.withResolvers<void>();
    const late: PromiseLike<string>[] = [];
    const kept: postgresClient.ReservedSql[] = [];
    let killing: Promise<void> = Promise.resolve();
    let killedAt = 0;
    let others: readonly PromiseLike<string>[] = [];
    const call = dovecote.transaction(async (tx) => {
      const own = tx.sql;
      kept.push(own);
      const [backend] = await own`select pg_backend_pid() as pid`;
      const pid = Number(backend?.pid);
      await own`insert into ${own(schema)}.business (id) values (${name})`;
      await dovecote.enqueue(tx, event(name));
      if (moment === "poolBusy") others = busy();
      late.push(gate.promise.then(() => code(dovecote.enqueue(tx, event(`${name}-late`)))));
      const kill = (): Promise<void> => {
        killedAt = performance.now();
        killing = terminate(pid);
        return killing;
      };
      const blocked = async (): Promise<void> => {
        while ((await killer`select 1 from pg_locks where pid = ${pid} and not granted`).length === 0);
      };
      const wait = () => own`select pg_advisory_xact_lock(hashtext(${schema}), 1)`;
      await moments[moment]({ sql: own, wait, kill, blocked });
    });
    const ending = await outcome(call);
    const elapsedMs = performance.now() - killedAt;
    await killing;
    await holder`select pg_advisory_unlock(hashtext(${schema}), 1)`;
    holder.release();
    const settledOthers = await Promise.all(others);
    // Every place of the pool gets a connection again. A kill that came after the commit is met here; and postgres.js
    // 3.4.9 rejects the first query of a new connection with the error that ended the old one.
    await Promise.all(Array.from({ length: max }, () => code(sql`select 1`)));
    // What is sent before postgres.js has seen the close is never answered.
    await immediate();
    await immediate();
    const probes = await Promise.all(Array.from({ length: max }, () => code(sql`select 1`)));
    faults.push(...probes.filter((probe) => probe !== "resolved"));
    // Only now, with a live connection in the place of the dead one, the handle is used again.
    gate.resolve();
    late.push(
      ...kept.map((own) => code(own`insert into ${own(schema)}.business (id) values (${`${name}-kept`})`)),
    );
    const settledLate = await Promise.all(late);
    await dovecote.transaction((tx) => dovecote.enqueue(tx, event(`${name}-after`)));
    return { name, ...ending, elapsedMs, late: settledLate, others: settledOthers };
  }

  async function terminate(pid: number): Promise<void> {
    await killer`select pg_terminate_backend(${pid}::integer)`;
    while ((await killer`select 1 from pg_stat_activity where pid = ${pid}`).length > 0);
  }

  /** More queries than there are connections: some run, some wait. */
  function busy(): readonly PromiseLike<string>[] {
    return Array.from({ length: 3 * max }, (_, index) =>
      code(sql`select pg_advisory_xact_lock_shared(hashtext(${schema}), 1), ${index}::text as answer`),
    );
  }
}

function never(): Promise<never> {
  return new Promise(() => {});
}

function event(id: string): { stream: string; source: string; type: string; id: string } {
  return { stream: "orders", source: "/shop", type: "test", id };
}

async function code(call: PromiseLike<unknown>): Promise<string> {
  return (await outcome(call)).code;
}

async function outcome(
  call: PromiseLike<unknown>,
): Promise<Pick<Ending, "code" | "retryable" | "ambiguous">> {
  try {
    await call;
    return { code: "resolved", retryable: false, ambiguous: false };
  } catch (error) {
    if (!isDovecoteError(error)) return { code: String(error), retryable: false, ambiguous: false };
    return { code: error.code, retryable: error.retryable, ambiguous: error.ambiguous };
  }
}
