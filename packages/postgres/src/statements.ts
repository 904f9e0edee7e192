/**
 * Every statement, by name, each in autocommit unless it joins the caller's transaction. Predicates carry the id of the
 * guarantee they uphold.
 *
 * Shapes (figures in docs/design): the planner estimates `LIMIT $n` at a tenth of the table, and flips to sequential
 * scans or nested loops over a join with `unnest`. So whatever picks rows is a MATERIALIZED CTE with its own ORDER BY
 * and LIMIT over one partial index, and the target of an UPDATE is `= any(array(select …))`, which can only use the
 * primary key.
 *
 * Clocks: scans compare with `statement_timestamp()`, since a volatile function is never an index condition; what is
 * written, and what is judged after a lock was taken, uses `clock_timestamp()`. `now()` freezes at BEGIN and is never
 * used (CLOCK-03).
 *
 * Parameters are texts, cast here, and results are texts: no parser or serializer of a client takes part, whatever the
 * application has configured there.
 */

const EVENTS = "{schema}.dovecote_events";
const DELIVERIES = "{schema}.dovecote_deliveries";

/** A time as microseconds since the epoch, exact: `extract` answers a numeric. */
const micros = (time: string): string => `(extract(epoch from ${time}) * 1000000)::bigint::text`;
const milliseconds = (parameter: string): string => `${parameter}::text::bigint * interval '1 millisecond'`;
const hex = (bytes: string): string => `encode(${bytes}, 'hex')`;

/** Columns of an event, in the order that `rows.ts` reads. */
const EVENT = `e.row_id::text, e.tenant_id, e.stream, e.event_id, e.source, e.event_type, e.subject, e.occurred_at,
  e.datacontenttype, e.dataschema, e.partitionkey, e.extensions, e.data_kind, ${hex("e.data")}, ${micros("e.enqueued_at")}`;

const DELIVERY = `d.state, ${micros("d.available_at")}, d.attempts::text, d.forgiven::text, d.claimed_by,
  d.claim_shared::text, ${micros("d.claim_expires_at")}, d.last_failure_code, d.last_failure_detail,
  ${micros("d.last_failed_at")}, ${micros("d.delivered_at")}, ${micros("d.quarantined_at")}, d.quarantine_reason`;

/** Rows without an attempt left are never claimed again (CLAIM-13). */
const CLAIMABLE = "attempts < 2147483647";

/** TENANT-01: another tenant's row is not there. */
const ofTenant = (parameter: string, column = "tenant_id"): string =>
  `(${parameter}::text is null or ${column} = ${parameter}::text)`;

/** The scopes that can be claimed; each is an equality on the prefix of a partial index (CLAIM-06). */
const SCOPES = {
  all: "",
  stream: "and stream = $5::text",
  tenant: "and tenant_id = $5::text",
  tenantStream: "and tenant_id = $5::text and stream = $6::text",
} as const;

export type ScopeName = keyof typeof SCOPES;

/** CLAIM-05: equal or past is due. */
const duePending = (scope: string): string =>
  `${DELIVERIES} where state = 'pending' and available_at <= statement_timestamp() and ${CLAIMABLE} ${scope}`;
/** LEASE-01: a live lease (expiry > now) excludes every other claimer. */
const dueClaimed = (scope: string): string =>
  `${DELIVERIES} where state = 'claimed' and claim_expires_at <= statement_timestamp() and ${CLAIMABLE} ${scope}`;

/**
 * $1 limit, $2 worker, $3 lease in ms, $4 tokens, $5 and $6 the scope. What is locked is skipped, never waited on
 * (CLAIM-08). Places are given out by CLAIM-07; tokens by the number of the row. The last column is whether a token was
 * the stored one: then nothing is written (CLAIM-09).
 */
