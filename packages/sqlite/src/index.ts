import {
  BOUNDS,
  checkStoreOptions,
  checkWhole,
  createDovecote,
  type Dovecote,
  type DovecoteOptions,
  invalid,
} from "@dovecote/core";
import {
  clientOf,
  type DrizzleSqlite,
  type SqliteClient,
  type SqliteHandle,
  type SqliteTransaction,
} from "./client.ts";
import { SqliteDriver } from "./driver.ts";
import { openWritable, type Synchronous } from "./open.ts";

// What an application needs beside the store, so that it installs one package.
export {
  type BeginOptions,
  type Begun,
  BOUNDS,
  type Claim,
  type ClaimRef,
  type Delivery,
  DovecoteError,
  type Entry,
  type ErrorCode,
  type Fingerprint,
  fingerprint,
  fromCloudEvent,
  isDecoded,
  isDovecoteError,
  type KeyClaim,
  type KeyResponse,
  type KeyScope,
  type NewEvent,
  type OutboxEvent,
  Quarantine,
  type RecordRunOptions,
  Release,
  RetryLater,
  type RunOptions,
  type RunOutcome,
  recordsByDefault,
  type TransactionRunOptions,
  toStructuredJson,
} from "@dovecote/core";
export { capabilities } from "./capabilities.ts";
export type {
  DrizzleSqlite,
  SqliteClient,
  SqliteHandle,
  SqliteStatement,
  SqliteTransaction,
} from "./client.ts";
export type { Synchronous } from "./open.ts";
export { schemaSql } from "./schema.ts";

/** A store on SQLite: `enqueue` and `redriveIn` are synchronous, everything else answers with promises. */
export type SqliteDovecote<Client extends SqliteClient = SqliteClient> = Dovecote<
  SqliteHandle,
  true,
  SqliteTransaction<Client>
>;

export interface SqliteOptions extends DovecoteOptions {
  /**
   * How long an operation may wait for the database's write lock, in ms. 0 to 600,000, default 20,000. The event loop
   * is never blocked for more than some 10 ms of it at a time.
   */
  readonly busyBudgetMs?: number;
  /** Durability of a connection that is opened from a path. Default `full`. */
  readonly synchronous?: Synchronous;
}

const DEFAULT_BUSY_BUDGET_MS = 20_000;

/**
 * A store on a SQLite database: a better-sqlite3 `Database`, a drizzle database over one, or the path of a file.
 *
 * A client that is passed in stays the caller's: `close` leaves it open, its pragmas are never changed. A path is
 * opened at once, and closed by `close`.
 *
 * @throws `INVALID_ARGUMENT`; `STORE_UNAVAILABLE` or `STORE_CORRUPT` for a path that cannot be opened.
 * @example
 * const db = new Database("shop.db");
 * const dovecote = sqlite(db);
 * await dovecote.migrate();
 * db.transaction(() => {
 *   db.prepare("insert into orders (id) values (?)").run(17);
 *   dovecote.enqueue(db, { stream: "orders", source: "/shop", type: "order.placed", data: { id: 17 } });
 * }).immediate();
 */
export function sqlite<Client extends SqliteClient>(
  client: Client,
  options?: Omit<SqliteOptions, "synchronous">,
): SqliteDovecote<Client>;
export function sqlite(client: DrizzleSqlite, options?: Omit<SqliteOptions, "synchronous">): SqliteDovecote;
export function sqlite(path: string, options?: SqliteOptions): SqliteDovecote;
export function sqlite(
  target: SqliteClient | DrizzleSqlite | string,
  options: SqliteOptions = {},
): SqliteDovecote {
  const { store, driver } = checkStoreOptions(options, ["busyBudgetMs", "synchronous"]);
  const budget = driver.busyBudgetMs === undefined ? DEFAULT_BUSY_BUDGET_MS : driver.busyBudgetMs;
  const busyBudgetMs = checkWhole(budget, BOUNDS.busyBudgetMs, "options.busyBudgetMs");
  const ownsClient = typeof target === "string";
  const client = ownsClient ? openWritable(target, checkSynchronous(driver.synchronous)) : clientOf(target);
  if (!ownsClient && driver.synchronous !== undefined) {
    throw invalid(
      "options.synchronous",
      "absent for a client of yours: set the pragma on it",
      driver.synchronous,
    );
  }
  try {
    return createDovecote(new SqliteDriver({ client, ownsClient, busyBudgetMs }), store);
  } catch (error) {
    if (ownsClient) client.close(); // what was opened turned out to be no database
    throw error;
  }
}

function checkSynchronous(value: unknown): Synchronous {
  if (value !== undefined && value !== "full" && value !== "normal") {
    throw invalid("options.synchronous", "full or normal", value);
  }
  return value ?? "full";
}
