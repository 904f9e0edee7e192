/** The calls that prove a claim, as data: most promises about them are the same for each. */
import type { ClaimRef, DeliveryState, Handle, Settlement } from "@dovecote/core";

/** What a call with a list answers per item, as far as the cases compare it. */
interface ItemOutcome {
  readonly outcome: string;
}

/** A call that proves row, attempt, token and lease. */
export interface Proving {
  readonly name: string;
  one(handle: Handle, claim: ClaimRef): Promise<unknown>;
  many(handle: Handle, claims: readonly ClaimRef[]): Promise<readonly ItemOutcome[]>;
}

/** A call that ends a claim. */
export interface Settling extends Proving {
  readonly name: Settlement["action"];
  /** Where the delivery is afterwards. */
  readonly state: DeliveryState;
}

const DAY_MS = 24 * 3600 * 1000;

/** A failure to record. */
export const FAILURE: { readonly code: string; readonly detail: string } = {
  code: "E_TEST",
  detail: "the handler failed",
};

/** A day ahead: what was retried or released does not come back within a case. */
const RETRY = { delayMs: DAY_MS, failure: FAILURE };
const RELEASE = { delayMs: DAY_MS };
const QUARANTINE = { reason: "the handler gave up" };

export const ACK: Settling = {
  name: "ack",
  state: "delivered",
  one: (handle, claim) => handle.ack(claim),
  many: (handle, claims) => handle.ack(claims),
};

export const SETTLINGS: readonly Settling[] = [
  ACK,
  {
    name: "retry",
    state: "pending",
    one: (handle, claim) => handle.retry(claim, RETRY),
    many: (handle, claims) => handle.retry(claims, RETRY),
  },
  {
    name: "release",
    state: "pending",
    one: (handle, claim) => handle.release(claim, RELEASE),
    many: (handle, claims) => handle.release(claims, RELEASE),
  },
  {
    name: "quarantine",
    state: "quarantined",
    one: (handle, claim) => handle.quarantine(claim, QUARANTINE),
    many: (handle, claims) => handle.quarantine(claims, QUARANTINE),
  },
];

export const PROVINGS: readonly Proving[] = [
  ...SETTLINGS,
  {
    name: "renew",
    one: (handle, claim) => handle.renew(claim, { leaseMs: 60_000 }),
    many: (handle, claims) => handle.renew(claims, { leaseMs: 60_000 }),
  },
];
