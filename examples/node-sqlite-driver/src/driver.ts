/** The driver: each method takes the lock that it needs, does its work in one transaction, and leaves. */
import type { DatabaseSync } from "node:sqlite";
import {
  assertSchemaUsable,
  type Capabilities,
  type ClaimedRow,
  type ClaimRequest,
  DovecoteError,
  type Driver,
  type DriverSnapshot,
  type EnqueueOutcome,
  type EnqueueRow,
  judgeSchema,
  type ListRequest,
  type MigrateReport,
  type PageRequest,
  type PruneRequest,
  type RedriveFilter,
  type RedriveOutcome,
  type RenewItem,
  type RenewOutcome,
  type SchemaReport,
  type SettleItem,
  type SettleOutcome,
  type StatsRecord,
  type StoredRow,
  type TailPage,
} from "@dovecote/core";
import { capabilities } from "./capabilities.ts";
import { anyDue, claim } from "./claim.ts";
import {
  clientOf,
  fileOf,
  hasTransaction,
  type NodeSqliteHandle,
  NodeSqliteTransaction,
  prepare,
} from "./client.ts";
import { Connection } from "./connection.ts";
import { enqueue } from "./enqueue.ts";
import { isSchemaFault, toDovecoteError } from "./errors.ts";
import { withLock } from "./lock-wait.ts";
import { prune, reconcile, redrive, redriveMany } from "./operate.ts";
import { inspect, lastRowId, list, openSnapshot, page, stats } from "./read.ts";
import { applyMigrations, checkSchema, NEEDS, readMarker } from "./schema.ts";
import { renew, settle } from "./settle.ts";
import { STATEMENTS, type StatementTexts } from "./statements.ts";

export interface NodeSqliteDriverOptions {
  /** The driver's own from here on: see `openWritable`. */
  readonly client: DatabaseSync;
  readonly busyBudgetMs: number;
  /** Replaced by the mutants of the conformance suite. */
  readonly texts?: StatementTexts;
}

/**
 * Works on a connection of its own, and touches the application's in `enqueue` and `redriveIn` alone: so nothing else
 * can ever join a transaction that it did not open (TX-07), nor change a setting that is not ours (LIFE-04).
 */
export class NodeSqliteDriver implements Driver<NodeSqliteHandle, true, NodeSqliteTransaction> {
  readonly name = "node-sqlite";
  readonly capabilities: Capabilities = capabilities;
  readonly #own: Connection;
  readonly #file: string;
  readonly #busyBudgetMs: number;
  readonly #texts: StatementTexts;
  /** Connections of the application to the same file, with their prepared statements. */
  readonly #callers = new WeakMap<DatabaseSync, Connection>();
  #schemaChecked = false;
  #closed = false;

  constructor({ client, busyBudgetMs, texts = STATEMENTS }: NodeSqliteDriverOptions) {
    this.#own = new Connection(client, texts);
    this.#file = fileOf(client);
    this.#busyBudgetMs = busyBudgetMs;
    this.#texts = texts;
  }

