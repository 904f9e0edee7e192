import { sqlMutant } from "@dovecote/conformance";
import { EXPIRY, EXPIRY_AT_THE_START, NO_EXPIRY, NO_TOKEN, type PostgresMutant, TOKEN } from "./define.ts";

export const lease: readonly PostgresMutant[] = [
  sqlMutant(
    "sql-takeover-without-lock",
    "LEASE-02",
    /must be taken over by exactly one contender/,
    "claimAll",
    "order by claim_expires_at, event_row_id limit (select $1::text::integer) for update skip locked",
    "order by claim_expires_at, event_row_id limit (select $1::text::integer)",
  ),
  sqlMutant(
    "sql-renew-without-token",
    "LEASE-04",
    /renew with a superseded token.* but it was accepted/,
    "renew",
    TOKEN,
    NO_TOKEN,
  ),
  sqlMutant(
    "sql-renew-without-expiry",
    "LEASE-06",
    /renew of an expired lease.* but it was accepted/,
    "renew",
    EXPIRY,
    NO_EXPIRY,
  ),
  sqlMutant(
    "sql-renew-from-old-expiry",
    "LEASE-03",
    /the renewed expiry/,
    "renew",
    "= clock_timestamp() + (",
    "= d.claim_expires_at + (",
  ),
  sqlMutant(
    "sql-renew-races-without-expiry",
    "LEASE-05",
    /an expired lease must not be renewed/,
    "renew",
    EXPIRY,
    NO_EXPIRY,
  ),
  sqlMutant(
    "sql-renew-judges-expiry-before-the-lock",
    "LEASE-06",
    /the renewal of a claim that expired while it waited/,
    "renew",
    EXPIRY,
    EXPIRY_AT_THE_START,
  ),
];
