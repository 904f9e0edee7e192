/**
 * Kills the backend of a caller's own `sql.begin`, and uses its handle late. What postgres.js 3.4.9 does then is its own:
 * it may throw out of a timer, so this is a process of its own, and such throws are only counted.
 */
import { isDovecoteError } from "@dovecote/core";
import postgresClient from "postgres";
import { postgres } from "../src/index.ts";

export interface CallersTransactionTask {
  readonly url: string;
  readonly schema: string;
  /**
   * What has the connection in the dead one's place: nothing, queries of the pool, or the transaction of somebody else.
   */
  readonly successor: "nothing" | "queries" | "transaction";
  /** Whether the transaction had enqueued before it died. */
  readonly used: boolean;
}

export interface CallersTransactionReport {
  /** How `sql.begin` ended. */
  readonly begin: string;
  /** How the late enqueue ended: a code, or `pending`. */
  readonly late: string;
  readonly thrown: number;
}

await main(JSON.parse(String(process.argv[2])) as CallersTransactionTask);

async function main({ url, schema, successor, used }: CallersTransactionTask): Promise<void> {
  let thrown = 0;
  const crashed = Promise.withResolvers<"pending">();
  process.on("uncaughtException", () => {
    thrown += 1;
    crashed.resolve("pending");
  });
  process.on("unhandledRejection", () => {
    thrown += 1;
  });
  const sql = postgresClient(url, { max: 1, onnotice: () => {} });
  const killer = postgresClient(url, { max: 1, onnotice: () => {} });
  const dovecote = postgres(sql, { schema });
  await dovecote.stats(); // the schema is known
  const gate = Promise.withResolvers<void>();
  const late = Promise.withResolvers<string>();
  const begin = code(
    sql.begin(async (tx) => {
      const [backend] = await tx`select pg_backend_pid() as pid`;
      const pid = Number(backend?.pid);
      await tx`insert into ${tx(schema)}.business (id) values ('early')`;
      if (used) await dovecote.enqueue(tx, event("early"));
      await killer`select pg_terminate_backend(${pid}::integer)`;
      while ((await killer`select 1 from pg_stat_activity where pid = ${pid}`).length > 0);
      await gate.promise;
      late.resolve(code(dovecote.enqueue(tx, event("late"))));
      await new Promise(() => {}); // what the client would send at its end is not ours
    }),
  );
  const begun = await begin;
  const lateUse = async (): Promise<string> => {
    gate.resolve();
    return Promise.race([late.promise, crashed.promise]);
  };
  let end: string;
  if (successor === "transaction") {
    end = await sql.begin(async (tx) => {
      await tx`select 1`;
      const ended = await lateUse();
      await tx`insert into ${tx(schema)}.business (id) values ('successor')`;
      return ended;
    });
  } else if (successor === "queries") {
    await Promise.all([sql`select 1`, sql`select 2`]);
    end = await lateUse();
    await sql`insert into ${sql(schema)}.business (id) values ('successor')`;
  } else {
    end = await lateUse();
  }
  const report: CallersTransactionReport = { begin: begun, late: end, thrown };
  process.send?.(report, () => process.exit());
}

function event(id: string): { stream: string; source: string; type: string; id: string } {
  return { stream: "orders", source: "/shop", type: "test", id };
}

async function code(call: PromiseLike<unknown>): Promise<string> {
  try {
    await call;
    return "resolved";
  } catch (error) {
    return isDovecoteError(error) ? error.code : "rejected";
  }
}
