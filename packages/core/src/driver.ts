/**
 * The driver interface: the whole of what a database has to do. Everything a driver receives has been validated and
 * completed by the portable API; everything it answers is plain data.
 *
 * Rules for every method, unless it says otherwise:
 * - It is its own transaction and never joins one that it did not open (TX-07).
 * - On return, what it did is committed. On rejection, nothing of it is (CLAIM-14), or the error says `ambiguous`.
 * - It may be called concurrently with every other method, in this process and in others.
 * - Time is the database's clock; no time of the process enters a predicate (CLOCK-02). Times in answers are whole
 *   microseconds since the epoch.
 * - It rejects with a `DovecoteError` only (ERR-01). The driver retries nothing but lock waits, within its budget.
 * - `tenant: null` spans all tenants; otherwise another tenant's row is `notFound` (TENANT-01).
 * - Batches are judged in input order as if sent one by one, and answered in input order (FENCE-08, FENCE-12).
 */
import type { Capabilities } from "./capabilities.ts";
import type { EventRecord } from "./event/event.ts";
import type { KeyDriver } from "./idempotency/driver.ts";

/** The states of a delivery. */
export type DeliveryState = "pending" | "claimed" | "delivered" | "quarantined";

/** Microseconds since 1970-01-01T00:00:00Z by the database's clock. */
export type Micros = number;

/**
 * What a call inside the caller's transaction answers with: the value itself on a synchronous driver, a promise on an
 * asynchronous one.
 */
export type InTransaction<Sync extends boolean, T> = Sync extends true ? T : Promise<T>;

/** A recorded failure. Both texts are cut, cleaned and redacted by the portable API. */
export interface Failure {
  readonly code: string;
  readonly detail: string;
}

/** One event to store. */
export interface EnqueueRow {
  readonly event: EventRecord;
  /** First availability, in ms after database time; not content (ID-11). */
  readonly delayMs: number;
}

/** What became of one event (ID-01 to ID-03). */
export type EnqueueOutcome =
  | { readonly outcome: "enqueued"; readonly rowId: number }
  | { readonly outcome: "alreadyEnqueued"; readonly rowId: number }
  | { readonly outcome: "identityConflict"; readonly rowId: number; readonly fields: readonly string[] };

/** What to claim, for whom, for how long. */
export interface ClaimRequest {
  readonly tenant: string | null;
  readonly stream: string | null;
  readonly worker: string;
  readonly leaseMs: number;
  readonly limit: number;
  /** The expiry of a shared claim is forgiven at takeover. */
  readonly shared: boolean;
  /**
   * Draws distinct 16-byte tokens from the operating system's CSPRNG. Throws `ENTROPY_UNAVAILABLE`, after which
   * nothing may have changed (CLAIM-10).
   */
  readonly drawTokens: (count: number) => readonly Uint8Array[];
}

/** One claimed row, as committed. */
export interface ClaimedRow {
  readonly rowId: number;
  readonly tenant: string;
  readonly attempt: number;
  readonly forgiven: number;
  readonly token: Uint8Array;
  /** The previous claim of this row ended by expiry. */
  readonly reclaimed: boolean;
  readonly expiresAt: Micros;
  readonly event: EventRecord;
}

/** The proof that every write after the claim carries. */
export interface ClaimProof {
  readonly rowId: number;
  readonly attempt: number;
  readonly token: Uint8Array;
}

/** A renewal: expiry becomes database time + `leaseMs` (LEASE-03). */
export interface RenewItem extends ClaimProof {
  readonly leaseMs: number;
  /** Makes a shared claim unshared; a claim never becomes shared by renewal. */
  readonly unshare: boolean;
}

/** The end of a claim, or an operator's quarantine of a pending row. */
export type SettleItem =
  | (ClaimProof & { readonly action: "ack" })
  | (ClaimProof & { readonly action: "retry"; readonly delayMs: number; readonly failure: Failure })
  | (ClaimProof & { readonly action: "release"; readonly delayMs: number })
  | (ClaimProof & {
      readonly action: "quarantine";
      readonly reason: string;
      /** null keeps the last failure that is there. */
      readonly failure: Failure | null;
    })
  | { readonly action: "quarantinePending"; readonly rowId: number; readonly reason: string };

