/** What the driver's own tests start from: a file of their own, and a connection that the driver has no part in. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type DovecoteError, type ErrorCode, isDovecoteError, type NewEvent } from "@dovecote/core";
import Database from "better-sqlite3";
import { assert, expect, onTestFinished } from "vitest";
import { type SqliteDovecote, type SqliteOptions, sqlite } from "../src/index.ts";

export type Store = SqliteDovecote<Database.Database>;

export interface Space {
  readonly folder: string;
  readonly file: string;
  /** A connection to the file; closed after the test. */
  open(options?: Database.Options): Database.Database;
  /** A store on a connection; closed after the test, before the connection. */
  store(db: Database.Database, options?: Omit<SqliteOptions, "synchronous">): Store;
}

/** An empty folder, removed after the test. */
export function createSpace(): Space {
  const folder = mkdtempSync(join(tmpdir(), "dovecote-test-"));
  const file = join(folder, "shop.db");
  const connections: Database.Database[] = [];
  const stores: Store[] = [];
  onTestFinished(async () => {
    for (const store of stores) await store.close();
    for (const connection of connections) connection.close();
    rmSync(folder, { recursive: true });
  });
  return {
    folder,
    file,
    open(options) {
      const connection = new Database(file, options);
      connections.push(connection);
      return connection;
    },
    store(db, options) {
      const store = sqlite(db, options);
      stores.push(store);
      return store;
    },
  };
}

export interface Migrated extends Space {
  /** The connection of the store. */
  readonly db: Database.Database;
  /** Reads back, and does what is done behind the driver's back. */
  readonly other: Database.Database;
  readonly dovecote: Store;
}

/** A migrated store, with a table `business (id)` of the application's own. */
export async function migrated(options?: Omit<SqliteOptions, "synchronous">): Promise<Migrated> {
  const space = createSpace();
  const db = space.open();
  db.exec("create table business (id text primary key)");
  const dovecote = space.store(db, options);
  await dovecote.migrate();
  return { ...space, db, other: space.open(), dovecote };
}

let drawn = 0;

export function event(overrides: Partial<NewEvent> = {}): NewEvent {
  drawn += 1;
  return {
    stream: "orders",
    source: "/shop",
    id: `event-${drawn}`,
    type: "test",
    data: { drawn },
    ...overrides,
  };
}

/** Commits events in a transaction of the caller's and answers their row ids. */
export function enqueued(db: Database.Database, dovecote: Store, count = 1): readonly number[] {
  return db
    .transaction(() => Array.from({ length: count }, () => dovecote.enqueue(db, event()).rowId))
    .immediate();
}

/** Removes every table of the store, and leaves the application's. */
export function dropSchema(db: Database.Database): void {
  for (const table of ["deliveries", "events", "idempotency_keys", "inbox", "schema"]) {
    db.exec(`drop table dovecote_${table}`);
  }
}

/** Every row of the three tables, in comparable form. */
export function contents(other: Database.Database): unknown {
  const tables = other
    .prepare("select name from sqlite_schema where type = 'table' and name not like 'sqlite_%' order by name")
    .pluck()
    .all() as string[];
  return tables.map((name) => [name, other.prepare(`select * from "${name}" order by 1`).all()]);
}

export function ids(other: Database.Database): readonly string[] {
  return other.prepare("select event_id from dovecote_events order by row_id").pluck().all() as string[];
}

export function count(other: Database.Database, table: string): number {
  return other.prepare(`select count(*) from ${table}`).pluck().get() as number;
}

/** The call has to throw or reject with the code; answers the error. */
export async function refused(
  code: ErrorCode,
  call: () => unknown,
  what = "the call",
): Promise<DovecoteError> {
  let answer: unknown;
  try {
    answer = await call();
  } catch (error) {
    assert(isDovecoteError(error), `${what} must be refused with a DovecoteError, got ${String(error)}`);
    expect(error.code, `${what}: ${error.message}`).toBe(code);
    return error;
  }
  assert.fail(`${what} must be refused with ${code}, but answered ${JSON.stringify(answer)}`);
}

/** A claim that nobody holds. */
export const FORGED = { rowId: 1, attempt: 1, token: "0123456789abcdef0123456789abcdef" } as const;

/** Every kind of call that is no part of a caller's transaction, and needs the schema. */
export const LIFECYCLE: readonly (readonly [name: string, call: (dovecote: Store) => Promise<unknown>])[] = [
  ["claim", (dovecote) => dovecote.claim({ worker: "w" })],
  ["admin claim of a stream", (dovecote) => dovecote.admin().claim({ worker: "w", stream: "orders" })],
  ["renew", (dovecote) => dovecote.renew(FORGED)],
  ["ack", (dovecote) => dovecote.ack(FORGED)],
  ["retry", (dovecote) => dovecote.retry(FORGED, { failure: { code: "c", detail: "d" } })],
  ["release", (dovecote) => dovecote.release([FORGED])],
  ["quarantine", (dovecote) => dovecote.quarantine(1, { reason: "r" })],
  ["settle", (dovecote) => dovecote.settle([{ action: "ack", claim: FORGED }])],
  ["redrive", (dovecote) => dovecote.redrive(1)],
  ["redrive by filter", (dovecote) => dovecote.redrive({ dryRun: true })],
  ["prune", (dovecote) => dovecote.prune({ olderThanMs: 1, quarantined: true })],
  ["page", (dovecote) => dovecote.page()],
  ["list", (dovecote) => dovecote.list({ state: "delivered" })],
  ["stats", (dovecote) => dovecote.stats()],
  ["inspect", (dovecote) => dovecote.inspect(1)],
  ["reconcile", (dovecote) => dovecote.admin().reconcile(1)],
  ["snapshot", (dovecote) => dovecote.snapshot().then((snapshot) => snapshot.close())],
  ["subscribe", (dovecote) => dovecote.subscribe(() => {}).then((subscription) => subscription.close())],
  ["tail", (dovecote) => dovecote.tail()[Symbol.asyncIterator]().next()],
];

/** The calls that belong into a caller's transaction. */
export const JOINING: readonly (readonly [
  name: string,
  call: (dovecote: Store, tx: Database.Database) => unknown,
])[] = [
  ["enqueue", (dovecote, tx) => dovecote.enqueue(tx, event())],
  ["enqueueMany", (dovecote, tx) => dovecote.enqueueMany(tx, [event(), event()])],
  ["admin enqueue", (dovecote, tx) => dovecote.admin().enqueue(tx, event(), { tenant: "acme" })],
  ["redriveIn", (dovecote, tx) => dovecote.redriveIn(tx, 1)],
  ["redriveIn by filter", (dovecote, tx) => dovecote.redriveIn(tx, { limit: 1 })],
];
