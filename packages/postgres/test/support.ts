/** What tests of the Postgres driver share: a client and a schema of their own, gone after the test. */
import { randomUUID } from "node:crypto";
import postgresClient from "postgres";
import { onTestFinished } from "vitest";

export function serverUrl(): string {
  const url = process.env.DOVECOTE_TEST_POSTGRES_URL;
  if (url === undefined) throw new Error("the test server is not running");
  return url;
}

export function connect(options: postgresClient.Options<Record<string, never>> = {}): postgresClient.Sql {
  const sql = postgresClient(serverUrl(), { max: 4, onnotice: () => {}, ...options });
  onTestFinished(() => sql.end({ timeout: 1 }));
  return sql;
}

/** An empty schema with a business table. */
export async function freshSchema(
  options: postgresClient.Options<Record<string, never>> = {},
): Promise<{ readonly sql: postgresClient.Sql; readonly schema: string }> {
  const schema = `test_${randomUUID().replaceAll("-", "")}`;
  const admin = postgresClient(serverUrl(), { max: 1, onnotice: () => {} });
  await admin`create schema ${admin(schema)}`;
  await admin`create table ${admin(schema)}.business (id text primary key)`;
  onTestFinished(async () => {
    await admin`drop schema if exists ${admin(schema)} cascade`;
    await admin.end();
  });
  return { sql: connect(options), schema };
}
