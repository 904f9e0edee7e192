/**
 * Every statement, by name, each in autocommit unless it joins the caller's transaction. Predicates carry the id of the
 * guarantee they uphold.
 *
 * Shapes: `shapes.ts` says why they look as they do; claiming is `claim-statement.ts`.
 *
 * Clocks: scans compare with `statement_timestamp()`, since a volatile function is never an index condition; what is
 * written, and what is judged after a lock was taken, uses `clock_timestamp()`. `now()` freezes at BEGIN and is never
 * used (CLOCK-03).
 *
 * Parameters are texts, cast here, and results are texts: no parser or serializer of a client takes part, whatever the
 * application has configured there.
 */
import { claim, duePending, SCOPES } from "./claim-statement.ts";
import { KEY_STATEMENTS, type KeyStatementName } from "./key-statements.ts";
import {
  CLAIMABLE,
  DELIVERIES,
  DELIVERY,
  EVENT,
  EVENTS,
  first,
  holds,
  MANY,
  matches,
  micros,
  milliseconds,
  ofOneTenant,
  ofTenant,
  once,
  type Scope,
  TOKENS,
  tenants,
  within,
} from "./shapes.ts";

/**
 * What every write after the claim proves (FENCE-01 to FENCE-07, LEASE-04, LEASE-06). $1 tenant; $2 row ids, ascending
 * and distinct, since `width_bucket` finds the place of one; $3 attempts, $4 tokens. Rows are locked first, in the order
 * of their key, and judged outside: a predicate beside FOR UPDATE is not judged again after a mere wait. The
 * count has every row locked before the first one is judged (FENCE-05).
 */
const HELD = `locked as materialized (
  select event_row_id, tenant_id, state, attempts, claim_token, claim_expires_at, claim_shared,
    width_bucket(event_row_id, ${once("$2::text::bigint[]")}) as place
  from ${DELIVERIES} where event_row_id = any (${once("$2::text::bigint[]")}::bigint[]) order by event_row_id for update
), held as materialized (
  select event_row_id, place from locked
  where claim_token = ${TOKENS}[place] and attempts = ${once("$3::text::integer[]")}[place]
    and case when (select count(*) from locked) > 0 then claim_expires_at > clock_timestamp() end
    and ${ofTenant("$1")}
)`;

const UNCLAIM = "claim_token = null, claimed_by = null, claim_shared = null, claim_expires_at = null";

/** One of a JSON array of texts and nulls, parsed once. */
const textAt = (parameter: string, place: string): string =>
  `${once(`array(select json_array_elements_text(${parameter}::text::json))`)}[${place}]`;

/** The settlement of mixed batches: $5 actions, $6 delays in ms, $7 failure codes, $8 details, $9 reasons. */
const settle = `with ${HELD}, judged as materialized (
  select event_row_id, action, ${once("$6::text::bigint[]")}[place] as delay, ${textAt("$7", "place")} as code,
    ${textAt("$8", "place")} as detail, ${textAt("$9", "place")} as reason, clock_timestamp() as at
  from (select *, ${once("$5::text::text[]")}[place] as action from locked) as l
  where case when action = 'quarantinePending' then state = 'pending' and ${ofTenant("$1")}
    else place in (select place from held) end
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
from judged as h where d.event_row_id = h.event_row_id
returning d.event_row_id::text`;

/** FENCE-10: the state is proven by the statement that writes. FENCE-04: the attempt is kept. SETTLE-05: a new budget. */
const REDRIVEN = `state = 'pending', available_at = clock_timestamp(), forgiven = attempts,
  last_failure_code = 'quarantined', last_failure_detail = quarantine_reason, last_failed_at = quarantined_at,
  quarantined_at = null, quarantine_reason = null`;

/** $2 stream, $3 failure code. */
const FILTER = `${matches("d.stream", "$2")} and ${matches("d.last_failure_code", "$3")}`;