const claim = (scope: string, shared: boolean): string => `with expired as materialized (
  select event_row_id, claim_token, claim_expires_at as at from ${dueClaimed(scope)}
  order by claim_expires_at, event_row_id limit $1::text::integer for update skip locked
), due as materialized (
  select event_row_id, null::bytea as claim_token, available_at as at from ${duePending(scope)}
  order by available_at, event_row_id limit $1::text::integer for update skip locked
), places as materialized (
  select least(due_count, $1::text::integer - least(expired_count, greatest(1, $1::text::integer / 2))) as for_due
  from (select (select count(*) from expired) as expired_count, (select count(*) from due) as due_count) as counts
), picked as materialized (
  select event_row_id, claim_token, row_number() over (order by kind, at, event_row_id) as place from (
    select 1 as kind, e.*, row_number() over (order by at, event_row_id) as position from expired e
    union all
    select 2 as kind, d.*, row_number() over (order by at, event_row_id) as position from due d
  ) as candidates, places
  where case when kind = 1 then position <= $1::text::integer - for_due else position <= for_due end
), repeated as materialized (
  select exists (select 1 from picked where claim_token = ($4::text::bytea[])[place]) as token
), claimed as (
  update ${DELIVERIES} as d set state = 'claimed', attempts = d.attempts + 1,
    forgiven = d.forgiven + case when d.claim_shared then 1 else 0 end,
    claim_token = ($4::text::bytea[])[p.place], claimed_by = $2::text, claim_shared = ${shared},
    claim_expires_at = clock_timestamp() + ${milliseconds("$3")}
  from picked as p
  where d.event_row_id = any (array(select event_row_id from picked)) and d.event_row_id = p.event_row_id
    and not (select token from repeated)
  returning d.event_row_id, d.attempts, d.forgiven, d.claim_expires_at, p.place, p.claim_token is not null as reclaimed
)
select c.attempts::text, c.forgiven::text, c.place::text, c.reclaimed::text, ${micros("c.claim_expires_at")}, ${EVENT},
  'false' as repeated
from claimed c cross join lateral (select * from ${EVENTS} where row_id = c.event_row_id offset 0) as e
union all
select ${"null, ".repeat(20)} 'true' from repeated where token`;

/**
 * What every write after the claim proves (FENCE-01 to FENCE-07, LEASE-04, LEASE-06). $1 tenant; $2 row ids, ascending
 * and distinct, since `width_bucket` finds the place of one; $3 attempts, $4 tokens. Rows are locked first, in the order
 * of their key, and judged outside: a predicate beside FOR UPDATE is not judged again after a mere wait (FENCE-05).
 */
const HELD = `locked as materialized (
  select event_row_id, tenant_id, state, attempts, claim_token, claim_expires_at, claim_shared,
    width_bucket(event_row_id, $2::text::bigint[]) as place
  from ${DELIVERIES} where event_row_id = any ($2::text::bigint[]) order by event_row_id for update
), held as materialized (
  select event_row_id, place from locked
  where claim_token = ($4::text::bytea[])[place] and attempts = ($3::text::integer[])[place]
    and claim_expires_at > clock_timestamp() and ${ofTenant("$1")}
)`;
const TARGET = (held: string): string =>
  `d.event_row_id = any (array(select event_row_id from ${held})) and d.event_row_id = h.event_row_id`;

const UNCLAIM = "claim_token = null, claimed_by = null, claim_shared = null, claim_expires_at = null";

/** The settlement of mixed batches: $5 actions, $6 delays in ms, $7 failure codes, $8 details, $9 reasons. */
const settle = `with ${HELD}, judged as materialized (
  select l.event_row_id, l.place, ($5::text::text[])[l.place] as action, ($6::text::bigint[])[l.place] as delay,
    ($7::text::json) ->> (l.place - 1) as code, ($8::text::json) ->> (l.place - 1) as detail,
    ($9::text::json) ->> (l.place - 1) as reason, clock_timestamp() as at
  from locked l where case when ($5::text::text[])[l.place] = 'quarantinePending'
    then l.state = 'pending' and ${ofTenant("$1", "l.tenant_id")}
    else l.place in (select place from held) end
)
update ${DELIVERIES} as d set ${UNCLAIM},
  state = case h.action when 'ack' then 'delivered' when 'retry' then 'pending' when 'release' then 'pending'
    else 'quarantined' end,
  delivered_at = case h.action when 'ack' then h.at end,
  available_at = case when h.action in ('retry', 'release')
    then h.at + h.delay * interval '1 millisecond' else d.available_at end,
  forgiven = d.forgiven + case h.action when 'release' then 1 else 0 end,
  last_failure_code = coalesce(h.code, d.last_failure_code),
  last_failure_detail = case when h.code is null then d.last_failure_detail else h.detail end,
  last_failed_at = case when h.code is null then d.last_failed_at else h.at end,
  quarantined_at = case when h.action in ('quarantine', 'quarantinePending') then h.at end,
  quarantine_reason = h.reason
from judged as h where ${TARGET("judged")}
returning d.event_row_id::text`;

/** FENCE-10: the state is proven by the statement that writes. FENCE-04: the attempt is kept. SETTLE-05: a new budget. */
const REDRIVEN = `state = 'pending', available_at = clock_timestamp(), forgiven = attempts,
  last_failure_code = 'quarantined', last_failure_detail = quarantine_reason, last_failed_at = quarantined_at,
  quarantined_at = null, quarantine_reason = null`;

