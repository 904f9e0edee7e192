/** What a tenant's handle and the admin handle share: one implementation, with or without a tenant to stay within. */
import {
  checkBatch,
  checkBoolean,
  checkName,
  checkOptions,
  checkRowId,
  checkWhole,
  invalid,
  orDefault,
} from "./arguments.ts";
import { BOUNDS } from "./bounds.ts";
import { type Claim, toClaim, toProof } from "./claim.ts";
import type {
  Driver,
  InTransaction,
  RedriveFilter,
  RedriveOutcome,
  RenewItem,
  SettleItem,
  SettleOutcome,
} from "./driver.ts";
import { type EnqueueBatch, toEnqueueBatch, toEnqueued, toSingleBatch } from "./enqueue.ts";
import { type Entry, toEntry } from "./entry.ts";
import { DovecoteError } from "./errors.ts";
import { checkFailureCode } from "./failure.ts";
import type * as api from "./handle.ts";
import type { KeyDriver } from "./idempotency/driver.ts";
import { after } from "./in-transaction.ts";
import { toDate } from "./micros.ts";
import { checkTenant, closed, type Store } from "./options.ts";
import {
  optionalStream,
  toCountLimit,
  toList,
  toListRequest,
  toPage,
  toPageRequest,
  toStats,
} from "./reader.ts";
import type { RelayOptions } from "./relay/options.ts";
import { createRelay, type Relay } from "./relay/relay.ts";
import { refusalError, toSettleItem, toSettleItems } from "./settlement.ts";
import { type Snapshot, tail, toSnapshot, toSnapshotBase, toTailPlan } from "./snapshot.ts";
import { drawTokens } from "./token.ts";

const DEFAULT_LEASE_MS = 30_000;

/** What both kinds of handle share. `tenant: null` spans tenants. */
export class BaseHandle<Tx, Sync extends boolean> implements api.Handle {
  readonly #store: Store<Tx, Sync>;
  readonly #tenant: string | null;

  constructor(store: Store<Tx, Sync>, tenant: string | null) {
    this.#store = store;
    this.#tenant = tenant;
  }