  async migrate(): Promise<MigrateReport> {
    await this.#attempt("migrate", () => this.#useWal());
    return this.#attempt("migrate", () =>
      this.#own.transaction("immediate", () => applyMigrations(this.#own.client)),
    );
  }

  checkSchema(): Promise<SchemaReport> {
    return this.#attempt("checkSchema", () =>
      this.#own.transaction("deferred", () => checkSchema(this.#own.client)),
    );
  }

  async transaction<T>(fn: (tx: NodeSqliteTransaction) => T): Promise<Awaited<T>> {
    let begun = false;
    const run = (): { readonly result: T } | { readonly thrown: unknown } => {
      try {
        const result = this.#own.transaction("immediate", () => {
          begun = true;
          return runCallback(fn, this.#own.client);
        });
        return { result };
      } catch (thrown) {
        // The lock is waited for before the callback and never after it: the callback runs once.
        if (!begun) throw thrown;
        return { thrown };
      }
    };
    const outcome = await this.#attempt("transaction", run);
    if (!("thrown" in outcome)) return (await outcome.result) as Awaited<T>;
    // What the callback threw reaches the caller untouched; what the commit threw is ours.
    const { thrown } = outcome;
    throw thrown instanceof CallbackFailure ? thrown.thrown : toDovecoteError(thrown, "transaction");
  }

  enqueue(tx: NodeSqliteHandle, tenant: string, rows: readonly EnqueueRow[]): readonly EnqueueOutcome[] {
    return this.#join(tx, "enqueue", (connection) => enqueue(connection, tenant, rows));
  }

  async claim(request: ClaimRequest): Promise<readonly ClaimedRow[]> {
    if (!(await this.#read("claim", (connection) => anyDue(connection, request)))) return [];
    return this.#write("claim", (connection) => claim(connection, request));
  }

  renew(tenant: string | null, items: readonly RenewItem[]): Promise<readonly RenewOutcome[]> {
    return this.#write("renew", (connection) => renew(connection, tenant, items));
  }

  settle(tenant: string | null, items: readonly SettleItem[]): Promise<readonly SettleOutcome[]> {
    return this.#write("settle", (connection) => settle(connection, tenant, items));
  }

  redrive(tenant: string | null, rowId: number): Promise<RedriveOutcome> {
    return this.#write("redrive", (connection) => redrive(connection, tenant, rowId));
  }

  redriveMany(filter: RedriveFilter): Promise<readonly number[]> {
    return this.#write("redrive", (connection) => redriveMany(connection, filter));
  }

  redriveIn(tx: NodeSqliteHandle, tenant: string | null, rowId: number): RedriveOutcome {
    return this.#join(tx, "redriveIn", (connection) => redrive(connection, tenant, rowId));
  }

  redriveManyIn(tx: NodeSqliteHandle, filter: RedriveFilter): readonly number[] {
    return this.#join(tx, "redriveIn", (connection) => redriveMany(connection, filter));
  }

  prune(request: PruneRequest): Promise<number> {
    return this.#write("prune", (connection) => prune(connection, request));
  }

  page(request: PageRequest): Promise<readonly StoredRow[]> {
    return this.#read("page", (connection) => page(connection, request));
  }

  /** One writer at a time draws ascending row ids and commits before the next one draws: every row is final (PAGE-04). */
  tail(request: PageRequest): Promise<TailPage> {
    return this.#read("tail", (connection) => {
      // First: another process may commit between the two.
      const last = lastRowId(connection);
      return {
        rows: page(connection, { ...request, upTo: last }),
        upTo: last,
        lastRowId: last,
        heldBackMs: 0,
      };
    });
  }

  snapshot(): Promise<DriverSnapshot> {
    return this.#attempt("snapshot", () => openSnapshot(this.#file, this.#texts));
  }

  list(request: ListRequest): Promise<readonly StoredRow[]> {
    return this.#read("list", (connection) => list(connection, request));
  }

  stats(tenant: string | null, cap: number): Promise<StatsRecord> {
    return this.#read("stats", (connection) => stats(connection, tenant, cap));
  }

  inspect(tenant: string | null, rowId: number): Promise<StoredRow | null> {
    return this.#read("inspect", (connection) => inspect(connection, tenant, rowId));
  }

  reconcile(rowId: number): Promise<"reconciled" | "alreadyPresent" | "notFound"> {
    return this.#write("reconcile", (connection) => reconcile(connection, rowId));
  }

  async subscribe(): Promise<never> {
    throw new DovecoteError("UNSUPPORTED", "this driver offers no wake-ups; poll");
  }

  async close(): Promise<void> {
    if (!this.#closed) this.#own.client.close();
    this.#closed = true;
  }

  #write<T>(doing: string, work: (connection: Connection) => T): Promise<T> {
    return this.#attempt(doing, () =>
      this.#own.transaction("immediate", () => this.#withSchema(this.#own, work)),
    );
  }

  #read<T>(doing: string, work: (connection: Connection) => T): Promise<T> {
    return this.#attempt(doing, () =>
      this.#own.transaction("deferred", () => this.#withSchema(this.#own, work)),
    );
  }

  /** Waits for the database's lock within the budget. */
  #attempt<T>(doing: string, attempt: () => T): Promise<T> {
    const assertOpen = (): void => {
      if (this.#closed) throw new DovecoteError("CLOSED", `${doing}: the store was closed`);
      // Nobody else uses the connection and no attempt awaits: a transaction on it is one whose callback called us.
      if (!hasTransaction(this.#own.client)) return;
      throw new DovecoteError(
        "TX_OPEN",
        `${doing} is no part of a transaction: call it outside of the callback`,
      );
    };
    return withLock(attempt, { doing, budgetMs: this.#busyBudgetMs, assertOpen });
  }

  /** A call in the caller's open transaction: synchronous, and it waits for nothing. */
  #join<T>(tx: unknown, doing: string, work: (connection: Connection) => T): T {
    const client = clientOf(tx);
    try {
      if (!hasTransaction(client)) {
        const message = `${doing} belongs to a transaction of yours, but none is open on this connection`;
        throw new DovecoteError("TX_REQUIRED", message);
      }
      return this.#withSchema(this.#connectionOf(client), (connection) =>
        connection.savepoint(() => work(connection)),
      );
    } catch (error) {
      throw toDovecoteError(error, doing);
    }
  }

  #connectionOf(client: DatabaseSync): Connection {
    if (client === this.#own.client) return this.#own;
    const known = this.#callers.get(client);
    if (known !== undefined) return known;
    if (fileOf(client) !== this.#file) {
      const message = "the transaction belongs to another database than this store";
      throw new DovecoteError("TX_FOREIGN", message);
    }
    const connection = new Connection(client, this.#texts);
    this.#callers.set(client, connection);
    return connection;
  }

  /** The marker is read at first use, and again after a failure that a changed schema would explain (SCHEMA-05). */
  #withSchema<T>(connection: Connection, work: (connection: Connection) => T): T {
    const assertSchema = (): void => assertSchemaUsable(readMarker(connection.client), NEEDS);
    if (!this.#schemaChecked) assertSchema();
    this.#schemaChecked = true;
    try {
      return work(connection);
    } catch (error) {
      if (isSchemaFault(error)) {
        this.#schemaChecked = false;
        assertSchema();
      }
      throw error;
    }
  }

  /**
   * Readers do not wait for writers. A property of the file, which cannot be set inside a transaction, and not on a
   * file that newer code has claimed.
   */
  #useWal(): void {
    const { client } = this.#own;
    if (judgeSchema(readMarker(client), NEEDS) === "tooNew") return;
    const mode = prepare(client, "pragma journal_mode").get()?.journal_mode;
    if (mode !== "wal") client.exec("pragma journal_mode = wal");
  }
}

/** Carries what a callback threw. */
class CallbackFailure {
  readonly thrown: unknown;

  constructor(thrown: unknown) {
    this.thrown = thrown;
  }
}

/** TX-08: an async function is refused before it runs; a promise from any other one rolls back what it wrote. */
function runCallback<T>(fn: (tx: NodeSqliteTransaction) => T, client: DatabaseSync): T {
  const refused = new DovecoteError("TX_ASYNC", "the callback of a transaction must be synchronous here");
  if (fn.constructor.name === "AsyncFunction") throw refused;
  const tx = new NodeSqliteTransaction(client);
  let result: T;
  try {
    result = fn(tx);
  } catch (thrown) {
    throw new CallbackFailure(thrown);
  } finally {
    tx.end();
  }
  if (typeof (result as { then?: unknown } | null | undefined)?.then !== "function") return result;
  // What it still does is the caller's; its rejection would otherwise end the process.
  Promise.resolve(result).catch(() => {});
  throw refused;
}
