/** The driver of Postgres: every lifecycle operation is a statement or two in autocommit on the pool. */
import { setTimeout as delay } from "node:timers/promises";
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
  type KeyDriver,
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
import { checkSchema } from "./check-schema.ts";
import {
  type Answers,
  type PostgresHandle,
  type PostgresJs,
  type PostgresTransaction,
  type Run,
  runOf,
  untilClosed,
} from "./client.ts";
import { enqueue } from "./enqueue.ts";
import { afterWrite, isConnectionLoss, isSchemaFault, isTransient, toDovecoteError } from "./errors.ts";
import { Finality } from "./finality.ts";
import { Guard } from "./guard.ts";
import * as keys from "./keys.ts";
import { channelOf, Listener, type ListenerOptions } from "./listener.ts";
import { inspect, list, page, stats } from "./read.ts";
import { redrive, redriveMany } from "./redrive.ts";
import { safeTransaction } from "./safe-transaction.ts";
import { applyMigrations, MIGRATION_LOCK_MS, NEEDS, quoteIdentifier, readMarker } from "./schema.ts";
import { claim, renew, settle } from "./settle.ts";
import { openSnapshot } from "./snapshot.ts";
import { type StatementTexts, statementsOf } from "./statements.ts";
import { cursorForTail, tail } from "./tail.ts";
import { joined, OwnTransaction, type Via } from "./transaction.ts";

export interface PostgresDriverOptions<Client extends PostgresJs> {
  readonly client: Client;
  /** Whether `close` ends the client: not if the user passed it in (LIFE-04). */
  readonly ownsClient: boolean;
  readonly schema: string;
  /** How to listen for wake-ups; without it enqueues send none, and nobody can subscribe. */
  readonly listener?: Omit<ListenerOptions, "channel"> | undefined;
  /** Replaced by the mutants of the conformance suite. */
  readonly texts?: StatementTexts;
  /** How long `migrate` waits for a lock. */
  readonly migrationLockMs?: number;
}

/** How long a client of ours may finish what it does when it is closed. */
const CLOSE_TIMEOUT_S = 4;

/** How long a call in the caller's transaction waits for a connection to learn why the schema failed it. */
const RECHECK_MS = 1000;

/** A statement of ours that conflicts was not applied: it is asked again, with pauses. */
const CONFLICT_ATTEMPTS = 10;

