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
  const client = postgresClient(serverUrl(), { max: 4, onnotice: () => {} });
  // Reads, and faults: never a connection of the driver.
  const other = postgresClient(serverUrl(), { max: 6, onnotice: () => {} });
  const original = statementsOf(quoteIdentifier(schema));
  const rewrite = sqlMutants.find(({ name }) => name === mutant);
  const texts = rewrite === undefined ? original : rewrite.texts(original);
  const driver = new PostgresDriver({ client, ownsClient: false, schema, texts });
  const wrap = driverMutants.find(({ name }) => name === mutant)?.wrap;
  return {
    driver: wrap === undefined ? driver : wrap(driver, client, schema),
    transaction: <T>(fn: (tx: AppTransaction) => T) =>
      client.begin((tx) => fn(appTransaction(tx, schema))) as Promise<Awaited<T>>,
    begin: () => begin(client, schema),
    probe: probeOf(other, schema),
    faults: faultsOf(other, schema),
    async close() {
      await Promise.all([client.end(), other.end()]);
    },
  };
}

type Connection = postgresClient.TransactionSql | postgresClient.ReservedSql;

function appTransaction(sql: Connection, schema: string): AppTransaction {
  return {
    handle: sql,
    async writeBusinessRow(id) {
      await sql`insert into ${sql(schema)}.business (id) values (${id})`;
    },
  };
}

async function begin(client: postgresClient.Sql, schema: string): Promise<OpenTransaction> {
  const sql = await client.reserve();
  await sql`begin`;
  const end = async (statement: "commit" | "rollback"): Promise<void> => {
    await sql.unsafe(statement);
    sql.release();
  };
  return {
    ...appTransaction(sql, schema),
    commit: () => end("commit"),
    rollback: () => end("rollback"),
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
