/** The portable API as its users see it: one handle per tenant, and the admin handle that spans tenants. */

import type { Capabilities } from "./capabilities.ts";
import type { Claim, ClaimRef } from "./claim.ts";
import type {
  DeliveryState,
  EnqueueOutcome,
  Failure,
  InTransaction,
  MigrateReport,
  Refusal,
  SchemaReport,
  SettleOutcome,
  StatsRecord,
} from "./driver.ts";
import type { Entry } from "./entry.ts";
import type { NewEvent } from "./event/event.ts";
import type { CloudEventLike } from "./event/sdk.ts";
import type { Keys } from "./idempotency/api.ts";
import type { Inbox } from "./idempotency/inbox.ts";
import type { RelayOptions } from "./relay/options.ts";
import type { Relay } from "./relay/relay.ts";
import type { Snapshot } from "./snapshot.ts";

/** One tenant by name, or every tenant, said out loud (TENANT-02). */
export type Span =
  | { readonly tenant: string; readonly all?: never }
  | { readonly all: true; readonly tenant?: never };

export interface EnqueueOptions {
  /** First availability, in ms after database time. 0 to 30 days, default 0. Not part of the content (ID-11). */
  readonly delayMs?: number;
  /** The stream of an event given as an instance of the `cloudevents` SDK, which has none of its own. */
  readonly stream?: string;
}

/** The event is stored. `alreadyEnqueued`: the same event was there before, with the same content (ID-02). */
export interface Enqueued {
  readonly outcome: "enqueued" | "alreadyEnqueued";
  readonly rowId: number;
  /** The id of the event, as given or drawn. */
  readonly id: string;
}

/** {@link EnqueueOutcome} of one item of a batch, with the id of its event. */
export type EnqueueManyOutcome = EnqueueOutcome & { readonly id: string };

export interface ClaimOptions {
  /** Names the claimer in reports. A name is never proof (FENCE-11). At most 255 bytes. */
  readonly worker: string;
  /** 1 ms to 24 h, default 30,000. */
  readonly leaseMs?: number;
  /** 1 to 1000, default 10. */
  readonly limit?: number;
  /** Only this stream. */
  readonly stream?: string;
  /** The expiry of these claims does not count against the budget of attempts. Default false. */
  readonly shared?: boolean;
}

export interface RenewOptions {
  /** The new expiry is database time + `leaseMs`. 1 ms to 24 h, default 30,000. */
  readonly leaseMs?: number;
  /** `false` makes a shared claim unshared: from now on its expiry counts. */
  readonly shared?: false;
}

export interface RetryOptions {
  /** 0 to 30 days, default 0. */
  readonly delayMs?: number;
  /** Recorded as the last failure. */
  readonly failure: Failure;
}

export interface ReleaseOptions {
  /** 0 to 30 days, default 0. */
  readonly delayMs?: number;
}

export interface QuarantineOptions {
  /** Kept until redrive; cut at 2048 bytes. */
  readonly reason: string;
  /** Recorded as the last failure. */
  readonly failure?: Failure;
}

/** One item of {@link Handle.settle}. */
export type Settlement =
  | { readonly action: "ack"; readonly claim: ClaimRef }
  | ({ readonly action: "retry"; readonly claim: ClaimRef } & RetryOptions)
  | ({ readonly action: "release"; readonly claim: ClaimRef } & ReleaseOptions)
  | ({ readonly action: "quarantine"; readonly claim: ClaimRef | number } & QuarantineOptions);

export type RenewedOutcome = { readonly outcome: "applied"; readonly expiresAt: Date } | Refusal;

export interface RedriveOptions {
  readonly stream?: string;
  /** Only rows whose last failure has this code. */
  readonly failureCode?: string;
  /** 1 to 1000, default 100. */
  readonly limit?: number;
  /** Answers what would be redriven and changes nothing. Default false. */
  readonly dryRun?: boolean;
}

export interface RedriveReport {
  /** Oldest quarantine first. */
  readonly rowIds: readonly number[];
  readonly dryRun: boolean;
}

