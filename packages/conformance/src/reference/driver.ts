/**
 * The reference driver: the contract in memory, as plainly as it can be said. It shows how small a driver can be, and
 * every method is atomic for the one reason that nothing in it awaits.
 */
import {
  BOUNDS,
  type Capabilities,
  type CappedCount,
  type ClaimedRow,
  type ClaimProof,
  type ClaimRequest,
  DovecoteError,
  type Driver,
  type DriverSnapshot,
  differingFields,
  type EnqueueOutcome,
  type EnqueueRow,
  type KeyDriver,
  type ListRequest,
  type MigrateReport,
  type PageRequest,
  type PruneRequest,
  type RedriveFilter,
  type RedriveOutcome,
  type Refusal,
  type RenewItem,
  type RenewOutcome,
  type SchemaReport,
  type SettleItem,
  type SettleOutcome,
  type StatsRecord,
  type StoredRow,
  type TailPage,
} from "@dovecote/core";
import { keysOf } from "./keys.ts";
import {
  attemptsLeft,
  type Delivery,
  pending,
  type Row,
  type Store,
  sameBytes,
  toStoredRow,
  UNCLAIMED,
} from "./store.ts";
import { ReferenceTransaction } from "./transaction.ts";

export const capabilities: Capabilities = Object.freeze({
  durable: false,
  serverSide: false,
  savepoints: true,
  asyncTransactions: true,
  transactionIdentity: true,
  lockScope: "row",
  snapshotIsolation: "bounded",
  clock: "host",
  tail: true,
  // No other process can open the store.
  notify: true,
  keys: true,
});

export class ReferenceDriver implements Driver<unknown, false, ReferenceTransaction> {
  readonly name = "reference";
  readonly capabilities: Capabilities = capabilities;
  readonly keys: KeyDriver<unknown, false>;
  readonly #store: Store;
  /** By the process's own clock, which no predicate sees. */
  #heldBackSince: number | undefined;
  readonly #subscriptions = new Set<() => void>();

  constructor(store: Store) {
    this.#store = store;
    this.keys = keysOf(store);
  }

  async migrate(): Promise<MigrateReport> {
    return { applied: [], version: 1 };
  }

  async checkSchema(): Promise<SchemaReport> {
    return { status: "none", version: null, findings: [] };
  }

