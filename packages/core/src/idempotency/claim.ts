/** The claim of an idempotency key as callers hold it, and the proof that every later write carries. */

import { invalid } from "../arguments.ts";
import { fromHex } from "../hex.ts";
import { checkTenant } from "../options.ts";
import { type ClaimToken, tokenBytes } from "../token.ts";
import type { KeyProof } from "./driver.ts";

const HEX_DIGEST = /^[0-9a-f]{64}$/;

/**
 * The exclusive, time-limited right to do what a key stands for. Neither the key nor its scope can be read from it; the
 * token shows itself to nobody.
 */
export interface KeyClaim {
  readonly tenant: string;
  /** Of the scope, and of the key within it, as hexadecimal digits. */
  readonly scopeDigest: string;
  readonly keyDigest: string;
  readonly token: ClaimToken;
  /** 1, and one more with every takeover. */
  readonly attempt: number;
  /** An earlier claim of this key ended by its expiry: what it did is not known. */
  readonly takenOver: boolean;
  /** By the database's clock, for people. */
  readonly expiresAt: Date;
}

/** What proves a claim: a `KeyClaim`, or its parts as handed over by another process. */
export type KeyClaimRef = Pick<KeyClaim, "tenant" | "scopeDigest" | "keyDigest"> & {
  readonly token: ClaimToken | string;
};

/**
 * @param tenant the handle's, which a claim of another one is not shown to (TENANT-01); null for the admin's.
 * @throws `INVALID_ARGUMENT`.
 */
export function toKeyProof(value: unknown, tenant: string | null): KeyProof {
  if (typeof value !== "object" || value === null) throw invalid("claim", "the claim of a key", value);
  const { tenant: own, scopeDigest, keyDigest, token } = value as Partial<KeyClaimRef>;
  const claimed = checkTenant(own, "claim.tenant");
  if (tenant !== null && claimed !== tenant) {
    throw invalid("claim.tenant", "the tenant of this handle", "another one");
  }
  return {
    tenant: claimed,
    scope: digest(scopeDigest, "claim.scopeDigest"),
    key: digest(keyDigest, "claim.keyDigest"),
    token: tokenBytes(token, "claim.token"),
  };
}

function digest(value: unknown, path: string): Uint8Array {
  if (typeof value !== "string" || !HEX_DIGEST.test(value)) {
    throw invalid(path, "64 lower-case hex digits", value);
  }
  return fromHex(value);
}