export interface PruneOptions {
  /** Removes rows delivered longer ago than this by the database's clock. 1 ms to 366 days. */
  readonly olderThanMs: number;
  /** Also removes rows quarantined longer ago than this. Default false. */
  readonly quarantined?: boolean;
  /** Rows of one batch, 1 to 1000, default 1000. */
  readonly limit?: number;
}

export interface PruneReport {
  readonly pruned: number;
  /** The batch was full: call again. */
  readonly more: boolean;
}

export interface PageOptions {
  /** A row id, exclusive; default 0, the beginning. */
  readonly after?: number;
  /** 1 to 1000, default 100. */
  readonly limit?: number;
  readonly stream?: string;
}

export interface Page {
  readonly entries: readonly Entry[];
  /** Where the next page starts: the last row id, or the given `after` if the page is empty (PAGE-01). */
  readonly cursor: number;
}

export interface ListOptions {
  readonly state: DeliveryState;
  readonly stream?: string;
  /** Only rows whose last failure has this code. */
  readonly failureCode?: string;
  /** The `cursor` of the page before. */
  readonly before?: string;
  /** 1 to 1000, default 100. */
  readonly limit?: number;
}

export interface List {
  /**
   * Newest first, by the time that orders the state: availability of pending rows, expiry of claimed ones, the time
   * of delivery or of quarantine.
   */
  readonly entries: readonly Entry[];
  /** Give it as `before` for the next page; absent on the last one. */
  readonly cursor?: string;
}

export interface SnapshotOptions {
  readonly stream?: string;
  /** Rows read at a time, 1 to 1000, default 500. */
  readonly pageSize?: number;
}

export interface TailOptions {
  /** A row id, exclusive; default 0, the beginning. */
  readonly after?: number;
  readonly stream?: string;
  /** Ends the tail. */
  readonly signal?: AbortSignal;
  /** Rows read at a time, 1 to 1000, default 100. */
  readonly pageSize?: number;
  /** How often to look when no wake-up arrives. 1 ms to 24 h, default 1000. */
  readonly pollMs?: number;
  /** Called after every look, when what it found has been yielded. What it throws is ignored. */
  readonly onLag?: (lag: TailLag) => void;
}

/** How far a tail is behind, and whether it can do anything about it. */
export interface TailLag {
  /** Where the tail is: it has yielded whatever it is asked for up to this row id. It may be kept as `after`. */
  readonly cursor: number;
  /** The highest row id that is committed, of any tenant and stream. */
  readonly lastRowId: number;
  /**
   * For how long transactions that are still open have kept back what is committed above the cursor, in ms; 0 if nothing
   * is kept back. `docs/operations.md` says how to find them.
   */
  readonly heldBackMs: number;
}

export interface StatsOptions {
  /** Where counts stop, 1 to 1,000,000, default 10,000: `exact: false` then means "at least". */
  readonly countLimit?: number;
}

/** @see StatsRecord; `oldestDueMs` is absent when nothing is due. */
export type Stats = Omit<StatsRecord, "oldestDueMs"> & { readonly oldestDueMs?: number };

export type InspectOutcome =
  | { readonly outcome: "found"; readonly entry: Entry }
  | { readonly outcome: "notFound" }
  /** The event is there, its delivery row is not: see {@link AdminHandle.reconcile}. */
  | { readonly outcome: "missingDelivery"; readonly rowId: number };

export interface ReconcileOutcome {
  readonly outcome: "reconciled" | "alreadyPresent" | "notFound";
}

/** Ends a subscription. Idempotent. */
export interface Subscription extends AsyncDisposable {
  close(): Promise<void>;
}

/**
 * What a tenant's handle and the admin handle share. Every method rejects with a `DovecoteError`; bad arguments are
 * refused before any I/O, a closed store is `CLOSED`.
 *
 * Calls with one claim throw (`LOST_CLAIM`, `ILLEGAL_TRANSITION`, `NOT_FOUND`); calls with a list answer one outcome
 * per item, in input order.
 */
export interface Handle {
  /**
   * Claims due events, committed on return (CLAIM-01 to CLAIM-15): expired claims first, then pending events.
   *
   * @example
   * for (const claim of await shop.claim({ worker: "w1", leaseMs: 30_000, limit: 50 })) {
   *   await deliver(claim.event, { fence: [claim.rowId, claim.attempt] });
   *   await shop.ack(claim);
   * }
   */
  claim(options: ClaimOptions): Promise<readonly Claim[]>;

