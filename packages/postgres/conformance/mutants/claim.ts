import { sqlMutant } from "@dovecote/conformance";
import type { PostgresMutant } from "./define.ts";

const LIMIT = "limit (select $1::text::integer)";
const LOCKED = " for update skip locked";

export const claim: readonly PostgresMutant[] = [
  sqlMutant(
    "sql-claim-without-lock",
    "CLAIM-03",
    // Or a row is claimed that another has delivered meanwhile: a CHECK refuses that.
    /no event may be claimed twice|a claim must not be refused: \{"refused":"SCHEMA_MISMATCH"/,
    "claimAll",
    `order by available_at, event_row_id ${LIMIT}${LOCKED}`,
    `order by available_at, event_row_id ${LIMIT}`,
  ),
  sqlMutant(
    "sql-expired-take-every-place",
    "CLAIM-07",
    /must give expired claims half of the places/,
    "claimAll",
    "greatest(1, $1::text::integer / 2)",
    "$1::text::integer",
  ),
  sqlMutant(
    "sql-claim-waits-for-locks",
    "CLAIM-08",
    /locked rows must be skipped, not waited for/,
    "claimTenant",
    `order by tenant_id, available_at, event_row_id ${LIMIT}${LOCKED}`,
    `order by tenant_id, available_at, event_row_id ${LIMIT} for update`,
  ),
  sqlMutant(
    "sql-takeover-waits-for-locks",
    "CLAIM-08",
    /locked rows must be skipped, not waited for/,
    "claimTenant",
    `order by tenant_id, claim_expires_at, event_row_id ${LIMIT}${LOCKED}`,
    `order by tenant_id, claim_expires_at, event_row_id ${LIMIT} for update`,
  ),
  sqlMutant(
    "sql-claim-accepts-the-stored-token",
    "CLAIM-09",
    /a token that repeats the stored one must be refused/,
    "claimTenant",
    "select exists (select 1 from picked where claim_token = (select $4::text::bytea[])[place]) as token",
    "select false as token",
  ),
  sqlMutant(
    "sql-claim-without-state",
    "CLAIM-12",
    /a claim among terminal rows must not be refused/,
    "claimTenant",
    "state = 'pending' and available_at",
    "available_at",
  ),
];