  /** The driver, if the store is open (LIFE-01). */
  protected get driver(): Driver<Tx, Sync> {
    if (this.#store.closing !== undefined) throw closed();
    return this.#store.driver;
  }

  protected get keyDriver(): KeyDriver<Tx, Sync> {
    const { name, capabilities, keys } = this.driver;
    if (!capabilities.keys || keys === undefined)
      throw new DovecoteError("UNSUPPORTED", `${name} offers no idempotency keys`);
    return keys;
  }

  async claim(given: api.ClaimOptions): Promise<readonly Claim[]> {
    const { driver } = this;
    const options = checkOptions(given, ["worker", "leaseMs", "limit", "stream", "shared"], "options");
    const worker = checkName(options.worker, BOUNDS.workerBytes, "options.worker");
    const shared = checkBoolean(orDefault(options.shared, false), "options.shared");
    const rows = await driver.claim({
      tenant: this.#tenant,
      stream: optionalStream(options.stream),
      worker,
      leaseMs: checkLease(options.leaseMs),
      limit: checkWhole(orDefault(options.limit, 10), BOUNDS.limit, "options.limit"),
      shared,
      drawTokens: (count) => drawTokens(this.#store.randomBytes, count),
    });
    return rows.map((row) => toClaim(row, worker, shared));
  }

  renew(claim: unknown, options?: api.RenewOptions): Promise<{ readonly expiresAt: Date }>;
  renew(claims: readonly unknown[], options?: api.RenewOptions): Promise<readonly api.RenewedOutcome[]>;
  async renew(
    claims: unknown,
    given?: api.RenewOptions,
  ): Promise<{ readonly expiresAt: Date } | readonly api.RenewedOutcome[]> {
    const { driver } = this;
    const options = checkOptions(given, ["leaseMs", "shared"], "options");
    const leaseMs = checkLease(options.leaseMs);
    if (options.shared !== undefined && options.shared !== false) {
      throw invalid(
        "options.shared",
        "false or absent: a claim never becomes shared by renewal",
        options.shared,
      );
    }
    const unshare = options.shared === false;
    const items = each(claims, (claim, path): RenewItem => ({ ...toProof(claim, path), leaseMs, unshare }));
    const outcomes = await driver.renew(this.#tenant, items);
    const answers = outcomes.map((outcome) =>
      outcome.outcome === "applied"
        ? { outcome: outcome.outcome, expiresAt: toDate(outcome.expiresAt) }
        : outcome,
    );
    if (Array.isArray(claims)) return answers;
    const answer = only(answers);
    if (answer.outcome !== "applied") throw refusalError(answer, only(items).rowId, "renew");
    return { expiresAt: answer.expiresAt };
  }

  ack(claim: unknown): Promise<undefined>;
  ack(claims: readonly unknown[]): Promise<readonly SettleOutcome[]>;
  async ack(claims: unknown): Promise<undefined | readonly SettleOutcome[]> {
    return this.#settleAll("ack", claims, undefined);
  }

  retry(claim: unknown, options: api.RetryOptions): Promise<undefined>;
  retry(claims: readonly unknown[], options: api.RetryOptions): Promise<readonly SettleOutcome[]>;
  async retry(claims: unknown, options: api.RetryOptions): Promise<undefined | readonly SettleOutcome[]> {
    return this.#settleAll("retry", claims, options);
  }

  release(claim: unknown, options?: api.ReleaseOptions): Promise<undefined>;
  release(claims: readonly unknown[], options?: api.ReleaseOptions): Promise<readonly SettleOutcome[]>;
  async release(
    claims: unknown,
    options?: api.ReleaseOptions,
  ): Promise<undefined | readonly SettleOutcome[]> {
    return this.#settleAll("release", claims, options);
  }

  quarantine(claim: unknown, options: api.QuarantineOptions): Promise<undefined>;
  quarantine(claims: readonly unknown[], options: api.QuarantineOptions): Promise<readonly SettleOutcome[]>;
  async quarantine(
    claims: unknown,
    options: api.QuarantineOptions,
  ): Promise<undefined | readonly SettleOutcome[]> {
    return this.#settleAll("quarantine", claims, options);
  }

  async settle(batch: readonly api.Settlement[]): Promise<readonly SettleOutcome[]> {
    return this.driver.settle(this.#tenant, toSettleItems(batch, this.#store.redact));
  }

  async #settleAll(
    action: "ack" | "retry" | "release" | "quarantine",
    claims: unknown,
    options: unknown,
  ): Promise<undefined | readonly SettleOutcome[]> {
    const { driver } = this;
    const items = each(
      claims,
      (claim, path): SettleItem =>
        toSettleItem(action, claim, options, this.#store.redact, { claim: path, options: "options" }),
    );
    const outcomes = await driver.settle(this.#tenant, items);
    if (Array.isArray(claims)) return outcomes;
    const outcome = only(outcomes);
    if (outcome.outcome !== "applied") throw refusalError(outcome, only(items).rowId, action);
    return undefined;
  }

  async page(options?: api.PageOptions): Promise<api.Page> {
    const request = toPageRequest(options, this.#tenant);
    return toPage(await this.driver.page(request), request.after);
  }

  async snapshot(options?: api.SnapshotOptions): Promise<Snapshot> {
    const base = toSnapshotBase(options, this.#tenant);
    return toSnapshot(await this.#store.snapshots.track(this.driver.snapshot()), base);
  }

  tail(options?: api.TailOptions): AsyncIterable<Entry> {
    const handle = this;
    const plan = toTailPlan(options, this.#tenant);
    return {
      [Symbol.asyncIterator]() {
        const { driver } = handle;
        if (!driver.capabilities.tail)
          throw new DovecoteError("UNSUPPORTED", `${driver.name} offers no tail`);
        return tail(driver, plan, handle.#store.closed.signal);
      },
    };
  }

  relay(options: RelayOptions): Relay {
    const { driver } = this;
    return createRelay(
      {
        handle: this,
        subscribe: driver.capabilities.notify ? (listener) => this.subscribe(listener) : undefined,
        prune: (olderThanMs) => this.#pruneAlone(olderThanMs),
        sweep: driver.capabilities.keys ? () => this.#sweep() : undefined,
      },
      options,
    );
  }

  /** For the housekeeping of relays, as the next one. */
  async #pruneAlone(olderThanMs: number) {
    const { max: limit } = BOUNDS.limit;
    const request = { tenant: this.#tenant, olderThanMs, quarantined: false, limit, alone: true };
    const removed = await this.driver.prune(request);
    return removed === "busy" ? removed : { removed, more: removed === limit };
  }

  async #sweep() {
    const { max: limit } = BOUNDS.limit;
    const removed = await this.keyDriver.sweep(this.#tenant, limit);
    return { removed, more: removed === limit };
  }

  async stats(options?: api.StatsOptions): Promise<api.Stats> {
    const countLimit = toCountLimit(options);
    return toStats(await this.driver.stats(this.#tenant, countLimit));
  }

  async inspect(rowId: number): Promise<api.InspectOutcome> {
    const row = await this.driver.inspect(this.#tenant, checkRowId(rowId, "rowId"));
    if (row === null) return { outcome: "notFound" };
    if (row.delivery === null) return { outcome: "missingDelivery", rowId: row.rowId };
    return { outcome: "found", entry: toEntry(row) };
  }

  async subscribe(listener: () => void): Promise<api.Subscription> {
    if (typeof listener !== "function") throw invalid("listener", "a function", listener);
    const { driver } = this;
    if (!driver.capabilities.notify)
      throw new DovecoteError("UNSUPPORTED", `${driver.name} offers no wake-ups; poll`);
    const close = await driver.subscribe(listener);
    return { close, [Symbol.asyncDispose]: close };
  }

  redrive(rowId: number): Promise<undefined>;
  redrive(filter: api.RedriveOptions & Partial<api.Span>): Promise<api.RedriveReport>;
  async redrive(
    target: number | (api.RedriveOptions & Partial<api.Span>),
  ): Promise<undefined | api.RedriveReport> {
    const { driver } = this;
    if (typeof target === "number") {
      const rowId = checkRowId(target, "rowId");
      return redriven(await driver.redrive(this.#tenant, rowId), rowId);
    }
    const filter = this.#redriveFilter(target);
    return { rowIds: await driver.redriveMany(filter), dryRun: filter.dryRun };
  }

  redriveIn(tx: Tx, rowId: number): InTransaction<Sync, undefined>;
  redriveIn(tx: Tx, filter: api.RedriveOptions & Partial<api.Span>): InTransaction<Sync, api.RedriveReport>;
  redriveIn(
    tx: Tx,
    target: number | (api.RedriveOptions & Partial<api.Span>),
  ): InTransaction<Sync, undefined | api.RedriveReport> {
    return this.inTransaction<undefined | api.RedriveReport>(() => {
      const { driver } = this;
      if (typeof target === "number") {
        const rowId = checkRowId(target, "rowId");
        return after(driver.redriveIn(tx, this.#tenant, rowId), (outcome) => redriven(outcome, rowId));
      }
      const filter = this.#redriveFilter(target);
      return after(driver.redriveManyIn(tx, filter), (rowIds) => ({ rowIds, dryRun: filter.dryRun }));
    });
  }

  #redriveFilter(given: unknown): RedriveFilter {
    // Whoever meant one row and has no id must not redrive them all.
    if (given === undefined) throw invalid("target", "a row id or a filter", given);
    const members = ["stream", "failureCode", "limit", "dryRun"];
    const { options, tenant } = this.span(given, members);
    return {
      tenant,
      stream: optionalStream(options.stream),
      failureCode:
        options.failureCode === undefined
          ? null
          : checkFailureCode(options.failureCode, "options.failureCode"),
      limit: checkWhole(orDefault(options.limit, 100), BOUNDS.limit, "options.limit"),
      dryRun: checkBoolean(orDefault(options.dryRun, false), "options.dryRun"),
    };
  }

  async prune(given: api.PruneOptions & Partial<api.Span>): Promise<api.PruneReport> {
    const { driver } = this;
    const { options, tenant } = this.span(given, ["olderThanMs", "quarantined", "limit"]);
    const limit = checkWhole(orDefault(options.limit, BOUNDS.limit.max), BOUNDS.limit, "options.limit");
    const pruned = await driver.prune({
      tenant,
      olderThanMs: checkWhole(options.olderThanMs, BOUNDS.retentionMs, "options.olderThanMs"),
      quarantined: checkBoolean(orDefault(options.quarantined, false), "options.quarantined"),
      limit,
      alone: false,
    });
    if (pruned === "busy") throw new DovecoteError("DRIVER_FAILURE", "the driver pruned alone, unasked");
    return { pruned, more: pruned === limit };
  }

  async list(given: api.ListOptions & Partial<api.Span>): Promise<api.List> {
    const { driver } = this;
    const { options, tenant } = this.span(given, ["state", "stream", "failureCode", "before", "limit"]);
    const request = toListRequest(options, tenant);
    return toList(await driver.list(request), request);
  }

  protected enqueueBatch(
    tx: Tx,
    tenant: string,
    batch: EnqueueBatch,
  ): InTransaction<Sync, readonly api.EnqueueManyOutcome[]> {
    return after(this.driver.enqueue(tx, tenant, batch.rows), (outcomes) => batch.answer(outcomes));
  }

  protected single(
    tx: Tx,
    tenant: string,
    event: unknown,
    options: unknown,
  ): InTransaction<Sync, api.Enqueued> {
    return this.inTransaction<api.Enqueued>(() => {
      const batch = toSingleBatch(event, options, this.#store.maxEventBytes);
      return after(this.enqueueBatch(tx, tenant, batch), (outcomes) => toEnqueued(only(outcomes)));
    });
  }

  protected many(
    tx: Tx,
    tenant: string,
    events: unknown,
    options: unknown,
  ): InTransaction<Sync, readonly api.EnqueueManyOutcome[]> {
    return this.inTransaction<readonly api.EnqueueManyOutcome[]>(() =>
      this.enqueueBatch(tx, tenant, toEnqueueBatch(events, options, this.#store.maxEventBytes)),
    );
  }

  /** Whose rows a call of many rows is about: a tenant handle's own, or what the admin said (TENANT-02). */
  protected span(
    given: unknown,
    members: readonly string[],
  ): { readonly options: Record<string, unknown>; readonly tenant: string | null } {
    if (this.#tenant !== null)
      return { options: checkOptions(given, members, "options"), tenant: this.#tenant };
    const { tenant, all, ...options } = checkOptions(given, [...members, "tenant", "all"], "options");
    if (all !== undefined && all !== true) throw invalid("options.all", "true or absent", all);
    if ((tenant === undefined) === (all === undefined)) {
      const message = "the admin handle names one tenant, or says all: true";
      throw new DovecoteError("INVALID_ARGUMENT", message, { path: "options.tenant" });
    }
    return { options, tenant: all === true ? null : checkTenant(tenant, "options.tenant") };
  }

  /** Runs a call in the caller's transaction: errors are thrown on a synchronous driver, rejections otherwise. */
  protected inTransaction<T>(call: () => InTransaction<Sync, T>): InTransaction<Sync, T> {
    if (!this.#store.driver.capabilities.asyncTransactions) return call();
    return new Promise<T>((resolve) => resolve(call() as T)) as InTransaction<Sync, T>;
  }
}

function checkLease(value: unknown): number {
  return checkWhole(orDefault(value, DEFAULT_LEASE_MS), BOUNDS.leaseMs, "options.leaseMs");
}

/** One item from a single claim, or one per member of a list. */
function each<T>(claims: unknown, toItem: (claim: unknown, path: string) => T): readonly T[] {
  if (!Array.isArray(claims)) return [toItem(claims, "claim")];
  checkBatch(claims, "claims");
  return claims.map((claim: unknown, index) => toItem(claim, `claims[${index}]`));
}

/** The one outcome of a call with one item. */
function only<T>(outcomes: readonly T[]): T {
  const [outcome] = outcomes;
  if (outcome === undefined)
    throw new DovecoteError("DRIVER_FAILURE", "the driver answered too few outcomes");
  return outcome;
}

function redriven(outcome: RedriveOutcome, rowId: number): undefined {
  if (outcome.outcome === "applied") return undefined;
  if (outcome.outcome === "counterOverflow") {
    const message = `cannot redrive row ${rowId}: its attempt counter is used up`;
    throw new DovecoteError("COUNTER_OVERFLOW", message, { rowId });
  }
  throw refusalError(outcome, rowId, "redrive");
}
