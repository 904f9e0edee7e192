/** The conformance harness of the Postgres driver: a space is a schema, a session a client of its own. */
import { randomUUID } from "node:crypto";
import {
  type AppTransaction,
  type ConnectOptions,
  defineHarness,
  type Harness,
  type OpenTransaction,
  type Session,
} from "@dovecote/conformance";
import type { Capabilities } from "@dovecote/core";
import postgresClient from "postgres";
import type { PostgresExecutor } from "../src/client.ts";
import { PostgresDriver } from "../src/driver.ts";
import { capabilities as offered } from "../src/index.ts";
import { quoteIdentifier } from "../src/schema.ts";
import { statementsOf } from "../src/statements.ts";
import { faultsOf } from "./faults.ts";
import { freezeStatistics, HOSTILE, HOSTILE_ROLE } from "./hostile.ts";
import { mutants } from "./mutants/index.ts";
import { probeOf } from "./probe.ts";
import { startProxy } from "./silent-proxy.ts";

/** Of the server to test on; whoever runs the suite starts one. */
const URL_VARIABLE = "DOVECOTE_TEST_POSTGRES_URL";

/**
 * Where the driver and the application connect to instead, if it is there: a pooler that lends connections by the
 * transaction. It takes few settings from its clients, so that hostile ones are those of a role.
 */
const POOLER_VARIABLE = "DOVECOTE_TEST_POSTGRES_POOLER_URL";

function serverUrl(): string {
  const url = process.env[URL_VARIABLE];
  if (url === undefined) throw new Error(`${URL_VARIABLE} must be the URL of a Postgres server`);
  return url;
}

let observing: postgresClient.Sql | undefined;

/**
 * For spaces, reads and faults: never a connection of a driver. One for the whole process, since a connection is the
 * dearest thing of a case; it lets its sockets go when nothing asks for a second.
 */
function observer(): postgresClient.Sql {
  observing ??= postgresClient(serverUrl(), { max: 10, idle_timeout: 1, onnotice: () => {} });
  return observing;
}

/** With wake-ups, which the driver offers where it is asked to. */
const capabilities: Capabilities = { ...offered, notify: true };

const harness: Harness = defineHarness({
  driver: { name: "@dovecote/postgres", version: "0.0.0", contract: 1 },
  capabilities,
  mutants,
  async createSpace() {
    const schema = `space-${randomUUID()}`;
    const sql = observer();
    await sql.unsafe(`create schema ${quoteIdentifier(schema)} create table business (id text primary key)`);
    return {
      locator: schema,
      async dispose() {
        await sql`drop schema ${sql(schema)} cascade`;
      },
    };
  },
  async connect(locator, options) {
    return connect(String(locator), options);
  },
});

export default harness;

async function connect(schema: string, { mutant, hostile }: ConnectOptions): Promise<Session> {
  const application = `session-${randomUUID()}`;
  const pooler = process.env[POOLER_VARIABLE];
  const url = new URL(pooler ?? serverUrl());
  if (pooler !== undefined && hostile) url.username = HOSTILE_ROLE;
  const client = postgresClient(url.href, {
    max: hostile ? 1 : 4,
    // A connection that dies while postgres.js fetches types ends the process by an unhandled rejection of its own.
    fetch_types: false,
    // In s. By its own, postgres.js waits for up to 20 before it connects again.
    backoff: () => 0.01,
    onnotice: () => {},
    prepare: pooler === undefined,
    connection: { ...(hostile && pooler === undefined && HOSTILE), application_name: application },
  });
  const other = observer();
  if (hostile) await freezeStatistics(other, schema);
  const original = statementsOf(quoteIdentifier(schema));
  const broken = mutants.find(({ name }) => name === mutant);
  const texts = broken !== undefined && "texts" in broken ? broken.texts(original) : original;
  const proxy = await startProxy(serverUrl());
  const listening = postgresClient(proxy.url, { connection: { application_name: application } });
  const listener = {
    client: listening.options,
    ...(broken !== undefined && "listener" in broken && broken.listener),
  };
  const driver = new PostgresDriver({ client, ownsClient: false, schema, texts, listener });
  return {
    driver: broken !== undefined && "wrap" in broken ? broken.wrap(driver, client, schema) : driver,
    root: client,
    otherRoots: [executorOf(client)],
    transaction: <T>(fn: (tx: AppTransaction) => T) =>
      client.begin((tx) => fn(appTransaction(tx, schema))) as Promise<Awaited<T>>,
    begin: () => begin(client, schema),
    probe: probeOf(other, schema),
    faults: faultsOf(other, schema, application, proxy),
    settings: () => settingsOf(client),
    async close() {
      // With a query lost in flight, postgres.js waits for its reply for ever.
      await client.end({ timeout: 1 });
      await proxy.close();
    },
  };
}

/** What was set on a connection of the pool; calls that come one after another have the same. */
async function settingsOf(client: postgresClient.Sql): Promise<Readonly<Record<string, string>>> {
  const set = await client<{ name: string; setting: string }[]>`
    select name, setting from pg_settings where source = 'session'`;
  return Object.fromEntries(set.map(({ name, setting }) => [name, setting]));
}

/** A pool of a client with a query method, as node-postgres has one: every query may run on another connection. */
function executorOf(client: postgresClient.Sql): PostgresExecutor {
  return {
    query: async (text, parameters) => ({ rows: await client.unsafe<object[]>(text, parameters) }),
  };
}

function appTransaction(sql: postgresClient.TransactionSql, schema: string): AppTransaction {
  return {
    handle: sql,
    async writeBusinessRow(id) {
      await sql`insert into ${sql(schema)}.business (id) values (${id})`;
    },
  };
}

/** Open until it is ended by hand; a rollback is an error that only this function knows. */
async function begin(client: postgresClient.Sql, schema: string): Promise<OpenTransaction> {
  const opened = Promise.withResolvers<postgresClient.TransactionSql>();
  const ending = Promise.withResolvers<void>();
  const undone = new Error("rolled back by hand");
  const transaction = client.begin(async (sql) => {
    opened.resolve(sql);
    await ending.promise;
  });
  transaction.catch(opened.reject);
  const sql = await opened.promise;
  return {
    ...appTransaction(sql, schema),
    async commit() {
      ending.resolve();
      await transaction;
    },
    async rollback() {
      ending.reject(undone);
      await transaction.catch((error: unknown) => {
        if (error !== undone) throw error;
      });
    },
    async savepoint() {
      await sql`savepoint application`;
      return {
        async rollback() {
          await sql`rollback to savepoint application`;
        },
      };
    },
  };
}
