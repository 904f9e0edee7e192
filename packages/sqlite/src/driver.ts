/** The driver of SQLite: each method takes its place on the one connection, does its work in one transaction, leaves. */
import type {
  Capabilities,
  ClaimedRow,
  ClaimRequest,
  Driver,
  DriverSnapshot,
  EnqueueOutcome,
  EnqueueRow,
  KeyDriver,
  ListRequest,
  MigrateReport,
  PageRequest,
  PruneRequest,
  RedriveFilter,
  RedriveOutcome,
  RenewItem,
  RenewOutcome,
  SchemaReport,
  SettleItem,
  SettleOutcome,
  StatsRecord,
  StoredRow,
  TailPage,
} from "@dovecote/core";
import { assertSchemaUsable, DovecoteError, isThenable, judgeSchema } from "@dovecote/core";
import { capabilitiesOf } from "./capabilities.ts";
import { checkSchema } from "./check-schema.ts";
import { anyDue, claim } from "./claim.ts";
import {
  clientOf,
  OwnTransaction,
  type SqliteClient,
  type SqliteHandle,
  type SqliteTransaction,
} from "./client.ts";
import { Connection } from "./connection.ts";
import { enqueue } from "./enqueue.ts";
import { isSchemaFault, toDovecoteError } from "./errors.ts";
import * as keys from "./keys.ts";
import { withLock } from "./lock-wait.ts";
import { prune } from "./prune.ts";
import { inspect, lastRowId, list, page, stats } from "./read.ts";
import { redrive, redriveMany } from "./redrive.ts";
import { applyMigrations, NEEDS, readMarker } from "./schema.ts";
import { renew, settle } from "./settle.ts";
import { boundedSnapshot, fileSnapshot } from "./snapshot.ts";
import { STATEMENTS, type StatementTexts } from "./statements.ts";
import { FileWaker, MemoryWaker, type Waker } from "./wake.ts";

export interface SqliteDriverOptions<Client extends SqliteClient> {
  readonly client: Client;
  /** Whether `close` closes the client: not if the user passed it in (LIFE-04). */
  readonly ownsClient: boolean;
  readonly busyBudgetMs: number;
  /** Replaced by the mutants of the conformance suite. */
  readonly texts?: StatementTexts;
}