  async transaction<T>(fn: (tx: ReferenceTransaction) => T): Promise<Awaited<T>> {
    const tx = new ReferenceTransaction(this.#store);
    try {
      const result = await fn(tx);
      tx.commit();
      return result;
    } catch (error) {
      tx.rollback();
      throw error;
    }
  }

  async enqueue(
    tx: unknown,
    tenant: string,
    rows: readonly EnqueueRow[],
  ): Promise<readonly EnqueueOutcome[]> {
    const transaction = ReferenceTransaction.joined(this.#store, tx);
    const now = this.#store.now();
    return rows.map(({ event, delayMs }) => {
      const stored = transaction.find(tenant, event);
      if (stored === undefined) {
        const rowId = this.#store.nextRowId();
        const delivery = pending(now + delayMs * 1000);
        transaction.add({ rowId, tenant, enqueuedAt: now, event, delivery });
        return { outcome: "enqueued", rowId };
      }
      const fields = differingFields(event, stored.event);
      return fields.length === 0
        ? { outcome: "alreadyEnqueued", rowId: stored.rowId }
        : { outcome: "identityConflict", rowId: stored.rowId, fields };
    });
  }

  async claim(request: ClaimRequest): Promise<readonly ClaimedRow[]> {
    const now = this.#store.now();
    const picked = this.#pick(request, now);
    if (picked.length === 0) return [];
    const tokens = request.drawTokens(picked.length);
    if (picked.some(({ delivery }, index) => sameBytes(delivery.token, tokens[index]))) {
      throw new DovecoteError("ENTROPY_UNAVAILABLE", "the source of random bytes repeated a token");
    }
    this.#store.assertWritable();
    return picked.map(({ row, delivery }, index) => {
      const token = Uint8Array.from(tokens[index] ?? []);
      const attempt = delivery.attempt + 1;
      const forgiven = delivery.forgiven + (delivery.shared === true ? 1 : 0);
      const expiresAt = now + request.leaseMs * 1000;
      const { worker, shared } = request;
      row.delivery = { ...delivery, state: "claimed", attempt, forgiven, token, worker, shared, expiresAt };
      const reclaimed = delivery.state === "claimed";
      return {
        rowId: row.rowId,
        tenant: row.tenant,
        attempt,
        forgiven,
        token,
        reclaimed,
        expiresAt,
        event: row.event,
      };
    });
  }

  /** CLAIM-07: expired claims first, on at most half of the places unless others stay free. */
  #pick(
    { tenant, stream, limit }: ClaimRequest,
    now: number,
  ): { readonly row: Row; readonly delivery: Delivery }[] {
    const expired: { row: Row; delivery: Delivery; at: number }[] = [];
    const due: typeof expired = [];
    for (const row of this.#within(tenant, stream)) {
      const { delivery } = row;
      if (delivery === undefined || !attemptsLeft(delivery)) continue;
      const { expiresAt, availableAt } = delivery;
      if (expiresAt !== null && expiresAt <= now) expired.push({ row, delivery, at: expiresAt });
      if (delivery.state === "pending" && availableAt <= now) due.push({ row, delivery, at: availableAt });
    }
    for (const list of [expired, due]) list.sort((a, b) => a.at - b.at || a.row.rowId - b.row.rowId);
    const reserved = Math.min(expired.length, Math.max(1, Math.floor(limit / 2)));
    const fromDue = Math.min(due.length, limit - reserved);
    return [...expired.slice(0, limit - fromDue), ...due.slice(0, fromDue)];
  }

  async renew(tenant: string | null, items: readonly RenewItem[]): Promise<readonly RenewOutcome[]> {
    this.#store.assertWritable();
    const now = this.#store.now();
    return items.map((item) => {
      const held = this.#held(tenant, item, now);
      if (!("row" in held)) return held;
      const expiresAt = now + item.leaseMs * 1000;
      const shared = item.unshare ? false : held.delivery.shared;
      held.row.delivery = { ...held.delivery, expiresAt, shared };
      return { outcome: "applied", expiresAt };
    });
  }

  async settle(tenant: string | null, items: readonly SettleItem[]): Promise<readonly SettleOutcome[]> {
    this.#store.assertWritable();
    const now = this.#store.now();
    return items.map((item) => this.#settle(tenant, item, now));
  }

  #settle(tenant: string | null, item: SettleItem, now: number): SettleOutcome {
    if (item.action === "quarantinePending") {
      const row = this.#row(tenant, item.rowId);
      if (row?.delivery === undefined) return { outcome: "notFound" };
      const { delivery } = row;
      if (delivery.state !== "pending") return { outcome: "illegalTransition", state: delivery.state };
      row.delivery = { ...delivery, state: "quarantined", quarantinedAt: now, quarantineReason: item.reason };
      return { outcome: "applied" };
    }
    const held = this.#held(tenant, item, now);
    if (!("row" in held)) return held;
    const { row } = held;
    const ended: Delivery = { ...held.delivery, ...UNCLAIMED };
    switch (item.action) {
      case "ack":
        row.delivery = { ...ended, state: "delivered", deliveredAt: now };
        break;
      case "retry": {
        const lastFailure = { ...item.failure, at: now };
        row.delivery = { ...ended, state: "pending", availableAt: now + item.delayMs * 1000, lastFailure };
        break;
      }
      case "release": {
        const availableAt = now + item.delayMs * 1000;
        row.delivery = { ...ended, state: "pending", availableAt, forgiven: ended.forgiven + 1 };
        break;
      }
      case "quarantine": {
        const lastFailure = item.failure === null ? ended.lastFailure : { ...item.failure, at: now };
        const terminal = { quarantinedAt: now, quarantineReason: item.reason, lastFailure };
        row.delivery = { ...ended, ...terminal, state: "quarantined" };
        break;
      }
    }
    return { outcome: "applied" };
  }

  /** The row that a live claim holds, or why it does not (FENCE-06). */
  #held(tenant: string | null, proof: ClaimProof, now: number): { row: Row; delivery: Delivery } | Refusal {
    const row = this.#row(tenant, proof.rowId);
    if (row?.delivery === undefined) return { outcome: "notFound" };
    const { delivery } = row;
    if (delivery.state !== "claimed") return { outcome: "illegalTransition", state: delivery.state };
    const live = delivery.expiresAt !== null && delivery.expiresAt > now;
    if (!live || delivery.attempt !== proof.attempt || !sameBytes(delivery.token, proof.token)) {
      return { outcome: "lostClaim" };
    }
    return { row, delivery };
  }