  /** Extends a live claim; an expired one cannot be revived (LEASE-03 to LEASE-06). */
  renew(claim: ClaimRef, options?: RenewOptions): Promise<{ readonly expiresAt: Date }>;
  renew(claims: readonly ClaimRef[], options?: RenewOptions): Promise<readonly RenewedOutcome[]>;

  /** Ends a claim: delivered (SETTLE-01). */
  ack(claim: ClaimRef): Promise<void>;
  ack(claims: readonly ClaimRef[]): Promise<readonly SettleOutcome[]>;

  /** Ends a claim: pending again after a delay, with the failure recorded (SETTLE-02). */
  retry(claim: ClaimRef, options: RetryOptions): Promise<void>;
  retry(claims: readonly ClaimRef[], options: RetryOptions): Promise<readonly SettleOutcome[]>;

  /** Ends a claim unused: pending again, an earlier failure kept, the attempt forgiven (SETTLE-03). */
  release(claim: ClaimRef, options?: ReleaseOptions): Promise<void>;
  release(claims: readonly ClaimRef[], options?: ReleaseOptions): Promise<readonly SettleOutcome[]>;

  /** Ends a claim: terminal until redrive. An operator may give the row id of a pending event (SETTLE-04). */
  quarantine(claim: ClaimRef | number, options: QuarantineOptions): Promise<void>;
  quarantine(
    claims: readonly (ClaimRef | number)[],
    options: QuarantineOptions,
  ): Promise<readonly SettleOutcome[]>;

  /** Any mix of the four in one call. Each item is atomic, the batch is not (FENCE-08). */
  settle(batch: readonly Settlement[]): Promise<readonly SettleOutcome[]>;

  /** Events of every state in ascending row id. `page` in a loop is not a tail: it can miss late commits. */
  page(options?: PageOptions): Promise<Page>;
  /** One consistent state of the store, page by page (PAGE-03). Holds a connection until it ends. */
  snapshot(options?: SnapshotOptions): Promise<Snapshot>;
  /** Follows new events without missing one that commits late (PAGE-04). Ends with its signal. */
  tail(options?: TailOptions): AsyncIterable<Entry>;
  /** How much is due, under way and stuck; cheap at millions of rows. */
  stats(options?: StatsOptions): Promise<Stats>;
  /** Everything about one row. */
  inspect(rowId: number): Promise<InspectOutcome>;
  /**
   * Calls `listener` when events may have become due. A wake-up can be lost: keep polling (WAKE-01). What a listener
   * throws is ignored.
   */
  subscribe(listener: () => void): Promise<Subscription>;

  /** A quarantined row back to pending with a new budget (SETTLE-05). */
  redrive(rowId: number): Promise<void>;

  /**
   * A relay that delivers events: claims them, keeps their leases alive, runs your handler, and settles by what it does
   * (RELAY-01 to RELAY-07). Nothing starts before {@link Relay.run}.
   *
   * @throws `INVALID_ARGUMENT`
   * @example
   * const relay = dovecote.admin().relay({ deliver: async (event, { signal }) => publish(event, { signal }) });
   * await relay.run({ signal });
   */
  relay(options: RelayOptions): Relay;
}

/** Everything of one tenant. Another tenant's row is `NOT_FOUND`, also with its row id and token (TENANT-01). */
export interface TenantHandle<Tx, Sync extends boolean, Own extends Tx = Tx> extends Handle {
  readonly tenantId: string;
  /** Idempotency keys of this tenant: what makes an operation safe to retry. */
  readonly keys: Keys<Tx, Sync, Own>;
  /** What consumers of this tenant have done with events: redelivered ones are seen. */
  readonly inbox: Inbox<Tx, Sync>;