/** Why a settlement or a renewal was refused (FENCE-06). */
export type Refusal =
  | { readonly outcome: "notFound" }
  | { readonly outcome: "illegalTransition"; readonly state: DeliveryState }
  | { readonly outcome: "lostClaim" };

export type SettleOutcome = { readonly outcome: "applied" } | Refusal;
export type RenewOutcome = { readonly outcome: "applied"; readonly expiresAt: Micros } | Refusal;

/** Quarantined rows by filter, oldest quarantine first; those without an attempt left are left out (CLAIM-13). */
export interface RedriveFilter {
  readonly tenant: string | null;
  readonly stream: string | null;
  readonly failureCode: string | null;
  readonly limit: number;
  readonly dryRun: boolean;
}

export type RedriveOutcome =
  | { readonly outcome: "applied" }
  | { readonly outcome: "notFound" }
  | { readonly outcome: "illegalTransition"; readonly state: DeliveryState }
  | { readonly outcome: "counterOverflow" };

export interface PruneRequest {
  readonly tenant: string | null;
  /** Since the delivery, or the quarantine. */
  readonly olderThanMs: number;
  /** Quarantined rows, too. */
  readonly quarantined: boolean;
  readonly limit: number;
  /**
   * Only if nobody else prunes alone at this moment, by a lock that ends with the transaction: relays take turns. Where
   * there is one writer anyway, it changes nothing.
   */
  readonly alone: boolean;
}

export interface PageRequest {
  readonly tenant: string | null;
  readonly stream: string | null;
  /** Exclusive. */
  readonly after: number;
  /** Inclusive; null without an upper bound. */
  readonly upTo: number | null;
  readonly limit: number;
}

/** What a tail found in one look. */
export interface TailPage {
  /** In ascending row id. No transaction can still commit a row below the last of them. */
  readonly rows: readonly StoredRow[];
  /**
   * How far it looked: fewer rows than the limit mean that there is nothing else up to here, and never will be. The next
   * look goes on behind it, so that rows which are not asked for are read once.
   */
  readonly upTo: number;
  /** The highest row id that was committed at the time of the look, whosever it is. */
  readonly lastRowId: number;
  /**
   * For how long transactions that are still open have kept back what is committed above the last row, in whole ms from
   * 1; 0 if nothing is kept back.
   */
  readonly heldBackMs: number;
}

/** A position in a list: the time that orders the state, and the row id that breaks ties. */
export interface ListPosition {
  readonly at: Micros;
  readonly rowId: number;
}

export interface ListRequest {
  readonly tenant: string | null;
  readonly state: DeliveryState;
  readonly stream: string | null;
  readonly failureCode: string | null;
  /** Exclusive; null starts at the newest. */
  readonly before: ListPosition | null;
  readonly limit: number;
}

export interface DeliveryRecord {
  readonly state: DeliveryState;
  readonly availableAt: Micros;
  readonly attempt: number;
  readonly forgiven: number;
  readonly worker: string | null;
  readonly shared: boolean | null;
  readonly expiresAt: Micros | null;
  readonly lastFailure: (Failure & { readonly at: Micros }) | null;
  readonly deliveredAt: Micros | null;
  readonly quarantinedAt: Micros | null;
  readonly quarantineReason: string | null;
}

/** An event with its delivery; `delivery: null` is a damaged store (PAGE-02). */
export interface StoredRow {
  readonly rowId: number;
  readonly tenant: string;
  readonly enqueuedAt: Micros;
  readonly event: EventRecord;
  readonly delivery: DeliveryRecord | null;
}

/** A count that stops at a cap, so that it stays cheap at millions of rows. `exact: false` means "at least". */
export interface CappedCount {
  readonly count: number;
  readonly exact: boolean;
}