/** $1 tenant or null, $2 state: the tenants that have rows of a state, hopping through the index by tenant. */
const TENANTS = (state: string): string => `tenants as (
  select coalesce($1::text, (select min(tenant_id) from ${DELIVERIES} where state = '${state}')) as tenant_id
  union all
  select (select min(tenant_id) from ${DELIVERIES} where state = '${state}' and tenant_id > t.tenant_id)
  from tenants t where t.tenant_id is not null and $1::text is null
)`;

/** $2 stream, $3 failure code. */
const FILTER = `($2::text is null or d.stream = $2::text) and ($3::text is null or d.last_failure_code = $3::text)`;

/** Quarantined rows by filter, oldest quarantine first, across tenants if none is named; $4 limit. */
const QUARANTINED = `${TENANTS("quarantined")}, found as materialized (
  select q.event_row_id, q.quarantined_at from tenants t cross join lateral (
    select d.event_row_id, d.quarantined_at from ${DELIVERIES} d
    where d.state = 'quarantined' and d.tenant_id = t.tenant_id and d.${CLAIMABLE} and ${FILTER}
    order by d.quarantined_at, d.event_row_id limit $4::text::integer
  ) as q where t.tenant_id is not null order by q.quarantined_at, q.event_row_id limit $4::text::integer
)`;

/** SETTLE-07: $1 tenant, $2 age in ms, $3 limit. Locked first, so that what is redriven meanwhile stays (FENCE-10). */
const prune = (
  state: "delivered" | "quarantined",
): string => `with recursive ${TENANTS(state)}, old as materialized (
  select o.event_row_id from tenants t cross join lateral (
    select d.event_row_id from ${DELIVERIES} d where d.state = '${state}' and d.tenant_id = t.tenant_id
      and d.${state}_at <= statement_timestamp() - ${milliseconds("$2")}
    order by d.${state}_at, d.event_row_id limit $3::text::integer
  ) as o where t.tenant_id is not null limit $3::text::integer
), locked as materialized (
  select event_row_id from ${DELIVERIES} where event_row_id = any (array(select event_row_id from old))
    and state = '${state}' order by event_row_id for update skip locked
), removed as (
  delete from ${DELIVERIES} where event_row_id = any (array(select event_row_id from locked)) and state = '${state}'
  returning event_row_id
), events as (
  delete from ${EVENTS} where row_id = any (array(select event_row_id from removed)) returning row_id
)
select count(*)::text from events`;

const LISTED = {
  pending: "available_at",
  claimed: "claim_expires_at",
  delivered: "delivered_at",
  quarantined: "quarantined_at",
} as const;

/** $1 tenant, $2 stream, $3 failure code, $4 time and $5 row id of the position, $6 limit. Newest first. */
const position = (column: string): string => `($4::text is null or (d.${column}, d.event_row_id)
    < (timestamptz 'epoch' + $4::text::bigint * interval '1 microsecond', $5::text::bigint))`;
const list = (state: keyof typeof LISTED): string => {
  const at = LISTED[state];
  const newest = (tenant: string): string => `select * from ${DELIVERIES} d
    where d.state = '${state}' ${tenant} and ${FILTER} and ${position(at)}
    order by d.${at} desc, d.event_row_id desc limit $6::text::integer`;
  return `with recursive ${TENANTS(state)}, found as materialized (
  select q.* from tenants t cross join lateral (${newest("and d.tenant_id = t.tenant_id")}) as q
  where t.tenant_id is not null order by q.${at} desc, q.event_row_id desc limit $6::text::integer
)
select ${EVENT}, ${DELIVERY} from found d
cross join lateral (select * from ${EVENTS} where row_id = d.event_row_id offset 0) as e
order by d.${at} desc, d.event_row_id desc`;
};

/** $1 tenant, $2 stream, $3 after, $4 up to, $5 limit (PAGE-01, PAGE-02). */
const page = (tenant: boolean): string => `select ${EVENT}, ${DELIVERY}
from ${EVENTS} e left join ${DELIVERIES} d on d.event_row_id = e.row_id
where e.row_id > $3::text::bigint and e.row_id <= $4::text::bigint
  and ${tenant ? "e.tenant_id = $1::text" : "$1::text is null"} and ($2::text is null or e.stream = $2::text)
order by e.row_id limit $5::text::integer`;

