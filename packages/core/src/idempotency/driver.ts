/**
 * What a driver does for idempotency keys and for the inbox. As in `../driver.ts`, everything has been validated, and time
 * is the database's clock.
 *
 * What a record is worth is a function of time, never of the sweep. With C the completion: until C + retention it answers
 * `replay` or `unreplayable`, until the end of its tombstone `expired`, later it is as if it were not there. For `begin` a claim
 * is `inFlight` while its lease lives or its row is held; then the policy that was stored decides. Whoever is told
 * `indeterminate`, or would take over, has to be sure that nobody holds the row; `inspect` and `listStuck` go by the lease.
 *
 * Whatever else writes to a held row waits for its transaction, as long as the driver waits for locks. What is worth
 * nothing any more may be refused as what it was, until it is swept, or as not found.
 */
import type { InTransaction, Micros } from "../driver.ts";
import type { Fingerprint } from "./fingerprint.ts";

/** What becomes of a claim whose lease ended: `rerun` lets the next one begin anew, `refuse` waits for an operator. */
export type Takeover = "rerun" | "refuse";

/** Where a record is, by the digests of its scope and key, 32 bytes each. Never another tenant's. */
export interface KeyAddress {
  readonly tenant: string;
  readonly scope: Uint8Array;
  readonly key: Uint8Array;
}

/** The proof that every write after `begin` carries. */
export interface KeyProof extends KeyAddress {
  readonly token: Uint8Array;
}

export interface BeginKey extends KeyProof {
  /** Of the principal within the tenant, for `forget`; null if none was named. */
  readonly principal: Uint8Array | null;
  readonly fingerprint: Fingerprint;
  readonly leaseMs: number;
  readonly takeover: Takeover;
  readonly retentionMs: number;
  readonly tombstoneMs: number;
}

/** An answer that is kept byte for byte (KEY-02, KEY-10). Headers are JSON text: a list of pairs. */
export interface KeptAnswer {
  readonly status: number;
  readonly headers: string;
  readonly body: Uint8Array;
}

/** An answer that is known to have been given, and was not kept. */
export interface LostAnswer {
  readonly reason: string;
  /** null if nobody knows: the record was completed by an operator. */
  readonly status: number | null;
}

export type Answer = KeptAnswer | LostAnswer;

export type BeginKeyOutcome =
  /** `takenOver`: an earlier claim of this key ended by its expiry. */
  | {
      readonly outcome: "acquired";
      readonly attempt: number;
      readonly expiresAt: Micros;
      readonly takenOver: boolean;
    }
  | { readonly outcome: "replay"; readonly answer: KeptAnswer; readonly completedAt: Micros }
  | { readonly outcome: "unreplayable"; readonly answer: LostAnswer; readonly completedAt: Micros }
  /** null: the lease is over, and its holder's transaction is still open. */
  | { readonly outcome: "inFlight"; readonly remainingMs: number | null }
  | { readonly outcome: "mismatch" }
  | { readonly outcome: "indeterminate"; readonly since: Micros }
  | { readonly outcome: "expired"; readonly completedAt: Micros };

export type KeyOutcome =
  | { readonly outcome: "applied" }
  | { readonly outcome: "notFound" }
  /** It was completed already. */
  | { readonly outcome: "illegalTransition" }
  | { readonly outcome: "lostClaim" };

export type RenewKeyOutcome =
  | { readonly outcome: "applied"; readonly expiresAt: Micros }
  | Exclude<KeyOutcome, { readonly outcome: "applied" }>;

/** One record, as it is stored. */
export interface KeyRecord {
  readonly tenant: string;
  readonly scope: Uint8Array;
  readonly key: Uint8Array;
  readonly state: "inFlight" | "free" | "indeterminate" | "completed" | "expired";
  readonly takeover: Takeover;
  readonly attempt: number;
  readonly acquiredAt: Micros;
  readonly expiresAt: Micros | null;
  readonly completedAt: Micros | null;
  readonly answer: Answer | null;
}

export interface InboxMark {
  readonly tenant: string;
  readonly consumer: string;
  /** Of tenant, consumer, source and id, 32 bytes. */
  readonly event: Uint8Array;
  readonly retentionMs: number;
}

export interface KeyDriver<Tx, Sync extends boolean> {
  /**
   * Commits alone. Reads first, then inserts: it waits for nobody's transaction (KEY-15). A record with this token, still
   * live, is what an earlier call made whose reply was lost: `acquired` again (KEY-14).
   */
  begin(request: BeginKey): Promise<BeginKeyOutcome>;
  /** Expiry becomes database time + `leaseMs`; proves token and unexpired lease (KEY-07). */
  renew(proof: KeyProof, leaseMs: number): Promise<RenewKeyOutcome>;
  /** Deletes the record, fingerprint included (KEY-11); proves token and unexpired lease. */
  release(proof: KeyProof): Promise<KeyOutcome>;
  /** Proves token and unexpired lease. */
  complete(proof: KeyProof, answer: Answer): Promise<KeyOutcome>;
  /** As `complete`, in the caller's transaction. */
  completeIn(tx: Tx, proof: KeyProof, answer: Answer): InTransaction<Sync, KeyOutcome>;
  /** Proves token and unexpired lease, and locks the record until the transaction ends: no takeover until then (KEY-08). */
  holdIn(tx: Tx, proof: KeyProof): InTransaction<Sync, KeyOutcome>;
  /**
   * After `holdIn`, in the same transaction: proves the token under the lock, and no expiry.
   *
   * @throws `TX_CLOSED` if that transaction has ended, where it can be told from a later one on the same handle.
   */
  completeHeldIn(tx: Tx, proof: KeyProof, answer: Answer): InTransaction<Sync, KeyOutcome>;
  /** An operator's: an indeterminate record becomes completed without an answer, or is deleted. Others are refused. */
  resolve(address: KeyAddress, to: "completed" | "released"): Promise<KeyOutcome>;
  inspect(address: KeyAddress): Promise<KeyRecord | null>;
  /** Claims whose lease is over, longest first. */
  listStuck(tenant: string | null, limit: number): Promise<readonly KeyRecord[]>;
  /** Deletes what is worth nothing any more, keys and marks of the inbox, in one bounded batch (KEY-12). */
  sweep(tenant: string | null, limit: number): Promise<number>;
  /** Deletes a principal's records, live ones too, in one bounded batch. */
  forget(tenant: string, principal: Uint8Array, limit: number): Promise<number>;
  /** Marks an event as seen in the caller's transaction; a rival that is marking it is waited for (INBOX-01). */
  markIn(tx: Tx, mark: InboxMark): InTransaction<Sync, "first" | "seen">;
}
