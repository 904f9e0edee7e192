/** Stores of both drivers, each with a table `effects` of the application's own. */
import { join } from "node:path";
import { postgres } from "@dovecote/postgres";
import { sqlite } from "@dovecote/sqlite";
import Database from "better-sqlite3";
import postgresClient from "postgres";
import type { KeyStore } from "../src/handling.ts";

// biome-ignore lint/suspicious/noExplicitAny: of either driver; handlers give it back to `effect` alone.
export type AnyStore = KeyStore<any, any, any>;

export interface Space {
  readonly name: Driver;
  /** Where another process finds it. */
  readonly address: string;
  readonly store: AnyStore;
  /** Its transactions are synchronous. */
  readonly sync: boolean;
  /** In the transaction of a handler. */
  effect(tx: unknown, id: string): unknown;
  effects(): Promise<readonly string[]>;
  /** As if so much time had passed for every record. */
  age(ms: number): Promise<void>;
  close(): Promise<void>;
}

export type Driver = "SQLite" | "Postgres";
export const DRIVERS: readonly Driver[] = ["SQLite", "Postgres"];

/** A store that is there, as another process sees it. */
export function openSpace(driver: Driver, address: string): Space {
  return driver === "SQLite" ? openSqlite(address) : openPostgres(address);
}

function openSqlite(folder: string): Space {
  const db = new Database(join(folder, "shop.db"));
  db.exec("create table if not exists effects (id text)");
  const store = sqlite(db);
  return {
    name: "SQLite",
    address: folder,
    store,
    sync: true,
    effect: (_tx, id) => db.prepare("insert into effects (id) values (?)").run(id),
    async effects() {
      return db.prepare("select id from effects order by id").pluck().all() as string[];
    },
    async age(ms) {
      const micros = ms * 1000;
      db.prepare(
        `update dovecote_idempotency_keys set claim_expires_at = claim_expires_at - ?, completed_at = completed_at - ?,
          sweep_at = sweep_at - ?`,
      ).run(micros, micros, micros);
    },
    async close() {
      await store.close();
      db.close();
    },
  };
}

export function serverUrl(): string {
  const url = process.env.DOVECOTE_TEST_POSTGRES_URL;
  if (url === undefined) throw new Error("the test server is not running");
  return url;
}

function openPostgres(schema: string): Space {
  const sql = postgresClient(serverUrl(), { max: 4, onnotice: () => {} });
  const store = postgres(sql, { schema });
  return {
    name: "Postgres",
    address: schema,
    store,
    sync: false,
    effect: (tx, id) =>
      (tx as { readonly sql: postgresClient.Sql })
        .sql`insert into ${sql(schema)}.effects (id) values (${id})`,
    async effects() {
      return (await sql<{ id: string }[]>`select id from ${sql(schema)}.effects order by id`).map(
        ({ id }) => id,
      );
    },
    async age(ms) {
      const interval = `${ms} milliseconds`;
      await sql`update ${sql(schema)}.dovecote_idempotency_keys set claim_expires_at = claim_expires_at - ${interval}::interval,
        completed_at = completed_at - ${interval}::interval, sweep_at = sweep_at - ${interval}::interval`;
    },
    async close() {
      await store.close();
      await sql.end({ timeout: 1 });
    },
  };
}
