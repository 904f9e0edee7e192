/** The statement that claims, in each scope that can be claimed. Its shape is explained in `shapes.ts`. */
import {
  CLAIMABLE,
  DELIVERIES,
  EVENT,
  EVENTS,
  EVERYTHING,
  filtered,
  first,
  MANY,
  micros,
  milliseconds,
  ofOneTenant,
  ofStream,
  type Scope,
  TOKENS,
} from "./shapes.ts";

/**
 * The scopes that can be claimed, as pending and as expired rows are found (CLAIM-06). A tenant's stream is found among
 * the tenant's rows, an expired claim of a stream among all: those are in flight, and few.
 */
export const SCOPES: Readonly<Record<ScopeName, { readonly pending: Scope; readonly claimed: Scope }>> = {
  all: { pending: EVERYTHING, claimed: EVERYTHING },
  stream: { pending: ofStream("$5"), claimed: filtered(EVERYTHING, "stream = $5::text") },
  tenant: { pending: ofOneTenant("$5"), claimed: ofOneTenant("$5") },
  tenantStream: {
    pending: filtered(ofOneTenant("$5"), "stream = $6::text"),
    claimed: filtered(ofOneTenant("$5"), "stream = $6::text"),
  },
};

export type ScopeName = "all" | "stream" | "tenant" | "tenantStream";

/** CLAIM-05: equal or past is due. */
export const duePending = ({ where }: Scope): string =>
  `${DELIVERIES} ${MANY} where state = 'pending' and available_at <= statement_timestamp() and ${CLAIMABLE} ${where}`;
/** LEASE-01: a live lease (expiry > now) excludes every other claimer. */
const dueClaimed = ({ where }: Scope): string =>
  `${DELIVERIES} ${MANY} where state = 'claimed' and claim_expires_at <= statement_timestamp() and ${CLAIMABLE} ${where}`;

const LIMIT = "$1::text::integer";
/** The place of a row that was picked: the arrays of `arranged` are in the order of row ids. */
const PLACE = "(select places from arranged)[width_bucket(d.event_row_id, (select ids from arranged))]";

/**
 * $1 limit, $2 worker, $3 lease in ms, $4 tokens, $5 and $6 the scope. What is locked is skipped, never waited on
 * (CLAIM-08). Places are given out by CLAIM-07; tokens by the number of the row. The last column is whether a token was
 * the stored one: then nothing is written (CLAIM-09).
 */
export const claim = (
  { pending, claimed }: (typeof SCOPES)[ScopeName],
  shared: boolean,
): string => `with expired as materialized (
  ${first(
    `select event_row_id, claim_token, claim_expires_at as at from ${dueClaimed(claimed)}
  order by ${claimed.leads}claim_expires_at, event_row_id`,
    LIMIT,
    " for update skip locked",
  )}
), due as materialized (
  ${first(
    `select event_row_id, null::bytea as claim_token, available_at as at from ${duePending(pending)}
  order by ${pending.leads}available_at, event_row_id`,
    LIMIT,
    " for update skip locked",
  )}
), places as materialized (
  select least(due_count, ${LIMIT} - least(expired_count, greatest(1, ${LIMIT} / 2))) as for_due
  from (select (select count(*) from expired) as expired_count, (select count(*) from due) as due_count) as counts
), picked as materialized (
  select event_row_id, claim_token, row_number() over (order by kind, at, event_row_id) as place from (
    select 1 as kind, e.*, row_number() over (order by at, event_row_id) as position from expired e
    union all
    select 2 as kind, d.*, row_number() over (order by at, event_row_id) as position from due d
  ) as candidates, places
  where case when kind = 1 then position <= ${LIMIT} - for_due else position <= for_due end
), repeated as materialized (
  select exists (select 1 from picked where claim_token = ${TOKENS}[place]) as token
), arranged as materialized (
  select array_agg(event_row_id order by event_row_id) as ids, array_agg(place order by event_row_id) as places,
    array_agg(claim_token is not null order by event_row_id) as reclaimed
  from picked where not (select token from repeated)
), claimed as (
  update ${DELIVERIES} as d set state = 'claimed', attempts = d.attempts + 1,
    forgiven = d.forgiven + case when d.claim_shared then 1 else 0 end,
    claim_token = ${TOKENS}[${PLACE}], claimed_by = $2::text, claim_shared = ${shared},
    claim_expires_at = clock_timestamp() + ${milliseconds("$3")}
  where d.event_row_id = any ((select ids from arranged)::bigint[])
  returning d.event_row_id, d.attempts, d.forgiven, d.claim_expires_at, ${PLACE} as place,
    (select reclaimed from arranged)[width_bucket(d.event_row_id, (select ids from arranged))] as reclaimed
)
select c.attempts::text, c.forgiven::text, c.place::text, c.reclaimed::text, ${micros("c.claim_expires_at")}, ${EVENT},
  'false' as repeated
from claimed c cross join lateral (select * from ${EVENTS} where row_id = c.event_row_id offset 0) as e
union all
select ${"null, ".repeat(20)} 'true' from repeated where token`;
