/** Idempotency keys as applications see them. */
import type { InTransaction } from "../driver.ts";
import type { KeyClaim, KeyClaimRef } from "./claim.ts";
import type { KeyRecord, Takeover } from "./driver.ts";
import type { Fingerprint } from "./fingerprint.ts";
import type { KeyResponse, RecordedResponse, UnreplayableResponse } from "./response.ts";
import type {
  RecordRunContext,
  RecordRunOptions,
  RunOutcome,
  RunResponse,
  TransactionHandler,
  TransactionRunOptions,
} from "./run.ts";
import type { KeyScope } from "./scope.ts";

/** Which key is meant. */
export interface KeyName {
  readonly scope: KeyScope;
  /** 1 to 255 printable ASCII characters. Never stored, and never shown. */
  readonly key: string;
}

export interface BeginOptions extends KeyName {
  /** Of the request: the same key with another one is a `mismatch` (KEY-04). */
  readonly fingerprint: Fingerprint;
  /**
   * What becomes of the key if its holder never says how it ended. `rerun`: the next one does it again, which is right where
   * everything it does is undone with its transaction. `refuse`: the key is `indeterminate` until an operator resolves it.
   */
  readonly takeover: Takeover;
  /** 1 ms to 24 h, default 30,000. */
  readonly leaseMs?: number;
  /** For how long the answer is given again, from its completion. 1 ms to 366 days, default 24 h. */
  readonly retentionMs?: number;
  /** For how long after that the key is known to have been used. 0 to 366 days, default 7 days. */
  readonly tombstoneMs?: number;
}

export type Begun =
  /** Do it, then `complete`. */
  | { readonly outcome: "acquired"; readonly claim: KeyClaim }
  /** It was done: give this answer again. */
  | { readonly outcome: "replay"; readonly response: RecordedResponse; readonly completedAt: Date }
  /** It was done, and its answer was not kept; without a status an operator said so. */
  | {
      readonly outcome: "unreplayable";
      readonly reason: string;
      readonly status?: number;
      readonly completedAt: Date;
    }
  /** Somebody is doing it, for `retryAfterMs` at most before the lease ends or is renewed; usually for less. */
  | { readonly outcome: "inFlight"; readonly retryAfterMs: number }
  /** The key was used for another request. */
  | { readonly outcome: "mismatch" }
  /** Somebody was doing it, and nobody knows how it ended. */
  | { readonly outcome: "indeterminate"; readonly since: Date }
  /** It was done, longer ago than answers are kept. */
  | { readonly outcome: "expired"; readonly completedAt: Date };

/** A claim under the lock of a transaction: good until that ends, then `TX_CLOSED`. */
export interface HeldKey<Sync extends boolean> {
  /**
   * Records the answer: it commits or vanishes with everything else in the transaction (KEY-06).
   *
   * @throws `LOST_CLAIM`, so that the transaction rolls back (KEY-07).
   */
  complete(response: KeyResponse | UnreplayableResponse): InTransaction<Sync, void>;
}

export interface RenewKeyOptions {
  /** 1 ms to 24 h, default 30,000. */
  readonly leaseMs?: number;
}

/** A record, for operators: nothing of the key, of the scope, of the request or of the answer can be read from it. */
export interface KeyEntry extends Pick<KeyRecord, "tenant" | "state" | "takeover" | "attempt"> {
  readonly scopeDigest: string;
  readonly keyDigest: string;
  readonly acquiredAt: Date;
  readonly expiresAt?: Date;
  readonly completedAt?: Date;
  readonly status?: number;
  readonly unreplayable?: string;
}

export type InspectKeyOutcome =
  | { readonly outcome: "found"; readonly record: KeyEntry }
  | { readonly outcome: "notFound" };

export interface ListKeysOptions {
  /** Claims whose lease is over: what nobody takes over, or nobody has yet. */
  readonly stuck: true;
  /** 1 to 1000, default 100. */
  readonly limit?: number;
}

export interface SweepOptions {
  /** 1 to 1000, default 1000. */
  readonly limit?: number;
}

export interface SweepReport {
  readonly swept: number;
  /** There may be more: call again. */
  readonly more: boolean;
}

export interface ForgetOptions extends SweepOptions {
  readonly principal: string;
}

export interface ForgetReport {
  readonly forgotten: number;
  readonly more: boolean;
}