/** Quarantined rows by filter, oldest quarantine first, across tenants if none is named; $4 limit. */
const QUARANTINED = `${tenants(DELIVERIES, "quarantined")}, found as materialized (
  select q.event_row_id, q.quarantined_at from tenants t cross join lateral (
    ${first(
      `select d.event_row_id, d.quarantined_at from ${DELIVERIES} d ${MANY}
    where d.state = 'quarantined' and ${within("d.tenant_id", "t.tenant_id")} and d.${CLAIMABLE} and ${FILTER}
    order by d.tenant_id, d.quarantined_at, d.event_row_id`,
      "$4::text::integer",
    )}
  ) as q where t.tenant_id is not null order by q.quarantined_at, q.event_row_id limit $4::text::integer
)`;

/**
 * SETTLE-07: $1 tenant, $2 age in ms, $3 limit. Locked first, so that what is redriven meanwhile stays (FENCE-10). $4 what
 * to lock so that nobody else prunes meanwhile, until this statement's transaction ends, or null; a miss answers null.
 */
const prune = (state: "delivered" | "quarantined"): string => `with recursive turn as materialized (
  select case when $4::text is null then true
    else pg_try_advisory_xact_lock(hashtextextended($4::text, 0)) end as ours
), ${tenants(DELIVERIES, state)}, old as materialized (
  select o.event_row_id from tenants t cross join lateral (
    ${first(
      `select d.event_row_id from ${DELIVERIES} d ${MANY}
    where d.state = '${state}' and ${within("d.tenant_id", "t.tenant_id")}
      and d.${state}_at <= statement_timestamp() - ${milliseconds("$2")}
    order by d.tenant_id, d.${state}_at, d.event_row_id`,
      "$3::text::integer",
    )}
  ) as o where t.tenant_id is not null and ${once("ours from turn")} limit $3::text::integer
), locked as materialized (
  select event_row_id from ${DELIVERIES} where event_row_id = any (array(select event_row_id from old))
    and ${holds(`state = '${state}' and ${state}_at <= statement_timestamp() - ${milliseconds("$2")}`)} order by event_row_id for update skip locked
), removed as (
  delete from ${DELIVERIES} where event_row_id = any (array(select event_row_id from locked))
    and ${holds(`state = '${state}' and ${state}_at <= statement_timestamp() - ${milliseconds("$2")}`)}
  returning event_row_id
), events as (
  delete from ${EVENTS} where row_id = any (array(select event_row_id from removed)) returning row_id
)
select case when ${once("ours from turn")} then (select count(*)::text from events) end`;

const LISTED = {
  pending: "available_at",
  claimed: "claim_expires_at",
  delivered: "delivered_at",
  quarantined: "quarantined_at",
} as const;

/** $1 tenant, $2 stream, $3 failure code, $4 time and $5 row id of the position, $6 limit. Newest first. */
const position = (column: string): string => `(d.${column}, d.event_row_id)
    < (coalesce(timestamptz 'epoch' + $4::text::bigint * interval '1 microsecond', 'infinity'),
      coalesce($5::text::bigint, 9223372036854775807))`;
const list = (state: keyof typeof LISTED): string => {
  const at = LISTED[state];
  const newest = first(
    `select d.* from ${DELIVERIES} d ${MANY}
    where d.state = '${state}' and ${within("d.tenant_id", "t.tenant_id")} and ${FILTER} and ${position(at)}
    order by d.tenant_id desc, d.${at} desc, d.event_row_id desc`,
    "$6::text::integer",
  );
  return `with recursive ${tenants(DELIVERIES, state)}, found as materialized (
  select q.* from tenants t cross join lateral (${newest}) as q
  where t.tenant_id is not null order by q.${at} desc, q.event_row_id desc limit $6::text::integer
)
select ${EVENT}, ${DELIVERY} from found d
cross join lateral (select * from ${EVENTS} where row_id = d.event_row_id offset 0) as e
order by d.${at} desc, d.event_row_id desc`;
};

/** $1 tenant, $2 stream, $3 after, $4 up to, $5 limit (PAGE-01, PAGE-02). */
const page = (scope: Scope): string => `select ${EVENT}, ${DELIVERY}
from (${first(
  `select e.* from ${EVENTS} e ${MANY}
  where row_id > $3::text::bigint and row_id <= $4::text::bigint ${scope.where} and ${matches("stream", "$2")}
  order by ${scope.leads}row_id`,
  "$5::text::integer",
)}) as e left join lateral (select * from ${DELIVERIES} where event_row_id = e.row_id offset 0) as d on true
order by e.row_id`;