  /**
   * Writes an event in the caller's open transaction: it commits or vanishes with it (TX-01, TX-02).
   *
   * @throws `INVALID_EVENT`, `EVENT_TOO_LARGE`, `TX_REQUIRED` without an open transaction, `TX_CLOSED` after it,
   * `TX_FOREIGN` on another database, where the driver can tell (SQLite), `IDENTITY_CONFLICT` if `(source, id)` is stored with other content (ID-03).
   * @example
   * db.transaction(() => {
   *   insertOrder.run(order);
   *   shop.enqueue(db, { stream: "orders", source: "/shop", type: "order.placed", data: order });
   * }).immediate();
   */
  enqueue(tx: Tx, event: NewEvent | CloudEventLike, options?: EnqueueOptions): InTransaction<Sync, Enqueued>;
  /** As `enqueue`, 1 to 1000 at once; an identity conflict is an outcome and the others are stored (ID-06). */
  enqueueMany(
    tx: Tx,
    events: readonly (NewEvent | CloudEventLike)[],
    options?: EnqueueOptions,
  ): InTransaction<Sync, readonly EnqueueManyOutcome[]>;

  redrive(rowId: number): Promise<void>;
  /** Quarantined rows by filter, capped. */
  redrive(filter: RedriveOptions): Promise<RedriveReport>;
  /** As `redrive`, in the caller's transaction. */
  redriveIn(tx: Tx, rowId: number): InTransaction<Sync, void>;
  redriveIn(tx: Tx, filter: RedriveOptions): InTransaction<Sync, RedriveReport>;
  /** Removes old delivered rows, one bounded batch at a time (SETTLE-07). Ends their identity (ID-10). */
  prune(options: PruneOptions): Promise<PruneReport>;
  /** Rows of one state, for operators. */
  list(options: ListOptions): Promise<List>;
}

/** Spans tenants on claim, page and stats; names a tenant, or says `all`, everywhere else (TENANT-02). */
export interface AdminHandle<Tx, Sync extends boolean> extends Handle {
  enqueue(
    tx: Tx,
    event: NewEvent | CloudEventLike,
    options: EnqueueOptions & { readonly tenant: string },
  ): InTransaction<Sync, Enqueued>;
  enqueueMany(
    tx: Tx,
    events: readonly (NewEvent | CloudEventLike)[],
    options: EnqueueOptions & { readonly tenant: string },
  ): InTransaction<Sync, readonly EnqueueManyOutcome[]>;

  redrive(rowId: number): Promise<void>;
  redrive(filter: RedriveOptions & Span): Promise<RedriveReport>;
  redriveIn(tx: Tx, rowId: number): InTransaction<Sync, void>;
  redriveIn(tx: Tx, filter: RedriveOptions & Span): InTransaction<Sync, RedriveReport>;
  prune(options: PruneOptions & Span): Promise<PruneReport>;
  list(options: ListOptions & Span): Promise<List>;
  /** Gives an event that lost its delivery row a pending one (PAGE-02). */
  reconcile(rowId: number): Promise<ReconcileOutcome>;
}

/**
 * A store. It is itself the handle of tenant `default`: one-tenant applications never meet the word.
 *
 * @example
 * await using dovecote = sqlite("shop.db");
 * await dovecote.migrate();
 * const acme = dovecote.tenant("acme");
 */
export interface Dovecote<Tx, Sync extends boolean, Own extends Tx = Tx>
  extends TenantHandle<Tx, Sync, Own>,
    AsyncDisposable {
  readonly capabilities: Capabilities;
  /** The handle of one tenant; at most 255 bytes. */
  tenant(id: string): TenantHandle<Tx, Sync, Own>;
  /** The handle that spans tenants. */
  admin(): AdminHandle<Tx, Sync>;
  /** Creates or updates the schema; a no-op when it is current. Nothing else ever does (SCHEMA-08). */
  migrate(): Promise<MigrateReport>;
  /** Compares the schema with what this version needs; writes nothing (SCHEMA-06). */
  checkSchema(): Promise<SchemaReport>;
  /** Runs `fn` in a transaction of ours. Its handle is for `fn` alone: afterwards it is `TX_CLOSED` (TX-09). */
  transaction<T>(fn: (tx: Own) => T): Promise<Awaited<T>>;
  /** Afterwards every method rejects `CLOSED`. Idempotent; leaves what the user passed in open (LIFE-01 to LIFE-05). */
  close(): Promise<void>;
}