export interface StatsRecord {
  /** Pending and available now, with an attempt left. */
  readonly due: CappedCount;
  /** Pending, available later, with an attempt left. */
  readonly scheduled: CappedCount;
  /** Under a live lease. */
  readonly claimed: CappedCount;
  /** Claimed, with the lease expired and an attempt left. */
  readonly expired: CappedCount;
  readonly quarantined: CappedCount;
  /** Pending rows and expired claims that have used up the attempt counter, so that nobody claims them (CLAIM-13). */
  readonly exhausted: CappedCount;
  /** How long the oldest due row has been available; null without one. */
  readonly oldestDueMs: number | null;
}

/**
 * A consistent view. Released by `close`, which is idempotent and never rejects; a page afterwards is `CLOSED`. The
 * portable API closes what is open before it closes the driver.
 */
export interface DriverSnapshot {
  /** The highest row id in the view: where it ends (PAGE-03). */
  readonly lastRowId: number;
  /**
   * Where `tail` goes on without missing anything (PAGE-06): the view shows every row up to here that will ever be. At
   * most `lastRowId`; lower where a transaction that was open may still commit rows below it.
   */
  readonly cursor: number;
  page(request: PageRequest): Promise<readonly StoredRow[]>;
  close(): Promise<void>;
}

export interface MigrateReport {
  /** Versions that this call applied; empty when the schema was current. */
  readonly applied: readonly number[];
  readonly version: number;
}

export interface SchemaFinding {
  readonly problem: "missing" | "changed";
  readonly object: "table" | "column" | "index" | "constraint";
  /** Such as `dovecote_deliveries.claim_token`. */
  readonly name: string;
  readonly detail: string;
}

/** `none`: the driver has no schema to check. Additions of the user's own are never findings (SCHEMA-06). */
export interface SchemaReport {
  readonly status: "ok" | "none" | "missing" | "tooOld" | "tooNew" | "changed";
  readonly version: number | null;
  readonly findings: readonly SchemaFinding[];
}

/**
 * What a database does for Dovecote. `Tx` is whatever the driver accepts as the caller's transaction, `Own` the handle
 * of a transaction that it opened itself; `Sync` as in {@link InTransaction}.
 */
export interface Driver<Tx, Sync extends boolean, Own extends Tx = Tx> {
  /** For people, such as `sqlite`. Nothing branches on it. */
  readonly name: string;
  readonly capabilities: Capabilities;

  /** Brings an empty or older schema to this version. N at once all succeed, applied once (SCHEMA-01 to SCHEMA-04). */
  migrate(): Promise<MigrateReport>;
  /** Compares the schema with the catalogue. Writes nothing (SCHEMA-06). */
  checkSchema(): Promise<SchemaReport>;

  /**
   * Runs `fn` in a transaction of ours that commits when it returns and rolls back when it throws. A handle kept
   * beyond the end is `TX_CLOSED` (TX-09). On a synchronous driver a promise from `fn` is `TX_ASYNC` and rolls back.
   * Without `transactionIdentity`, calls of other methods than `enqueue` and `redriveIn` inside `fn` are `TX_OPEN`
   * (TX-07). `fn` runs once, and what it throws comes out untouched.
   */
  transaction<T>(fn: (tx: Own) => T): Promise<Awaited<T>>;
  /**
   * Inserts events and their pending deliveries in the caller's transaction: they commit or vanish with it (TX-01 to
   * TX-11, ID-01 to ID-11). `rows` come in identity order, so that two batches cannot deadlock (ID-06). A handle
   * without an open transaction is `TX_REQUIRED`, one of another database `TX_FOREIGN`. `tx` is what the caller gave,
   * unchecked: only the driver knows its handles, and anything else is `INVALID_ARGUMENT`. A synchronous driver throws.
   */
  enqueue(
    tx: Tx,
    tenant: string,
    rows: readonly EnqueueRow[],
  ): InTransaction<Sync, readonly EnqueueOutcome[]>;