export class PostgresDriver<Client extends PostgresJs>
  implements Driver<PostgresHandle, false, PostgresTransaction<Client>>
{
  readonly name = "postgres";
  readonly capabilities: Capabilities;
  readonly #client: Client;
  readonly #ownsClient: boolean;
  readonly #schema: string;
  readonly #quotedSchema: string;
  readonly #texts: StatementTexts;
  readonly #migrationLockMs: number;
  readonly #run: Run;
  readonly #finality: Finality;
  readonly #channel: string | null = null;
  readonly #listener: Listener | undefined;
  /** Guards by handle: a handle is as long-lived as its transaction. */
  readonly #guards = new WeakMap<object, Guard>();
  #schemaChecked = false;

  constructor({
    client,
    ownsClient,
    schema,
    listener,
    texts,
    migrationLockMs,
  }: PostgresDriverOptions<Client>) {
    this.#client = client;
    this.#ownsClient = ownsClient;
    this.#schema = schema;
    this.#quotedSchema = quoteIdentifier(schema);
    this.#texts = texts ?? statementsOf(this.#quotedSchema);
    this.#migrationLockMs = migrationLockMs ?? MIGRATION_LOCK_MS;
    if (listener !== undefined) {
      this.#channel = channelOf(schema);
      this.#listener = new Listener({ ...listener, channel: this.#channel });
    }
    this.capabilities = Object.freeze({ ...capabilities, notify: listener !== undefined });
    this.#run = repeated(runOf(client));
    this.#finality = new Finality(this.#run, this.#texts, this.#quotedSchema);
  }

  migrate(): Promise<MigrateReport> {
    return this.#typed("migrate", () =>
      applyMigrations(this.#client, this.#quotedSchema, this.#migrationLockMs),
    );
  }

  checkSchema(): Promise<SchemaReport> {
    return this.#typed("checkSchema", () => checkSchema(this.#run, this.#schema, this.#quotedSchema));
  }

  async transaction<T>(fn: (tx: PostgresTransaction<Client>) => T): Promise<Awaited<T>> {
    const guard = new Guard({ fromBegin: true });
    // The guard is armed with BEGIN, in one round trip.
    const begin = `begin; ${guard.arming}`;
    return safeTransaction(this.#client, begin, async (connection) => {
      const tx = new OwnTransaction<Client>(connection, guard);
      try {
        return await fn(tx);
      } finally {
        tx.end();
      }
    });
  }

  enqueue(
    tx: PostgresHandle,
    tenant: string,
    rows: readonly EnqueueRow[],
  ): Promise<readonly EnqueueOutcome[]> {
    return this.#joining(tx, "enqueue", (via) => enqueue(via, this.#texts, tenant, rows, this.#channel));
  }

  claim(request: ClaimRequest): Promise<readonly ClaimedRow[]> {
    return this.#statement("claim", () => claim(this.#run, this.#texts, request));
  }

  renew(tenant: string | null, items: readonly RenewItem[]): Promise<readonly RenewOutcome[]> {
    return this.#statement("renew", () => renew(this.#run, this.#texts, tenant, items));
  }

  settle(tenant: string | null, items: readonly SettleItem[]): Promise<readonly SettleOutcome[]> {
    return this.#statement("settle", () => settle(this.#run, this.#texts, tenant, items));
  }

  redrive(tenant: string | null, rowId: number): Promise<RedriveOutcome> {
    return this.#statement("redrive", () => redrive(this.#autocommit, this.#texts, tenant, rowId));
  }

  redriveMany(filter: RedriveFilter): Promise<readonly number[]> {
    return this.#statement("redrive", () => redriveMany(this.#autocommit, this.#texts, filter));
  }

  redriveIn(tx: PostgresHandle, tenant: string | null, rowId: number): Promise<RedriveOutcome> {
    return this.#joining(tx, "redriveIn", (via) => redrive(via, this.#texts, tenant, rowId));
  }

  redriveManyIn(tx: PostgresHandle, filter: RedriveFilter): Promise<readonly number[]> {
    return this.#joining(tx, "redriveIn", (via) => redriveMany(via, this.#texts, filter));
  }

  prune({ tenant, olderThanMs, quarantined, limit, alone }: PruneRequest): Promise<number | "busy"> {
    return this.#statement("prune", async () => {
      const lock = alone ? `dovecote.prune ${this.#schema}` : null;
      const remove = async (text: string, most: number): Promise<number | "busy"> => {
        const [row] = await this.#run(text, [tenant, String(olderThanMs), String(most), lock]);
        return row?.[0] === null ? "busy" : Number(row?.[0]);
      };
      const removed = await remove(this.#texts.pruneDelivered, limit);
      if (removed === "busy" || !quarantined || removed === limit) return removed;
      const rest = remove(this.#texts.pruneQuarantined, limit - removed);
      const more = await rest.catch((error: unknown) => afterWrite(error, "prune"));
      return more === "busy" ? removed : removed + more;
    });
  }

  page(request: PageRequest): Promise<readonly StoredRow[]> {
    return this.#statement("page", () => page(this.#run, this.#texts, request));
  }

  tail(request: PageRequest): Promise<TailPage> {
    return this.#statement("tail", () => tail(this.#run, this.#texts, this.#finality, request));
  }

  snapshot(): Promise<DriverSnapshot> {
    return this.#statement("snapshot", async () => {
      const cursor = await cursorForTail(this.#finality);
      return openSnapshot(this.#client, this.#texts, cursor);
    });
  }

  list(request: ListRequest): Promise<readonly StoredRow[]> {
    return this.#statement("list", () => list(this.#run, this.#texts, request));
  }

  stats(tenant: string | null, cap: number): Promise<StatsRecord> {
    return this.#statement("stats", () => stats(this.#run, this.#texts, tenant, cap));
  }

  inspect(tenant: string | null, rowId: number): Promise<StoredRow | null> {
    return this.#statement("inspect", () => inspect(this.#run, this.#texts, tenant, rowId));
  }

  reconcile(rowId: number): Promise<"reconciled" | "alreadyPresent" | "notFound"> {
    return this.#statement("reconcile", async () => {
      const created = await this.#run(this.#texts.reconcile, [String(rowId)]);
      if (created.length === 1) return "reconciled";
      const found = await this.#run(this.#texts.eventExists, [String(rowId)]);
      return found.length === 1 ? "alreadyPresent" : "notFound";
    });
  }

  subscribe(listener: () => void): Promise<() => Promise<void>> {
    return this.#statement("subscribe", async () => {
      if (this.#listener === undefined)
        throw new DovecoteError("UNSUPPORTED", "subscribe: the option `notify` is off");
      return this.#listener.subscribe(listener);
    });
  }

  readonly keys: KeyDriver<PostgresHandle, false> = {
    begin: (request) => this.#statement("begin", () => keys.begin(this.#rootAnswers, this.#texts, request)),
    renew: (proof, leaseMs) =>
      this.#statement("keys.renew", () => keys.renew(this.#rootAnswers, this.#texts, proof, leaseMs)),
    release: (proof) =>
      this.#statement("keys.release", () => keys.release(this.#rootAnswers, this.#texts, proof)),
    complete: (proof, answer) =>
      this.#statement("complete", () => keys.complete(this.#autocommit, this.#texts, proof, answer)),
    completeIn: (tx, proof, answer) =>
      this.#joining(tx, "complete", (via) => keys.complete(via, this.#texts, proof, answer)),
    holdIn: (tx, proof) => this.#joining(tx, "hold", (via) => keys.hold(via, this.#texts, proof)),
    completeHeldIn: (tx, proof, answer) =>
      this.#joining(tx, "complete", (via) => keys.completeHeld(via, this.#texts, proof, answer)),
    resolve: (address, to) =>
      this.#statement("resolve", () => keys.resolve(this.#rootAnswers, this.#texts, address, to)),
    inspect: (address) =>
      this.#statement("inspect", () => keys.inspect(this.#rootAnswers, this.#texts, address)),
    listStuck: (tenant, limit) =>
      this.#statement("keys.list", () => keys.listStuck(this.#rootAnswers, this.#texts, tenant, limit)),
    sweep: (tenant, limit) =>
      this.#statement("sweep", () => keys.sweep(this.#rootAnswers, this.#texts, tenant, limit)),
    forget: (tenant, principal, limit) =>
      this.#statement("forget", () => keys.forget(this.#rootAnswers, this.#texts, tenant, principal, limit)),
    markIn: (tx, mark) => this.#joining(tx, "inbox.once", (via) => keys.mark(via, this.#texts, mark)),
  };

  async close(): Promise<void> {
    this.#listener?.close();
    if (this.#ownsClient) await this.#client.end({ timeout: CLOSE_TIMEOUT_S });
  }

  /** A lifecycle operation: the schema is known to be usable. */
  #statement<T>(doing: string, work: () => Promise<T>): Promise<T> {
    return this.#typed(doing, async () => {
      await this.#assertSchema(this.#rootAnswers);
      try {
        return await work();
      } catch (error) {
        if (isSchemaFault(error)) await this.#recheckSchema(this.#rootAnswers);
        throw error;
      }
    });
  }

  /** A call in the caller's open transaction, behind its guard. */
  #joining<T>(tx: PostgresHandle, doing: string, work: (via: Via) => Promise<T>): Promise<T> {
    return this.#typed(doing, async () => {
      const via = joined(tx, this.#guards);
      await this.#assertSchema(via.answers);
      try {
        return await work(via);
      } catch (error) {
        // The caller's transaction is aborted now, and their pool may have no other connection to spare.
        if (isSchemaFault(error)) {
          const waited = delay(RECHECK_MS, undefined, { ref: false });
          await Promise.race([this.#recheckSchema(this.#rootAnswers), waited]);
        }
        throw error;
      }
    });
  }

  async #typed<T>(doing: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw toDovecoteError(error, doing);
    }
  }

  readonly #rootAnswers: Answers = async (text, parameters) =>
    (await this.#run(text, parameters)).map(([answer]) => String(answer));

  readonly #autocommit: Via = {
    answers: this.#rootAnswers,
    guard: null,
    run: (statement) => statement(),
  };

  /** The marker is read at first use, and again after a failure that a changed schema would explain (SCHEMA-05). */
  async #assertSchema(answers: Answers): Promise<void> {
    if (this.#schemaChecked) return;
    const marker = await readMarker(async (text) => (await answers(text, []))[0], this.#quotedSchema);
    assertSchemaUsable(marker, NEEDS);
    this.#schemaChecked = true;
  }

  async #recheckSchema(answers: Answers): Promise<void> {
    this.#schemaChecked = false;
    await this.#assertSchema(answers);
  }
}

/**
 * A statement in autocommit that conflicts with others did nothing, and is asked again. Only where the session's default
 * isolation is above READ COMMITTED. One whose connection was lost is reported when the pool knows it as well.
 */
function repeated(run: Run): Run {
  return async (text, parameters) => {
    for (let attempt = 1; ; attempt++) {
      try {
        return await run(text, parameters);
      } catch (error) {
        if (isConnectionLoss(error)) await untilClosed();
        if (!isTransient(error) || attempt === CONFLICT_ATTEMPTS) throw error;
        await delay(Math.random() * 2 ** attempt);
      }
    }
  };
}
