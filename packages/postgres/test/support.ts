/** What tests of the Postgres driver share: a client and a schema of their own, gone after the test. */
import { fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import { type DovecoteError, type ErrorCode, isDovecoteError, type NewEvent } from "@dovecote/core";
import postgresClient from "postgres";
import { assert, expect, onTestFinished } from "vitest";
import { type PostgresDovecote, postgres } from "../src/index.ts";

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

export interface Migrated {
  /** The client of the store. */
  readonly sql: postgresClient.Sql;
  readonly schema: string;
  readonly dovecote: PostgresDovecote<postgresClient.Sql>;
  /** Reads back, and does what is done behind the driver's back: no connection of the store. */
  readonly other: postgresClient.Sql;
}

/** A migrated store on a client with these options. The migration runs on a plain one. */
export async function migrated(
  options: postgresClient.Options<Record<string, never>> = {},
): Promise<Migrated> {
  const { sql, schema } = await freshSchema(options);
  const other = connect();
  await postgres(other, { schema }).migrate();
  return { sql, schema, other, dovecote: postgres(sql, { schema }) };
}

export function event(id: string, overrides: Partial<NewEvent> = {}): NewEvent {
  return { stream: "orders", source: "/shop", type: "test", id, data: { id }, ...overrides };
}

/** What is committed: events and business rows, by id. */
export async function written(
  other: postgresClient.Sql,
  schema: string,
): Promise<{ readonly events: readonly string[]; readonly business: readonly string[] }> {
  const events = await other`select event_id from ${other(schema)}.dovecote_events order by row_id`;
  const business = await other`select id from ${other(schema)}.business order by id`;
  return {
    events: events.map((row) => String(row.event_id)),
    business: business.map((row) => String(row.id)),
  };
}

export const ROLE_PASSWORD = "s3cret-of-the-role";

/** A role of the test's own, with these attributes and no rights. */
export async function role(attributes = ""): Promise<string> {
  const name = `role_${randomUUID().replaceAll("-", "")}`;
  const admin = postgresClient(serverUrl(), { max: 1, onnotice: () => {} });
  await admin.unsafe(`create role ${name} login password '${ROLE_PASSWORD}' ${attributes}`);
  onTestFinished(async () => {
    await admin.unsafe(`drop owned by ${name}; drop role ${name}`);
    await admin.end();
  });
  return name;
}

/** The call has to reject with the code; answers the error. */
export async function refused(code: ErrorCode, call: () => Promise<unknown>): Promise<DovecoteError> {
  let answer: unknown;
  try {
    answer = await call();
  } catch (error) {
    assert(isDovecoteError(error), `the call must be refused with a DovecoteError, got ${String(error)}`);
    expect(error.code, error.message).toBe(code);
    return error;
  }
  assert.fail(`the call must be refused with ${code}, but answered ${JSON.stringify(answer)}`);
}

/** Asks until the answer is yes. What is asked takes a round trip to the database, which is the pause. */
export async function until(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition()));
}

/** Ends a backend, and answers when it is gone. */
export async function killBackend(other: postgresClient.Sql, pid: number): Promise<void> {
  await other`select pg_terminate_backend(${pid})`;
  await until(async () => (await other`select 1 from pg_stat_activity where pid = ${pid}`).length === 0);
}

/** Runs an entry with one argument until it exits by itself: what it reported last, and how it ended. */
export async function runChild<Report>(
  entry: URL,
  argument: object,
): Promise<{ readonly report: Report | undefined; readonly exit: number | string | null }> {
  const child = fork(fileURLToPath(entry), [JSON.stringify(argument)], {
    execArgv: ["--experimental-strip-types", "--disable-warning=ExperimentalWarning"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  let report: Report | undefined;
  child.on("message", (message) => {
    report = message as Report;
  });
  const exit = await new Promise<number | string | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code, signal) => resolve(code ?? signal));
  });
  return { report, exit };
}