/** Counts stop one row past the cap: $1 cap, $2 tenant. */
const capped = (where: string, order: string): string => `(select count(*)::text from (
  ${first(`select 1 from ${DELIVERIES} ${MANY} where ${where} order by ${order}`, "$1::text::bigint")}) as counted)`;
const stats = ({ where, leads }: Scope): string => `select
  ${capped(`state = 'pending' and available_at <= statement_timestamp() and ${CLAIMABLE} ${where}`, `${leads}available_at`)},
  ${capped(`state = 'pending' and available_at > statement_timestamp() and ${CLAIMABLE} ${where}`, `${leads}available_at`)},
  ${capped(`state = 'claimed' and claim_expires_at > statement_timestamp() ${where}`, `${leads}claim_expires_at`)},
  ${capped(
    `state = 'claimed' and claim_expires_at <= statement_timestamp() and ${CLAIMABLE} ${where}`,
    `${leads}claim_expires_at`,
  )},
  ${capped(`state = 'quarantined' ${where}`, "tenant_id, quarantined_at")},
  ${capped(
    `attempts = 2147483647 ${where} and ${holds(
      "state = 'pending' or (state = 'claimed' and claim_expires_at <= statement_timestamp())",
    )}`,
    "tenant_id",
  )},
  (select floor(extract(epoch from statement_timestamp() - available_at) * 1000)::bigint::text from (
    ${first(`select available_at from ${duePending({ where, leads })} order by ${leads}available_at`, "1")}) as oldest)`;

/** TX-05: see `guard.ts`. What writes in the caller's transaction checks it by itself. */
const guarded = (parameter: string): string =>
  `strpos(coalesce(current_setting('dovecote.transaction', true), ''), ${parameter}::text) > 0`;
/** The same for statements that run in autocommit as well, without a guard. */
const guardedIf = (parameter: string): string => `(${parameter}::text is null or ${guarded(parameter)})`;