  /**
   * Claims up to `limit` due rows, committed before it answers (CLAIM-01 to CLAIM-15). Order: expired claims by
   * expiry, then pending by availability, ties by row id; expired ones take at most `max(1, floor(limit / 2))` places
   * unless others stay free. `attempt` rises by one; `forgiven` rises by one when an expired shared claim is taken
   * over. The statement that writes enforces that the token differs from the stored one.
   */
  claim(request: ClaimRequest): Promise<readonly ClaimedRow[]>;
  /** Each item proves row, attempt, token and unexpired lease in the statement that writes (LEASE-03 to LEASE-07). */
  renew(tenant: string | null, items: readonly RenewItem[]): Promise<readonly RenewOutcome[]>;
  /** As `renew`; each item is atomic, the batch is not (FENCE-01 to FENCE-12, SETTLE-01 to SETTLE-04). */
  settle(tenant: string | null, items: readonly SettleItem[]): Promise<readonly SettleOutcome[]>;

  /**
   * One quarantined row back to pending, with a new budget. The quarantine is kept as the last failure: its reason and
   * its time, under the code `quarantined` (SETTLE-05).
   */
  redrive(tenant: string | null, rowId: number): Promise<RedriveOutcome>;
  /** Answers the row ids redriven, or that would be. State is judged by the statement that writes (FENCE-10). */
  redriveMany(filter: RedriveFilter): Promise<readonly number[]>;
  /** As `redrive`, in the caller's transaction. */
  redriveIn(tx: Tx, tenant: string | null, rowId: number): InTransaction<Sync, RedriveOutcome>;
  /** As `redriveMany`, in the caller's transaction. */
  redriveManyIn(tx: Tx, filter: RedriveFilter): InTransaction<Sync, readonly number[]>;
  /**
   * One bounded batch, delivery before event; answers how many events were removed (SETTLE-07), or `busy` if it was to
   * be alone and is not.
   */
  prune(request: PruneRequest): Promise<number | "busy">;

  /** Ascending row ids in every state, a damaged row included with `delivery: null` (PAGE-01, PAGE-02). */
  page(request: PageRequest): Promise<readonly StoredRow[]>;
  /**
   * As `page`, but only rows that no transaction can still commit below (PAGE-04). It waits for no transaction: whoever
   * asks does, and asks again. Only called if the capability `tail` is declared.
   */
  tail(request: PageRequest): Promise<TailPage>;
  snapshot(): Promise<DriverSnapshot>;
  /**
   * Rows of one state, newest first by the time that orders the state: `availableAt`, `expiresAt`, `deliveredAt` or
   * `quarantinedAt`; ties by row id, the higher one first.
   */
  list(request: ListRequest): Promise<readonly StoredRow[]>;
  /** Capped counts over partial indexes. */
  stats(tenant: string | null, cap: number): Promise<StatsRecord>;
  /** null if there is no such event. */
  inspect(tenant: string | null, rowId: number): Promise<StoredRow | null>;
  /** Creates the missing pending delivery of an event (PAGE-02). */
  reconcile(rowId: number): Promise<"reconciled" | "alreadyPresent" | "notFound">;

  /**
   * Calls `listener` after commits that may have made rows due; never for a rollback. A wake-up may be lost or
   * spurious, polling stays the safety net (WAKE-01). Resolves once listening; the answer ends it. Only called if the
   * capability `notify` is declared.
   */
  subscribe(listener: () => void): Promise<() => Promise<void>>;
  /** Idempotency keys and the inbox; only used if the capability `keys` is declared. */
  readonly keys?: KeyDriver<Tx, Sync>;
  /**
   * Releases what the driver opened and nothing that the user passed in. Idempotent (LIFE-02 to LIFE-05). Calls that
   * still wait for a lock reject `CLOSED`; later ones do not reach the driver.
   */
  close(): Promise<void>;
}