/** Counts stop one row past the cap: $1 cap, $2 tenant. */
const capped = (where: string): string => `(select count(*)::text from (
  select 1 from ${DELIVERIES} where ${where} limit $1::text::bigint) as counted)`;
const stats = (scope: string): string => `select
  ${capped(`state = 'pending' and available_at <= statement_timestamp() and ${CLAIMABLE} ${scope}`)},
  ${capped(`state = 'pending' and available_at > statement_timestamp() and ${CLAIMABLE} ${scope}`)},
  ${capped(`state = 'claimed' and claim_expires_at > statement_timestamp() ${scope}`)},
  ${capped(`state = 'claimed' and claim_expires_at <= statement_timestamp() and ${CLAIMABLE} ${scope}`)},
  ${capped(`state = 'quarantined' ${scope}`)},
  ${capped(`attempts = 2147483647 ${scope} and (state = 'pending'
    or (state = 'claimed' and claim_expires_at <= statement_timestamp()))`)},
  (select floor(extract(epoch from statement_timestamp() - available_at) * 1000)::bigint::text
    from ${duePending(scope)} order by available_at limit 1)`;

/**
 * The guard of the caller's transaction: a setting that lives exactly as long as the transaction it was armed in. In
 * autocommit, or on another connection after the first one died, it is not there, and the insert finds no input.
 */
const GUARDED = "current_setting('dovecote.transaction', true) = $1::text";

const TEXTS: StatementTexts = {
  guardHolds: `select (${GUARDED})::text as answer`,
  // $1 guard, $2 tenant, $3 rows as JSON in identity order. A repeated identity inserts its first row (ID-06).
  enqueue: `with input as materialized (
  select i.*, decode(i.digest, 'hex') as identity_digest from json_to_recordset($3::text::json) as i (
    place integer, digest text, stream text, id text, source text, type text, subject text, time text,
    datacontenttype text, dataschema text, partitionkey text, extensions text, "dataKind" text, data text, delay bigint)
  where ${GUARDED}
), inserted as (
  insert into ${EVENTS} (tenant_id, stream, specversion, event_id, source, event_type, subject, occurred_at,
    datacontenttype, dataschema, partitionkey, extensions, data_kind, data, enqueued_at, identity_digest)
  select $2::text, stream, '1.0', id, source, type, subject, time, datacontenttype, dataschema, partitionkey,
    extensions, "dataKind", decode(data, 'hex'), clock_timestamp(), identity_digest
  from input order by place
  on conflict (identity_digest) do nothing
  returning row_id, stream, identity_digest
), delivered as (
  insert into ${DELIVERIES} (event_row_id, tenant_id, stream, state, available_at, attempts, forgiven)
  select n.row_id, $2::text, n.stream, 'pending',
    clock_timestamp() + (select min(delay) from input) * interval '1 millisecond', 0, 0
  from inserted n
)
select json_build_object('guarded', ${GUARDED}, 'inserted', (
  select coalesce(json_object_agg(encode(identity_digest, 'hex'), row_id::text), '{}'::json) from inserted))::text as answer`,
  // $1 digests as JSON: what is stored under identities that were there before (ID-02, ID-03).
  storedEvents: `select json_build_object('digest', encode(e.identity_digest, 'hex'), 'rowId', e.row_id::text,
    'tenant', e.tenant_id, 'stream', e.stream, 'id', e.event_id, 'source', e.source, 'type', e.event_type,
    'subject', e.subject, 'time', e.occurred_at, 'datacontenttype', e.datacontenttype, 'dataschema', e.dataschema,
    'partitionkey', e.partitionkey, 'extensions', e.extensions, 'dataKind', e.data_kind,
    'data', encode(e.data, 'hex'))::text as answer
  from ${EVENTS} e where e.identity_digest = any (
    array(select decode(value, 'hex') from json_array_elements_text($1::text::json)))`,

  anyDueAll: `select (exists (select 1 from ${duePending("")}) or exists (select 1 from ${dueClaimed("")}))::text`,
  claimAll: claim(SCOPES.all, false),
  claimStream: claim(SCOPES.stream, false),
  claimTenant: claim(SCOPES.tenant, false),
  claimTenantStream: claim(SCOPES.tenantStream, false),
  claimAllShared: claim(SCOPES.all, true),
  claimStreamShared: claim(SCOPES.stream, true),
  claimTenantShared: claim(SCOPES.tenant, true),
  claimTenantStreamShared: claim(SCOPES.tenantStream, true),

  // $5 leases in ms, $6 whether to unshare. LEASE-03: from database time, not from the old expiry.
  renew: `with ${HELD}
  update ${DELIVERIES} as d
  set claim_expires_at = clock_timestamp() + ($5::text::bigint[])[h.place] * interval '1 millisecond',
    claim_shared = d.claim_shared and not ($6::text::boolean[])[h.place]
  from held as h where ${TARGET("held")}
  returning d.event_row_id::text, ${micros("d.claim_expires_at")}`,
  // A batch of acks alone is the hot one.
  ack: `with ${HELD}
  update ${DELIVERIES} as d set state = 'delivered', delivered_at = clock_timestamp(), ${UNCLAIM}
  from held as h where ${TARGET("held")}
  returning d.event_row_id::text`,
  settle,
  // FENCE-06: what is true when it is looked up, in a statement of its own: the one that wrote saw an older snapshot.
  statesOf: `select event_row_id::text, state from ${DELIVERIES}
    where event_row_id = any ($2::text::bigint[]) and ${ofTenant("$1")}`,

  redrive: `update ${DELIVERIES} set ${REDRIVEN}
    where event_row_id = $2::text::bigint and state = 'quarantined' and ${CLAIMABLE} and ${ofTenant("$1")}
    returning 'applied' as answer`,
  redriveState: `select json_build_object('state', state, 'attempts', attempts)::text as answer from ${DELIVERIES}
    where event_row_id = $2::text::bigint and ${ofTenant("$1")}`,
  redriveMany: `with recursive ${QUARANTINED}, locked as materialized (
    select event_row_id from ${DELIVERIES} where event_row_id = any (array(select event_row_id from found))
      and state = 'quarantined' order by event_row_id for update
  ), redriven as (
    update ${DELIVERIES} set ${REDRIVEN}
    where event_row_id = any (array(select event_row_id from locked)) and state = 'quarantined' returning event_row_id
  )
  select coalesce(json_agg(f.event_row_id::text order by f.quarantined_at, f.event_row_id), '[]'::json)::text as answer
  from found f where f.event_row_id in (select event_row_id from redriven)`,
  redriveManyDry: `with recursive ${QUARANTINED}
  select coalesce(json_agg(event_row_id::text order by quarantined_at, event_row_id), '[]'::json)::text as answer from found`,

  pruneDelivered: prune("delivered"),
  pruneQuarantined: prune("quarantined"),

  pageAll: page(false),
  pageTenant: page(true),
  lastRowId: `select coalesce(max(row_id), 0)::text from ${EVENTS}`,
  listPending: list("pending"),
  listClaimed: list("claimed"),
  listDelivered: list("delivered"),
  listQuarantined: list("quarantined"),
  statsAll: stats("and $2::text is null"),
  statsTenant: stats("and tenant_id = $2::text"),

  reconcile: `insert into ${DELIVERIES} (event_row_id, tenant_id, stream, state, available_at, attempts, forgiven)
    select row_id, tenant_id, stream, 'pending', clock_timestamp(), 0, 0 from ${EVENTS} where row_id = $1::text::bigint
    on conflict (event_row_id) do nothing returning event_row_id::text`,
  eventExists: `select 1::text from ${EVENTS} where row_id = $1::text::bigint`,
  schemaMarker:
    "select json_build_object('version', version, 'requires', requires)::text as answer from {schema}.dovecote_schema where id = 1",
};