  async redrive(tenant: string | null, rowId: number): Promise<RedriveOutcome> {
    const row = this.#row(tenant, rowId);
    if (row?.delivery === undefined) return { outcome: "notFound" };
    const redriven = redrivenFrom(row.delivery, this.#store.now());
    if ("outcome" in redriven) return redriven;
    this.#store.assertWritable();
    row.delivery = redriven;
    return { outcome: "applied" };
  }

  async redriveMany(filter: RedriveFilter): Promise<readonly number[]> {
    const rows = this.#redrivable(filter);
    if (!filter.dryRun) for (const { rowId } of rows) await this.redrive(filter.tenant, rowId);
    return rows.map(({ rowId }) => rowId);
  }

  async redriveIn(tx: unknown, tenant: string | null, rowId: number): Promise<RedriveOutcome> {
    const transaction = ReferenceTransaction.joined(this.#store, tx);
    const row = this.#row(tenant, rowId);
    if (row?.delivery === undefined) return { outcome: "notFound" };
    const redriven = redrivenFrom(row.delivery, this.#store.now());
    if ("outcome" in redriven) return redriven;
    transaction.onCommit(() => {
      row.delivery = redriven;
    });
    return { outcome: "applied" };
  }

  async redriveManyIn(tx: unknown, filter: RedriveFilter): Promise<readonly number[]> {
    const rows = this.#redrivable(filter);
    if (!filter.dryRun) for (const { rowId } of rows) await this.redriveIn(tx, filter.tenant, rowId);
    return rows.map(({ rowId }) => rowId);
  }

  #redrivable({ tenant, stream, failureCode, limit }: RedriveFilter): readonly Row[] {
    return [...this.#within(tenant, stream)]
      .filter(({ delivery }) => delivery?.state === "quarantined" && attemptsLeft(delivery))
      .filter(({ delivery }) => failureCode === null || delivery?.lastFailure?.code === failureCode)
      .sort((a, b) => time(a.delivery?.quarantinedAt) - time(b.delivery?.quarantinedAt) || a.rowId - b.rowId)
      .slice(0, limit);
  }

  async prune({ tenant, olderThanMs, quarantined, limit }: PruneRequest): Promise<number> {
    const bound = this.#store.now() - olderThanMs * 1000;
    const old = (at: number | null | undefined): boolean => typeof at === "number" && at <= bound;
    const rows = [...this.#within(tenant, null)]
      .filter(({ delivery }) => old(delivery?.deliveredAt) || (quarantined && old(delivery?.quarantinedAt)))
      .slice(0, limit);
    if (rows.length > 0) this.#store.assertWritable();
    for (const row of rows) this.#store.remove(row);
    return rows.length;
  }

  async page({ tenant, stream, after, upTo, limit }: PageRequest): Promise<readonly StoredRow[]> {
    return [...this.#within(tenant, stream)]
      .filter(({ rowId }) => rowId > after && (upTo === null || rowId <= upTo))
      .slice(0, limit)
      .map(toStoredRow);
  }

  /** Row ids are drawn before the commit, so that one may still appear below another: rows wait for those. */
  async tail(request: PageRequest): Promise<TailPage> {
    const lastRowId = this.#store.ordered().at(-1)?.rowId ?? 0;
    const final = ReferenceTransaction.firstOpenRowId(this.#store) - 1;
    const rows = await this.page({ ...request, upTo: Math.min(request.upTo ?? lastRowId, final) });
    const now = performance.now();
    this.#heldBackSince =
      lastRowId > Math.max(final, request.after) ? (this.#heldBackSince ?? now) : undefined;
    const heldBackMs =
      this.#heldBackSince === undefined ? 0 : Math.max(1, Math.ceil(now - this.#heldBackSince));
    return { rows, upTo: Math.min(lastRowId, final), lastRowId, heldBackMs };
  }

  async snapshot(): Promise<DriverSnapshot> {
    const lastRowId = this.#store.ordered().at(-1)?.rowId ?? 0;
    let closed = false;
    return {
      lastRowId,
      cursor: Math.min(lastRowId, ReferenceTransaction.firstOpenRowId(this.#store) - 1),
      page: async (request) => {
        if (closed) throw new DovecoteError("CLOSED", "the snapshot was closed");
        return this.page(request);
      },
      close: async () => {
        closed = true;
      },
    };
  }

  async list({
    tenant,
    state,
    stream,
    failureCode,
    before,
    limit,
  }: ListRequest): Promise<readonly StoredRow[]> {
    const at = ({ delivery }: Row): number => {
      if (delivery === undefined) return 0;
      const times = {
        pending: delivery.availableAt,
        claimed: delivery.expiresAt,
        delivered: delivery.deliveredAt,
        quarantined: delivery.quarantinedAt,
      };
      return time(times[state]);
    };
    return [...this.#within(tenant, stream)]
      .filter(({ delivery }) => delivery?.state === state)
      .filter(({ delivery }) => failureCode === null || delivery?.lastFailure?.code === failureCode)
      .filter(
        (row) =>
          before === null || at(row) < before.at || (at(row) === before.at && row.rowId < before.rowId),
      )
      .sort((a, b) => at(b) - at(a) || b.rowId - a.rowId)
      .slice(0, limit)
      .map(toStoredRow);
  }

  async stats(tenant: string | null, cap: number): Promise<StatsRecord> {
    const now = this.#store.now();
    const deliveries = [...this.#within(tenant, null)].flatMap(({ delivery }) => delivery ?? []);
    const count = (matches: (delivery: Delivery) => boolean): CappedCount => {
      const found = deliveries.filter(matches).length;
      return { count: Math.min(found, cap), exact: found <= cap };
    };
    const isExpired = ({ expiresAt }: Delivery): boolean => expiresAt !== null && expiresAt <= now;
    const isDue = (d: Delivery): boolean => d.state === "pending" && attemptsLeft(d) && d.availableAt <= now;
    const oldest = Math.min(...deliveries.filter(isDue).map(({ availableAt }) => availableAt));
    return {
      due: count(isDue),
      scheduled: count((d) => d.state === "pending" && attemptsLeft(d) && d.availableAt > now),
      claimed: count((d) => d.state === "claimed" && !isExpired(d)),
      expired: count((d) => isExpired(d) && attemptsLeft(d)),
      quarantined: count((d) => d.state === "quarantined"),
      exhausted: count((d) => !attemptsLeft(d) && (d.state === "pending" || isExpired(d))),
      oldestDueMs: Number.isFinite(oldest) ? Math.floor((now - oldest) / 1000) : null,
    };
  }

  async inspect(tenant: string | null, rowId: number): Promise<StoredRow | null> {
    const row = this.#row(tenant, rowId);
    return row === undefined ? null : toStoredRow(row);
  }

  async reconcile(rowId: number): Promise<"reconciled" | "alreadyPresent" | "notFound"> {
    const row = this.#row(null, rowId);
    if (row === undefined) return "notFound";
    if (row.delivery !== undefined) return "alreadyPresent";
    this.#store.assertWritable();
    row.delivery = pending(this.#store.now());
    return "reconciled";
  }

  async subscribe(listener: () => void): Promise<() => Promise<void>> {
    const unsubscribe = this.#store.subscribe(listener);
    this.#subscriptions.add(unsubscribe);
    return async () => unsubscribe();
  }

  async close(): Promise<void> {
    for (const unsubscribe of this.#subscriptions) unsubscribe();
  }

  #row(tenant: string | null, rowId: number): Row | undefined {
    const row = this.#store.rows.get(rowId);
    return tenant === null || row?.tenant === tenant ? row : undefined;
  }

  *#within(tenant: string | null, stream: string | null): Generator<Row, void, undefined> {
    for (const row of this.#store.ordered()) {
      if ((tenant === null || row.tenant === tenant) && (stream === null || row.event.stream === stream))
        yield row;
    }
  }
}

function redrivenFrom(
  delivery: Delivery,
  now: number,
): Delivery | Exclude<RedriveOutcome, { outcome: "applied" }> {
  const { state, quarantinedAt, quarantineReason } = delivery;
  if (state !== "quarantined") return { outcome: "illegalTransition", state };
  if (delivery.attempt === BOUNDS.attempt) return { outcome: "counterOverflow" };
  return {
    ...delivery,
    state: "pending",
    availableAt: now,
    forgiven: delivery.attempt,
    lastFailure: { code: "quarantined", detail: quarantineReason ?? "", at: time(quarantinedAt) },
    quarantinedAt: null,
    quarantineReason: null,
  };
}

function time(at: number | null | undefined): number {
  return at ?? 0;
}
