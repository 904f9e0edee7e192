/** The conformance harness of the Postgres driver: a space is a schema, a session a client of its own. */
import { randomUUID } from "node:crypto";
import {
  type AppTransaction,
  defineHarness,
  type Harness,
  type OpenTransaction,
  type Session,
} from "@dovecote/conformance";
import postgresClient from "postgres";
import { PostgresDriver } from "../src/driver.ts";
import { capabilities } from "../src/index.ts";
import { quoteIdentifier } from "../src/schema.ts";
import { statementsOf } from "../src/statements.ts";
import { faultsOf } from "./faults.ts";
import { driverMutants, mutants, sqlMutants } from "./mutants.ts";
import { probeOf } from "./probe.ts";

/** Of the server to test on; whoever runs the suite starts one. */
const URL_VARIABLE = "DOVECOTE_TEST_POSTGRES_URL";

function serverUrl(): string {
  const url = process.env[URL_VARIABLE];
  if (url === undefined) throw new Error(`${URL_VARIABLE} must be the URL of a Postgres server`);
  return url;
}

const harness: Harness = defineHarness({
  driver: { name: "@dovecote/postgres", version: "0.0.0", contract: 1 },
  capabilities,
  mutants,
  async createSpace() {
    const schema = `space-${randomUUID()}`;
    const sql = postgresClient(serverUrl(), { max: 1, onnotice: () => {} });
    await sql`create schema ${sql(schema)}`;
    await sql`create table ${sql(schema)}.business (id text primary key)`;
    return {
      locator: schema,
      async dispose() {
        await sql`drop schema ${sql(schema)} cascade`;
        await sql.end();
      },
    };
  },
  async connect(locator, { mutant }) {
    return connect(String(locator), mutant);
  },
});

export default harness;

function connect(schema: string, mutant: string | undefined): Session {
  const application = `session-${randomUUID()}`;
  const client = postgresClient(serverUrl(), {
    max: 4,
    // A connection that dies while postgres.js fetches types ends the process by an unhandled rejection of its own.
    fetch_types: false,
    onnotice: () => {},
    connection: { application_name: application },
  });
  // Reads, and faults: never a connection of the driver.
  const other = postgresClient(serverUrl(), { max: 6, onnotice: () => {} });
  const original = statementsOf(quoteIdentifier(schema));
  const rewrite = sqlMutants.find(({ name }) => name === mutant);
  const texts = rewrite === undefined ? original : rewrite.texts(original);
  const driver = new PostgresDriver({ client, ownsClient: false, schema, texts });
  const wrap = driverMutants.find(({ name }) => name === mutant)?.wrap;
  return {
    driver: wrap === undefined ? driver : wrap(driver, client, schema),
    root: client,
    transaction: <T>(fn: (tx: AppTransaction) => T) =>
      client.begin((tx) => fn(appTransaction(tx, schema))) as Promise<Awaited<T>>,
    begin: () => begin(client, schema),
    probe: probeOf(other, schema),
    faults: faultsOf(other, schema, application),
    async close() {
      // With a query lost in flight, postgres.js waits for its reply for ever.
      await Promise.all([client.end({ timeout: 1 }), other.end()]);
    },
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