/** The statements of one schema. */
export function statementsOf(quotedSchema: string): StatementTexts {
  const entries = Object.entries(TEXTS).map(([name, text]) => [
    name,
    text.replaceAll("{schema}", () => quotedSchema),
  ]);
  return Object.fromEntries(entries) as StatementTexts;
}

/** Statement texts by name; the conformance suite's mutants replace one of them. */
export type StatementTexts = Readonly<Record<StatementName, string>>;

export type StatementName =
  | "guardHolds"
  | "enqueue"
  | "storedEvents"
  | "anyDueAll"
  | "claimAll"
  | "claimStream"
  | "claimTenant"
  | "claimTenantStream"
  | "claimAllShared"
  | "claimStreamShared"
  | "claimTenantShared"
  | "claimTenantStreamShared"
  | "renew"
  | "ack"
  | "settle"
  | "statesOf"
  | "redrive"
  | "redriveState"
  | "redriveMany"
  | "redriveManyDry"
  | "pruneDelivered"
  | "pruneQuarantined"
  | "pageAll"
  | "pageTenant"
  | "lastRowId"
  | "listPending"
  | "listClaimed"
  | "listDelivered"
  | "listQuarantined"
  | "statsAll"
  | "statsTenant"
  | "reconcile"
  | "eventExists"
  | "schemaMarker";
