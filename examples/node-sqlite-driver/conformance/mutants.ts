/** Broken forms of the driver, one thing each, and the case that has to notice. */
import { type SqlMutant, sqlMutant } from "@dovecote/conformance";
import type { StatementName } from "../src/statements.ts";

export const mutants: readonly SqlMutant<StatementName>[] = [
  sqlMutant("sql-ack-without-token", "FENCE-01", /stale/, "ack", "and token = :token ", ""),
  sqlMutant("sql-renew-without-expiry", "LEASE-06", /expired/, "renew", "and expires_at > :now ", ""),
  sqlMutant(
    "sql-renew-from-old-expiry",
    "LEASE-03",
    /renew|expiry/,
    "renew",
    ":now + :lease",
    "expires_at + :lease",
  ),
  sqlMutant("sql-attempt-not-counted", "FENCE-04", /attempt/, "claim", "attempts = attempts + 1, ", ""),
  sqlMutant("sql-token-may-repeat", "CLAIM-09", /token/, "claim", "and token is not :token", ""),
  sqlMutant(
    "sql-redrive-keeps-budget",
    "SETTLE-05",
    /forgiven|budget/,
    "redrive",
    "forgiven = attempts,",
    "",
  ),
  sqlMutant(
    "sql-ack-any-tenant",
    "TENANT-01",
    /tenant/,
    "ack",
    "and (:tenant is null or tenant = :tenant)",
    "and (:tenant is null or true)",
  ),
];