const TEXTS: StatementTexts = {
  ...KEY_STATEMENTS,
  // $1 guard, $2 tenant, $3 rows as JSON in identity order. A repeated identity inserts its first row (ID-06). $4 the
  // channel to wake, or null: the server sends equal notifications of a transaction once, at its commit (WAKE-01).
  enqueue: `with input as materialized (
  select i.*, decode(i.digest, 'hex') as identity_digest from json_to_recordset($3::text::json) as i (
    place integer, digest text, stream text, id text, source text, type text, subject text, time text,
    datacontenttype text, dataschema text, partitionkey text, extensions text, "dataKind" text, data text, delay bigint)
  where ${guarded("$1")}
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
  select n.row_id, $2::text, n.stream, 'pending', clock_timestamp() + f.delay * interval '1 millisecond', 0, 0
  from inserted n join (
    select distinct on (identity_digest) identity_digest, delay from input order by identity_digest, place
  ) as f using (identity_digest)
), woken as materialized (
  select pg_notify($4::text, '') from inserted where $4::text is not null limit 1
)
select json_build_object('guarded', ${guarded("$1")}, 'woken', (select count(*) from woken), 'inserted', (
  select coalesce(json_object_agg(encode(identity_digest, 'hex'), row_id::text), '{}'::json) from inserted))::text as answer`,
  // $1 digests as JSON: what is stored under identities that were there before (ID-02, ID-03).
  storedEvents: `select json_build_object('digest', encode(e.identity_digest, 'hex'), 'rowId', e.row_id::text,
    'tenant', e.tenant_id, 'stream', e.stream, 'id', e.event_id, 'source', e.source, 'type', e.event_type,
    'subject', e.subject, 'time', e.occurred_at, 'datacontenttype', e.datacontenttype, 'dataschema', e.dataschema,
    'partitionkey', e.partitionkey, 'extensions', e.extensions, 'dataKind', e.data_kind,
    'data', encode(e.data, 'hex'))::text as answer
  from ${EVENTS} e where e.identity_digest = any (
    array(select decode(value, 'hex') from json_array_elements_text($1::text::json)))`,

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
  set claim_expires_at = clock_timestamp() + ${once("$5::text::bigint[]")}[h.place] * interval '1 millisecond',
    claim_shared = d.claim_shared and not ${once("$6::text::boolean[]")}[h.place]
  from held as h where d.event_row_id = h.event_row_id
  returning d.event_row_id::text, ${micros("d.claim_expires_at")}`,
  // A batch of acks alone is the hot one.
  ack: `with ${HELD}
  update ${DELIVERIES} as d set state = 'delivered', delivered_at = clock_timestamp(), ${UNCLAIM}
  where d.event_row_id = any (array(select event_row_id from held))
  returning d.event_row_id::text`,
  settle,
  // FENCE-06: what is true when it is looked up, in a statement of its own: the one that wrote saw an older snapshot.
  statesOf: `select event_row_id::text, state from ${DELIVERIES}
    where event_row_id = any (${once("$2::text::bigint[]")}::bigint[]) and ${ofTenant("$1")}`,

  // $1 guard or null, $2 tenant, $3 row id.
  redrive: `update ${DELIVERIES} set ${REDRIVEN}
    where event_row_id = $3::text::bigint and ${holds("state = 'quarantined'")} and ${CLAIMABLE} and ${ofTenant("$2")}
      and ${guardedIf("$1")}
    returning 'applied' as answer`,
  redriveState: `select json_build_object('guarded', ${guardedIf("$1")}, 'state', d.state, 'attempts', d.attempts)::text
      as answer
    from (select 1) as one left join ${DELIVERIES} d on d.event_row_id = $3::text::bigint and ${ofTenant("$2", "d.tenant_id")}`,
  // $5 guard or null.
  redriveMany: `with recursive ${QUARANTINED}, locked as materialized (
    select event_row_id from ${DELIVERIES} where event_row_id = any (array(select event_row_id from found))
      and ${holds("state = 'quarantined'")} and ${guardedIf("$5")} order by event_row_id for update
  ), redriven as (
    update ${DELIVERIES} set ${REDRIVEN}
    where event_row_id = any (array(select event_row_id from locked)) and ${holds("state = 'quarantined'")}
    returning event_row_id
  )
  select json_build_object('guarded', ${guardedIf("$5")}, 'rowIds', coalesce(
    (select json_agg(f.event_row_id::text order by f.quarantined_at, f.event_row_id)
      from found f where f.event_row_id in (select event_row_id from redriven)), '[]'::json))::text as answer`,
  redriveManyDry: `with recursive ${QUARANTINED}
  select json_build_object('guarded', ${guardedIf("$5")}, 'rowIds', coalesce(
    (select json_agg(event_row_id::text order by quarantined_at, event_row_id) from found), '[]'::json))::text as answer`,

  pruneDelivered: prune("delivered"),
  pruneQuarantined: prune("quarantined"),

  pageAll: page({ where: "and $1::text is null", leads: "" }),
  pageTenant: page(ofOneTenant("$1")),
  // $1 the table of events. Its locks are read after the statement's snapshot was taken; see `finality.ts`.
  writers: `with writers as (
  select virtualtransaction as virtual, bool_or(pid is null) as prepared,
    coalesce(array_agg(transactionid::text) filter (where locktype = 'transactionid' and mode = 'ExclusiveLock'),
      '{}') as ids
  from pg_locks where granted and locktype in ('relation', 'transactionid') group by virtualtransaction
  having bool_or(locktype = 'relation' and mode = 'RowExclusiveLock' and relation = $1::text::regclass
    and database = (select oid from pg_database where datname = current_database()))
)
select ${micros("pg_postmaster_start_time()")}, pg_is_in_recovery()::text,
  (select coalesce(max(row_id), 0)::text from ${EVENTS}), (select coalesce(json_agg(w), '[]'::json)::text from writers w)`,
  lastRowId: `select coalesce(max(row_id), 0)::text from ${EVENTS}`,
  listPending: list("pending"),
  listClaimed: list("claimed"),
  listDelivered: list("delivered"),
  listQuarantined: list("quarantined"),
  statsAll: stats({ where: "and $2::text is null", leads: "" }),
  statsTenant: stats(ofOneTenant("$2")),

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
  | KeyStatementName
  | "enqueue"
  | "storedEvents"
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
  | "writers"
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