export class SqliteDriver<Client extends SqliteClient>
  implements Driver<SqliteHandle, true, SqliteTransaction<Client>>
{
  readonly name = "sqlite";
  readonly capabilities: Capabilities;
  readonly #client: Client;
  readonly #ownsClient: boolean;
  readonly #busyBudgetMs: number;
  readonly #texts: StatementTexts;
  readonly #connection: Connection;
  /** Callers' connections to the same file. */
  readonly #connections = new WeakMap<SqliteClient, Connection>();
  /** Where the database lives; empty in memory. */
  readonly #file: string;
  readonly #waker: Waker;
  #schemaChecked = false;
  /** The last claim found something: the next one need not look before it takes the write lock. */
  #expectDue = false;
  #closed = false;

  constructor({ client, ownsClient, busyBudgetMs, texts = STATEMENTS }: SqliteDriverOptions<Client>) {
    this.#client = client;
    this.#ownsClient = ownsClient;
    this.#busyBudgetMs = busyBudgetMs;
    this.#texts = texts;
    this.#connection = new Connection(client, texts);
    this.#file = fileOf(client);
    this.capabilities = capabilitiesOf({ memory: this.#file === "" });
    this.#waker = this.#file === "" ? new MemoryWaker(this.#connection) : new FileWaker(this.#file, texts);
  }

  async migrate(): Promise<MigrateReport> {
    await this.#exclusively("migrate", () => this.#useWal());
    return this.#exclusively("migrate", () =>
      this.#connection.run("immediate", () => applyMigrations(this.#client)),
    );
  }

  checkSchema(): Promise<SchemaReport> {
    return this.#exclusively("checkSchema", () =>
      this.#connection.run("deferred", () => checkSchema(this.#client)),
    );
  }

  async transaction<T>(fn: (tx: SqliteTransaction<Client>) => T): Promise<Awaited<T>> {
    try {
      const result = await this.#exclusively("transaction", () => this.#runOnce(fn));
      this.#waker.nudge();
      return result as Awaited<T>;
    } catch (error) {
      throw error instanceof CallbackFailure ? error.thrown : error;
    }
  }

  /** Waits for the lock before the callback, never after it: a commit that fails does not run it again. */
  #runOnce<T>(fn: (tx: SqliteTransaction<Client>) => T): T {
    let ran = false;
    try {
      return this.#connection.runOwn(() => {
        ran = true;
        return runCallback(fn, this.#client);
      });
    } catch (error) {
      if (!ran || error instanceof CallbackFailure) throw error;
      throw new CallbackFailure(toDovecoteError(error, "transaction"));
    }
  }

  enqueue(tx: SqliteHandle, tenant: string, rows: readonly EnqueueRow[]): readonly EnqueueOutcome[] {
    return this.#joining(tx, "enqueue", (connection) => enqueue(connection, tenant, rows));
  }

  async claim(request: ClaimRequest): Promise<readonly ClaimedRow[]> {
    if (!this.#expectDue && !(await this.#read("claim", () => anyDue(this.#connection, request)))) return [];
    const rows = await this.#write("claim", () => claim(this.#connection, request));
    this.#expectDue = rows.length > 0;
    return rows;
  }

  renew(tenant: string | null, items: readonly RenewItem[]): Promise<readonly RenewOutcome[]> {
    return this.#write("renew", () => renew(this.#connection, tenant, items));
  }

  settle(tenant: string | null, items: readonly SettleItem[]): Promise<readonly SettleOutcome[]> {
    return this.#write("settle", () => settle(this.#connection, tenant, items));
  }

  redrive(tenant: string | null, rowId: number): Promise<RedriveOutcome> {
    return this.#write("redrive", () => redrive(this.#connection, tenant, rowId));
  }

  redriveMany(filter: RedriveFilter): Promise<readonly number[]> {
    return this.#write("redrive", () => redriveMany(this.#connection, filter));
  }

  redriveIn(tx: SqliteHandle, tenant: string | null, rowId: number): RedriveOutcome {
    return this.#joining(tx, "redriveIn", (connection) => redrive(connection, tenant, rowId));
  }

  redriveManyIn(tx: SqliteHandle, filter: RedriveFilter): readonly number[] {
    return this.#joining(tx, "redriveIn", (connection) => redriveMany(connection, filter));
  }

  prune(request: PruneRequest): Promise<number> {
    return this.#write("prune", () => prune(this.#connection, request));
  }

  page(request: PageRequest): Promise<readonly StoredRow[]> {
    return this.#read("page", () => page(this.#connection, request));
  }

  /** One writer at a time draws ascending row ids and commits before the next one draws: every row is final (PAGE-04). */
  tail(request: PageRequest): Promise<TailPage> {
    return this.#read("tail", () => {
      // First: another process may commit between the two.
      const last = lastRowId(this.#connection);
      return {
        rows: page(this.#connection, { ...request, upTo: last }),
        upTo: last,
        lastRowId: last,
        heldBackMs: 0,
      };
    });
  }

  snapshot(): Promise<DriverSnapshot> {
    if (this.#file !== "") return this.#exclusively("snapshot", () => fileSnapshot(this.#file, this.#texts));
    return this.#read("snapshot", () => boundedSnapshot(this.#connection, (request) => this.page(request)));
  }

  list(request: ListRequest): Promise<readonly StoredRow[]> {
    return this.#read("list", () => list(this.#connection, request));
  }

  stats(tenant: string | null, cap: number): Promise<StatsRecord> {
    return this.#read("stats", () => stats(this.#connection, tenant, cap));
  }

  inspect(tenant: string | null, rowId: number): Promise<StoredRow | null> {
    return this.#read("inspect", () => inspect(this.#connection, tenant, rowId));
  }

  reconcile(rowId: number): Promise<"reconciled" | "alreadyPresent" | "notFound"> {
    return this.#write("reconcile", () => {
      const { changes } = this.#connection.statement("reconcile").run({ rowId, now: this.#connection.now() });
      if (changes === 1) return "reconciled";
      return this.#connection.statement("eventExists").get({ rowId }) === undefined
        ? "notFound"
        : "alreadyPresent";
    });
  }

  subscribe(listener: () => void): Promise<() => Promise<void>> {
    return this.#exclusively("subscribe", () => {
      this.#assertSchema(this.#client);
      const unsubscribe = this.#waker.subscribe(listener);
      return async () => unsubscribe();
    });
  }

  readonly keys: KeyDriver<SqliteHandle, true> = {
    begin: async (request) => {
      const step = await this.#read("begin", () => keys.beginRead(this.#connection, request));
      return keys.isCertain(step) ? step : this.#write("begin", () => keys.begin(this.#connection, request));
    },
    renew: (proof, leaseMs) => this.#write("keys.renew", () => keys.renew(this.#connection, proof, leaseMs)),
    release: (proof) => this.#write("keys.release", () => keys.release(this.#connection, proof)),
    complete: (proof, answer) =>
      this.#write("complete", () => keys.complete(this.#connection, proof, answer)),
    completeIn: (tx, proof, answer) =>
      this.#joining(tx, "complete", (connection) => keys.complete(connection, proof, answer)),
    holdIn: (tx, proof) => this.#joining(tx, "hold", (connection) => keys.hold(connection, proof)),
    completeHeldIn: (tx, proof, answer) =>
      this.#joining(tx, "complete", (connection) => keys.completeHeld(connection, proof, answer)),
    resolve: (address, to) => this.#write("resolve", () => keys.resolve(this.#connection, address, to)),
    inspect: (address) => this.#read("inspect", () => keys.inspect(this.#connection, address)),
    listStuck: (tenant, limit) =>
      this.#read("keys.list", () => keys.listStuck(this.#connection, tenant, limit)),
    sweep: (tenant, limit) => this.#write("sweep", () => keys.sweep(this.#connection, tenant, limit)),
    forget: (tenant, principal, limit) =>
      this.#write("forget", () => keys.forget(this.#connection, tenant, principal, limit)),
    markIn: (tx, mark) => this.#joining(tx, "inbox.once", (connection) => keys.mark(connection, mark)),
  };

  async close(): Promise<void> {
    this.#closed = true;
    this.#waker.close();
    try {
      if (this.#ownsClient) this.#client.close();
    } catch (error) {
      throw toDovecoteError(error, "close");
    }
  }

  /** A lifecycle operation that writes, in one transaction of ours. */
  async #write<T>(doing: string, work: () => T): Promise<T> {
    const result = await this.#exclusively(doing, () =>
      this.#connection.run("immediate", () => this.#withSchema(this.#client, work)),
    );
    this.#waker.nudge();
    return result;
  }

  #read<T>(doing: string, work: () => T): Promise<T> {
    return this.#exclusively(doing, () =>
      this.#connection.run("deferred", () => this.#withSchema(this.#client, work)),
    );
  }

  /** Waits for its turn on the connection and for the database's lock, within the budget. */
  async #exclusively<T>(doing: string, attempt: () => T): Promise<T> {
    try {
      return await withLock(attempt, {
        doing,
        budgetMs: this.#busyBudgetMs,
        assertOpen: () => {
          if (this.#closed) throw new DovecoteError("CLOSED", `${doing}: the store was closed`);
        },
      });
    } catch (error) {
      if (error instanceof CallbackFailure) throw error;
      throw toDovecoteError(error, doing);
    }
  }

  /** A call in the caller's open transaction: synchronous, and it waits for nothing. */
  #joining<T>(tx: SqliteHandle, doing: string, work: (connection: Connection) => T): T {
    const client = clientOf(tx);
    try {
      if (!client.inTransaction) {
        const message = `${doing} belongs to a transaction of yours, but none is open on this connection`;
        throw new DovecoteError("TX_REQUIRED", message);
      }
      const connection = this.#connectionOf(client);
      const result = this.#withSchema(client, () => connection.savepoint(() => work(connection)));
      this.#waker.nudge();
      return result;
    } catch (error) {
      throw toDovecoteError(error, doing);
    }
  }

  #connectionOf(client: SqliteClient): Connection {
    if (client === (this.#client as SqliteClient)) return this.#connection;
    const known = this.#connections.get(client);
    if (known !== undefined) return known;
    const file = fileOf(client);
    if (file === "" || file !== this.#file) {
      const message = "the transaction belongs to another database than this store";
      throw new DovecoteError("TX_FOREIGN", message);
    }
    const connection = new Connection(client, this.#texts);
    this.#connections.set(client, connection);
    return connection;
  }

  /** The marker is read at first use, and again after a failure that a changed schema would explain (SCHEMA-05). */
  #withSchema<T>(client: SqliteClient, work: () => T): T {
    this.#assertSchema(client);
    try {
      return work();
    } catch (error) {
      if (isSchemaFault(error)) {
        this.#schemaChecked = false;
        this.#assertSchema(client);
      }
      throw error;
    }
  }

  #assertSchema(client: SqliteClient): void {
    if (this.#schemaChecked) return;
    assertSchemaUsable(readMarker(client), NEEDS);
    this.#schemaChecked = true;
  }

  /**
   * A property of the file that every connection shares, and that cannot be set inside a transaction. Never on a file
   * that newer code has claimed.
   */
  #useWal(): void {
    this.#connection.assertFree();
    const marker = readMarker(this.#client);
    if (judgeSchema(marker, NEEDS) === "tooNew") assertSchemaUsable(marker, NEEDS);
    const { journal_mode } = this.#client.prepare("pragma journal_mode").get() as { journal_mode: string };
    if (journal_mode !== "wal" && this.#file !== "") this.#client.prepare("pragma journal_mode = wal").get();
  }
}

/** Carries what a callback threw: it reaches the caller untouched, and is never taken for a busy database of ours. */
class CallbackFailure {
  readonly thrown: unknown;

  constructor(thrown: unknown) {
    this.thrown = thrown;
  }
}

function runCallback<Client extends SqliteClient, T>(
  fn: (tx: SqliteTransaction<Client>) => T,
  client: Client,
): T {
  if (fn.constructor.name === "AsyncFunction") throw asyncRefused();
  const tx = new OwnTransaction(client);
  let result: T;
  try {
    result = fn(tx);
  } catch (thrown) {
    throw new CallbackFailure(thrown);
  } finally {
    tx.end();
  }
  if (!isThenable(result)) return result;
  // What it still does is the caller's; its rejection would otherwise end the process.
  Promise.resolve(result).catch(() => {});
  throw asyncRefused();
}

function asyncRefused(): DovecoteError {
  const message = "SQLite's transactions are synchronous: the callback must not be async or return a promise";
  return new DovecoteError("TX_ASYNC", message);
}

/** The full path of the main database as SQLite resolved it; empty for one in memory. */
function fileOf(client: SqliteClient): string {
  try {
    const row = client.prepare("select file from pragma_database_list where name = 'main'").get();
    return (row as { file: string | null } | undefined)?.file ?? "";
  } catch (error) {
    throw toDovecoteError(error, "open");
  }
}