/** What operators do with keys; the same on every driver. Every method rejects with a `DovecoteError`. */
export interface KeyOperations {
  /** An operator's: an `indeterminate` key was done, or was not. @throws `NOT_FOUND`, `ILLEGAL_TRANSITION`. */
  resolve(name: KeyName, to: "completed" | "released"): Promise<void>;
  inspect(name: KeyName): Promise<InspectKeyOutcome>;
  list(options: ListKeysOptions): Promise<readonly KeyEntry[]>;
  /** Deletes what is worth nothing any more, in a bounded batch; nothing depends on it but room (KEY-12). */
  sweep(options?: SweepOptions): Promise<SweepReport>;
  /** Deletes all keys of a principal, in a bounded batch, live ones too: their holders find nothing to complete. */
  forget(options: ForgetOptions): Promise<ForgetReport>;
}

/** Makes any operation safe to retry. Every method rejects with a `DovecoteError`; bad input before any I/O. */
export interface Keys<Tx, Sync extends boolean, Own extends Tx = Tx> extends KeyOperations {
  /**
   * Claims a key, committed on return, or says why it cannot be had. What is in flight, done or another request's is only
   * read, so that it waits for nobody's transaction (KEY-15); on SQLite a key that can be acquired needs the write lock.
   *
   * @throws `STORE_BUSY` if the write lock could not be had, and `CONNECTION_LOST` if three tries were lost.
   * @example
   * const begun = await shop.keys.begin({
   *   scope: { principal: user.id, method: "POST", path: "/payments" },
   *   key: request.idempotencyKey,
   *   fingerprint: fingerprint.json(body),
   *   takeover: "rerun",
   * });
   */
  begin(options: BeginOptions): Promise<Begun>;
  /**
   * The everyday form: claims the key, runs `handler` once in a transaction of the store's own, and records its answer in it.
   * Business rows, enqueued events and the answer commit together, fenced: what a zombie wrote rolls back. What the handler
   * throws comes out untouched, after the key was given back.
   *
   * A transaction that conflicts with others is repeated, 3 times at most: the handler must do nothing outside it.
   *
   * @throws what the handler throws; `LOST_CLAIM` if somebody took the key over before its transaction began: ask again.
   * @example
   * const outcome = await shop.keys.run({ scope, key, fingerprint: fingerprint.json(body), takeover: "rerun" }, async ({ tx }) => {
   *   await tx.sql`insert into payments ${tx.sql(payment)}`;
   *   await shop.enqueue(tx, paid);
   *   return { status: 201, body: JSON.stringify(payment) };
   * });
   */
  run(options: TransactionRunOptions, handler: TransactionHandler<Sync, Own>): Promise<RunOutcome>;
  /**
   * As above, for effects outside the database: the claim is renewed while the handler runs, and its answer recorded after
   * it, or by its `commit`. A crash in between is nobody's to undo: `takeover` decides what the next one does.
   */
  run(
    options: RecordRunOptions,
    handler: (context: RecordRunContext<Sync, Own>) => RunResponse | Promise<RunResponse>,
  ): Promise<RunOutcome>;
  /**
   * Proves a claim in your transaction, and locks it: from here to the end of the transaction the lock is the lease, however
   * slow it is (KEY-08).
   *
   * @throws `LOST_CLAIM`, `NOT_FOUND`, `ILLEGAL_TRANSITION`, so that the transaction rolls back.
   */
  hold(tx: Tx, claim: KeyClaimRef): InTransaction<Sync, HeldKey<Sync>>;
  /**
   * Records the answer, outside a transaction or in yours. It proves the lease, which goes on running: a slow transaction
   * wants `hold`.
   *
   * @throws `LOST_CLAIM`, `NOT_FOUND`, `ILLEGAL_TRANSITION`.
   */
  complete(claim: KeyClaimRef, response: KeyResponse | UnreplayableResponse): Promise<void>;
  complete(
    claim: KeyClaimRef,
    response: KeyResponse | UnreplayableResponse,
    tx: Tx,
  ): InTransaction<Sync, void>;
  /** The lease ends `leaseMs` from now. @throws `LOST_CLAIM`, `NOT_FOUND`, `ILLEGAL_TRANSITION`. */
  renew(claim: KeyClaimRef, options?: RenewKeyOptions): Promise<{ readonly expiresAt: Date }>;
  /** As if the key had never been used (KEY-11). @throws `LOST_CLAIM`, `NOT_FOUND`, `ILLEGAL_TRANSITION`. */
  release(claim: KeyClaimRef): Promise<void>;
}
