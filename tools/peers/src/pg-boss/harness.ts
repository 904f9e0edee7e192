/** pg-boss as a black box: a space is a schema of its own, a session an instance and an application's pool. */
import { randomBytes } from "node:crypto";
import {
  type AppTransaction,
  defineHarness,
  type Harness,
  type OpenTransaction,
  type Session,
} from "@dovecote/conformance";
import { Pool, type PoolClient } from "pg";
import { type Db, PgBoss } from "pg-boss";
import { capabilities, pgBossDriver } from "./driver.ts";
import { faultsOf } from "./faults.ts";
import { probeOf } from "./probe.ts";

/** Of the server; whoever runs the suite starts one. */
const URL_VARIABLE = "DOVECOTE_TEST_POSTGRES_URL";

function serverUrl(): string {
  const url = process.env[URL_VARIABLE];
  if (url === undefined) throw new Error(`${URL_VARIABLE} must be the URL of a Postgres server`);
  return url;
}

const harness: Harness = defineHarness({
  driver: { name: "pg-boss", version: "12.38.0", contract: 1 },
  capabilities,
  async createSpace() {
    const schema = `space_${randomBytes(8).toString("hex")}`;
    const pool = new Pool({ connectionString: serverUrl(), max: 1 });
    pool.on("error", () => {});
    await pool.query(`create schema ${schema}_application`);
    await pool.query(`create table ${schema}_application.business (id text primary key)`);
    return {
      locator: schema,
      async dispose() {
        await pool.query(`set client_min_messages = error`);
        await pool.query(`drop schema if exists ${schema}, ${schema}_application cascade`);
        await pool.end();
      },
    };
  },
  connect: async (locator) => connect(String(locator)),
});

export default harness;

/** Who claimed what in this process: cases tell claims apart by the worker, whom pg-boss does not store. */
const claimers = new Map<string, string>();

function connect(schema: string): Session {
  const application = new Pool({ connectionString: serverUrl(), max: 4 });
  const other = new Pool({ connectionString: serverUrl(), max: 6 });
  // A connection that ends while idle is replaced.
  for (const pool of [application, other]) {
    pool.on("error", () => {});
    pool.on("connect", (client) => client.on("error", () => {}));
  }
  const boss = new PgBoss({
    connectionString: serverUrl(),
    schema,
    max: 4,
    // The harness drives what a timer would: expiry is judged before every fetch.
    supervise: false,
    monitorIntervalSeconds: 1,
    schedule: false,
    reindex: false,
    monitorVacuum: false,
  });
  // Reported to the caller of the call that failed as well.
  boss.on("error", () => {});
  const driver = pgBossDriver(boss, (rowId, attempt, worker) =>
    claimers.set(`${schema} ${rowId} ${attempt}`, worker),
  );
  return {
    driver,
    root: databaseOf(application),
    async transaction<T>(fn: (tx: AppTransaction) => T): Promise<Awaited<T>> {
      const client = await application.connect();
      try {
        await client.query("begin");
        const answer = await fn(appTransaction(client, schema));
        await client.query("commit");
        return answer;
      } catch (error) {
        await client.query("rollback");
        throw error;
      } finally {
        client.release();
      }
    },
    begin: async () => begin(await application.connect(), schema),
    probe: probeOf(other, schema, (rowId, attempt) => claimers.get(`${schema} ${rowId} ${attempt}`) ?? null),
    faults: faultsOf(other, schema),
    // The peer's pool is its own.
    settings: async () => ({}),
    async close() {
      await driver.close();
      await Promise.all([application.end(), other.end()]);
    },
  };
}

/** What pg-boss takes as `db`. */
function databaseOf(client: Pool | PoolClient): Db {
  return { executeSql: async (text, values) => client.query(text, values) };
}

function appTransaction(client: PoolClient, schema: string): AppTransaction {
  return {
    handle: databaseOf(client),
    async writeBusinessRow(id) {
      await client.query(`insert into ${schema}_application.business (id) values ($1)`, [id]);
    },
  };
}

async function begin(client: PoolClient, schema: string): Promise<OpenTransaction> {
  await client.query("begin");
  const end = async (statement: string): Promise<void> => {
    await client.query(statement);
    client.release();
  };
  return {
    ...appTransaction(client, schema),
    commit: () => end("commit"),
    rollback: () => end("rollback"),
    async savepoint() {
      await client.query("savepoint application");
      return {
        async rollback() {
          await client.query("rollback to savepoint application");
        },
      };
    },
  };
}
