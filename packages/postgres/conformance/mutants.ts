/** Broken forms of the Postgres driver: each breaks one thing, and the case named for it has to notice. */
import { type AnyDriver, type Mutant, override, type SqlMutant, sqlMutant } from "@dovecote/conformance";
import type postgresClient from "postgres";
import type { StatementName } from "../src/statements.ts";

export interface DriverMutant extends Mutant {
  wrap(driver: AnyDriver, client: postgresClient.Sql, schema: string): AnyDriver;
}

const TOKEN = "claim_token = (select $4::text::bytea[])[place] and ";
const EXPIRY = "then claim_expires_at > clock_timestamp() end";
const NO_EXPIRY = "then true end";
const TENANT = "and ($1::text is null or tenant_id = $1::text)";

export const sqlMutants: readonly SqlMutant<StatementName>[] = [
  sqlMutant("sql-ack-without-token", "FENCE-01", /stale/, "ack", TOKEN, ""),
  sqlMutant("sql-settle-without-token", "FENCE-02", /stale/, "settle", TOKEN, ""),
  sqlMutant("sql-renew-without-token", "LEASE-04", /renew/, "renew", TOKEN, ""),
  sqlMutant("sql-ack-without-expiry", "FENCE-05", /expired/, "ack", EXPIRY, NO_EXPIRY),
  sqlMutant("sql-renew-without-expiry", "LEASE-06", /expired/, "renew", EXPIRY, NO_EXPIRY),
  sqlMutant(
    "sql-ack-without-attempt",
    "FENCE-01",
    /attempt/,
    "ack",
    "attempts = (select $3::text::integer[])[place]",
    "cardinality($3::text::integer[]) > 0",
  ),
  sqlMutant(
    "sql-ack-any-tenant",
    "TENANT-01",
    /tenant/,
    "ack",
    `${EXPIRY}\n    ${TENANT}`,
    `${EXPIRY}\n    and ($1::text is null or true)`,
  ),
  sqlMutant(
    "sql-redrive-keeps-budget",
    "SETTLE-05",
    /forgiven|budget/,
    "redrive",
    "forgiven = attempts,",
    "",
  ),
  sqlMutant(
    "sql-renew-from-old-expiry",
    "LEASE-03",
    /renew|expiry/,
    "renew",
    "= clock_timestamp() + (",
    "= d.claim_expires_at + (",
  ),
  sqlMutant(
    "sql-attempt-not-counted",
    "FENCE-04",
    /attempt/,
    "claimTenant",
    "attempts = d.attempts + 1",
    "attempts = greatest(d.attempts, 1)",
  ),
  sqlMutant(
    "sql-claim-waits-for-locks",
    "CLAIM-08",
    /skipped|waited/,
    "claimTenant",
    "order by tenant_id, available_at, event_row_id limit (select $1::text::integer) for update skip locked",
    "order by tenant_id, available_at, event_row_id limit (select $1::text::integer) for update",
  ),
  sqlMutant(
    "sql-claim-without-lock",
    "CLAIM-03",
    /twice|two|once/,
    "claimAll",
    "order by available_at, event_row_id limit (select $1::text::integer) for update skip locked",
    "order by available_at, event_row_id limit (select $1::text::integer)",
  ),
];

export const driverMutants: readonly DriverMutant[] = [
  {
    name: "enqueue-on-another-connection",
    breaks: "TX-02",
    because: /rollback|rolled back/,
    wrap: (driver) =>
      override(driver, {
        enqueue: (_tx, tenant, rows) => driver.transaction((tx) => driver.enqueue(tx, tenant, rows)),
      }),
  },
];

export const mutants: readonly Mutant[] = [...sqlMutants, ...driverMutants].map(
  ({ name, breaks, because }) => ({
    name,
    breaks,
    because,
  }),
);
