/**
 * Every hot statement, by name. Predicates carry the id of the guarantee they uphold.
 *
 * Times come as parameters that were read from the database's clock in the same transaction, after it got its lock:
 * see `now`. Nothing here ever sees a time of the process (CLOCK-02).
 *
 * Every scan names its index with INDEXED BY: with stale or missing statistics SQLite otherwise picks an index whose
 * cost grows with the backlog of others. A missing index is then an error instead of a slow query.
 */
import { KEY_STATEMENTS, type KeyStatementName } from "./key-statements.ts";

/** Resolution 1 ms, stored as microseconds. `unixepoch('subsec')` is a REAL: rounding keeps .001 from becoming .000999. */
const NOW = "cast(round(unixepoch('subsec') * 1000) as integer) * 1000";

const EVENT = `e.row_id, e.tenant_id, e.stream, e.event_id, e.source, e.event_type, e.subject, e.occurred_at,
  e.datacontenttype, e.dataschema, e.partitionkey, e.extensions, e.data_kind, e.data, e.enqueued_at`;

const DELIVERY = `d.state, d.available_at, d.attempts, d.forgiven, d.claimed_by, d.claim_shared, d.claim_expires_at,
  d.last_failure_code, d.last_failure_detail, d.last_failed_at, d.delivered_at, d.quarantined_at, d.quarantine_reason`;

/** Claims without an attempt left are never claimed again (CLAIM-13). */
const CLAIMABLE = "attempts < 2147483647";

/** The scopes that can be claimed: each has an index of its own, but for one stream of one tenant (CLAIM-06). */
const SCOPES = {
  all: { pending: "dovecote_deliveries_pending", claimed: "dovecote_deliveries_claimed", where: "" },
  stream: {
    pending: "dovecote_deliveries_pending_stream",
    claimed: "dovecote_deliveries_claimed",
    where: "and d.stream = :stream",
  },
  tenant: {
    pending: "dovecote_deliveries_pending_tenant",
    claimed: "dovecote_deliveries_claimed_tenant",
    where: "and d.tenant_id = :tenant",
  },
  tenantStream: {
    pending: "dovecote_deliveries_pending_tenant",
    claimed: "dovecote_deliveries_claimed_tenant",
    where: "and d.tenant_id = :tenant and d.stream = :stream",
  },
} as const;

export type ScopeName = keyof typeof SCOPES;

export function scopeName(tenant: string | null, stream: string | null): ScopeName {
  if (tenant === null) return stream === null ? "all" : "stream";
  return stream === null ? "tenant" : "tenantStream";
}

type Scope = (typeof SCOPES)[ScopeName];

/** CLAIM-05: equal or past is due. LEASE-01: a live lease (expiry > now) excludes every other claimer. */
const duePending = ({ pending, where }: Scope, join = ""): string =>
  `dovecote_deliveries d indexed by ${pending} ${join}
  where d.state = 'pending' and d.available_at <= :now and ${CLAIMABLE} ${where}`;
const dueClaimed = ({ claimed, where }: Scope, join = ""): string =>
  `dovecote_deliveries d indexed by ${claimed} ${join}
  where d.state = 'claimed' and d.claim_expires_at <= :now and ${CLAIMABLE} ${where}`;

/** CROSS JOIN keeps the deliveries outside: their index gives the order, so that nothing is sorted (CLAIM-07). */
const WITH_EVENT = "cross join dovecote_events e on e.row_id = d.event_row_id";

/** A read before the write: an idle worker takes no write lock. */
const anyDue = (scope: Scope): string =>
  `select exists (select 1 from ${duePending(scope)}) or exists (select 1 from ${dueClaimed(scope)}) as due`;
const pickPending = (scope: Scope): string =>
  `select d.attempts, d.forgiven, d.claim_shared, ${EVENT} from ${duePending(scope, WITH_EVENT)}
  order by d.available_at, d.event_row_id limit :limit`;
const pickExpired = (scope: Scope): string =>
  `select d.attempts, d.forgiven, d.claim_shared, ${EVENT} from ${dueClaimed(scope, WITH_EVENT)}
  order by d.claim_expires_at, d.event_row_id limit :limit`;

/** TENANT-01: another tenant's row is not there. */
const OF_TENANT = "(:tenant is null or tenant_id = :tenant)";

/**
 * What every write after the claim proves: the row, the attempt, the token, and that the lease is not expired, also
 * if nobody took it over yet (FENCE-01 to FENCE-07, LEASE-04, LEASE-06). The state is implied by the token (CHECK).
 */
const FENCE = `event_row_id = :rowId and attempts = :attempt and claim_token = :token and claim_expires_at > :now
  and ${OF_TENANT}`;

const UNCLAIM = "claim_token = null, claimed_by = null, claim_shared = null, claim_expires_at = null";
const FAIL = "last_failure_code = :code, last_failure_detail = :detail, last_failed_at = :now";
const QUARANTINE = "state = 'quarantined', quarantined_at = :now, quarantine_reason = :reason";

/** FENCE-10: the state is proven by the statement that writes. FENCE-04: the attempt is kept. SETTLE-05: a new budget. */
const REDRIVE = `update dovecote_deliveries set state = 'pending', available_at = :now, forgiven = attempts,
  last_failure_code = 'quarantined', last_failure_detail = quarantine_reason, last_failed_at = quarantined_at,
  quarantined_at = null, quarantine_reason = null
  where event_row_id = :rowId and state = 'quarantined' and ${CLAIMABLE} and ${OF_TENANT}`;

/** Where each state's rows are found in the order of a list, newest first. */
const LISTS = {
  pending: { at: "available_at", all: SCOPES.all.pending, tenant: SCOPES.tenant.pending },
  claimed: { at: "claim_expires_at", all: SCOPES.all.claimed, tenant: SCOPES.tenant.claimed },
  // Indexed by tenant alone: whoever spans tenants walks them, since these states only ever grow.
  delivered: { at: "delivered_at", all: undefined, tenant: "dovecote_deliveries_delivered" },
  quarantined: { at: "quarantined_at", all: undefined, tenant: "dovecote_deliveries_quarantined" },
} as const;

const LIST_FILTER = `(:stream is null or d.stream = :stream)
  and (:failureCode is null or d.last_failure_code = :failureCode)`;

const list = (state: keyof typeof LISTS, span: "all" | "tenant"): string => `select ${EVENT}, ${DELIVERY}
  from dovecote_deliveries d indexed by ${LISTS[state][span]}
  ${WITH_EVENT}
  where d.state = '${state}' ${span === "tenant" ? "and d.tenant_id = :tenant" : ""}
  and (d.${LISTS[state].at}, d.event_row_id) < (:beforeAt, :beforeRowId) and ${LIST_FILTER}
  order by d.${LISTS[state].at} desc, d.event_row_id desc limit :limit`;

/** Loose index scan: the next tenant with a row of the state. */
const nextTenant = (state: "delivered" | "quarantined"): string =>
  `select min(tenant_id) as tenant_id from dovecote_deliveries indexed by ${LISTS[state].tenant}
  where state = '${state}' and tenant_id > :after`;

/** Counts stop one row past the cap. */
const capped = (from: string): string => `select count(*) as count from (select 1 from ${from} limit :cap)`;
const live = ({ claimed, where }: Scope): string =>
  `dovecote_deliveries d indexed by ${claimed} where d.state = 'claimed' and d.claim_expires_at > :now ${where}`;
const scheduled = ({ pending, where }: Scope): string =>
  `dovecote_deliveries d indexed by ${pending}
  where d.state = 'pending' and d.available_at > :now and ${CLAIMABLE} ${where}`;
const quarantined = (where: string): string =>
  `dovecote_deliveries d indexed by dovecote_deliveries_quarantined where d.state = 'quarantined' ${where}`;
const exhausted = (where: string): string =>
  `dovecote_deliveries d indexed by dovecote_deliveries_exhausted where d.attempts = 2147483647 ${where}
  and (d.state = 'pending' or (d.state = 'claimed' and d.claim_expires_at <= :now))`;
const oldestDue = (scope: Scope): string =>
  `select d.available_at from ${duePending(scope)} order by d.available_at limit 1`;

/** PAGE-01, PAGE-02: every event, with or without its delivery. */
const page = (tenant: boolean): string => `select ${EVENT}, ${DELIVERY}
  from dovecote_events e ${tenant ? "indexed by dovecote_events_tenant" : "not indexed"}
  left join dovecote_deliveries d on d.event_row_id = e.row_id
  where e.row_id > :after and e.row_id <= :upTo ${tenant ? "and e.tenant_id = :tenant" : ""}
  and (:stream is null or e.stream = :stream)
  order by e.row_id limit :limit`;

export const STATEMENTS: StatementTexts = {
  now: `select ${NOW} as now`,
  dataVersion: "pragma data_version",
  // Read at once, also in a long transaction: a statement's own time (CLOCK-03).
  insertEvent: `insert into dovecote_events (tenant_id, stream, specversion, event_id, source, event_type, subject,
    occurred_at, datacontenttype, dataschema, partitionkey, extensions, data_kind, data, enqueued_at)
    values (:tenant, :stream, '1.0', :id, :source, :type, :subject,
    :time, :datacontenttype, :dataschema, :partitionkey, :extensions, :dataKind, :data, :now)
    on conflict (tenant_id, source, event_id) do nothing`,
  insertDelivery: `insert into dovecote_deliveries (event_row_id, tenant_id, stream, state, available_at, attempts, forgiven)
    values (:rowId, :tenant, :stream, 'pending', :now + :delay, 0, 0)`,
  eventByIdentity: `select ${EVENT} from dovecote_events e
    where e.tenant_id = :tenant and e.source = :source and e.event_id = :id`,

  anyDueAll: anyDue(SCOPES.all),
  anyDueStream: anyDue(SCOPES.stream),
  anyDueTenant: anyDue(SCOPES.tenant),
  anyDueTenantStream: anyDue(SCOPES.tenantStream),
  pickPendingAll: pickPending(SCOPES.all),
  pickPendingStream: pickPending(SCOPES.stream),
  pickPendingTenant: pickPending(SCOPES.tenant),
  pickPendingTenantStream: pickPending(SCOPES.tenantStream),
  pickExpiredAll: pickExpired(SCOPES.all),
  pickExpiredStream: pickExpired(SCOPES.stream),
  pickExpiredTenant: pickExpired(SCOPES.tenant),
  pickExpiredTenantStream: pickExpired(SCOPES.tenantStream),
  // One update per picked row is as fast as one for all, and each proves what was picked once more: the row is still
  // due, and the token is new (CLAIM-09).
  claim: `update dovecote_deliveries set state = 'claimed', attempts = attempts + 1, forgiven = forgiven + :forgive,
    claim_token = :token, claimed_by = :worker, claim_shared = :shared, claim_expires_at = :now + :lease
    where event_row_id = :rowId and claim_token is not :token
    and ((state = 'pending' and available_at <= :now) or (state = 'claimed' and claim_expires_at <= :now))`,

  // LEASE-03: from database time, not from the old expiry.
  renew: `update dovecote_deliveries set claim_expires_at = :now + :lease,
    claim_shared = case when :unshare then 0 else claim_shared end where ${FENCE}`,
  ack: `update dovecote_deliveries set state = 'delivered', delivered_at = :now, ${UNCLAIM} where ${FENCE}`,
  retry: `update dovecote_deliveries set state = 'pending', available_at = :now + :delay, ${FAIL}, ${UNCLAIM}
    where ${FENCE}`,
  // SETTLE-03: an earlier failure is kept, the attempt is forgiven.
  release: `update dovecote_deliveries set state = 'pending', available_at = :now + :delay, forgiven = forgiven + 1,
    ${UNCLAIM} where ${FENCE}`,
  quarantine: `update dovecote_deliveries set ${QUARANTINE}, ${UNCLAIM} where ${FENCE}`,
  quarantineFailed: `update dovecote_deliveries set ${QUARANTINE}, ${FAIL}, ${UNCLAIM} where ${FENCE}`,
  // SETTLE-04: the row id of an operator proves nothing, the state does.
  quarantinePending: `update dovecote_deliveries set ${QUARANTINE}
    where event_row_id = :rowId and state = 'pending' and ${OF_TENANT}`,
  // FENCE-06: what is true when it is looked up.
  stateOf: `select state, attempts from dovecote_deliveries where event_row_id = :rowId and ${OF_TENANT}`,

  redrive: REDRIVE,
  pickQuarantined: `select d.event_row_id as row_id, d.quarantined_at as at
    from dovecote_deliveries d indexed by dovecote_deliveries_quarantined
    where d.state = 'quarantined' and d.tenant_id = :tenant and ${CLAIMABLE} and ${LIST_FILTER}
    order by d.quarantined_at, d.event_row_id limit :limit`,

  pickPrunableDelivered: `select event_row_id as row_id
    from dovecote_deliveries indexed by dovecote_deliveries_delivered
    where state = 'delivered' and tenant_id = :tenant and delivered_at <= :bound order by delivered_at limit :limit`,
  pickPrunableQuarantined: `select event_row_id as row_id
    from dovecote_deliveries indexed by dovecote_deliveries_quarantined
    where state = 'quarantined' and tenant_id = :tenant and quarantined_at <= :bound order by quarantined_at limit :limit`,
  // FENCE-10: a row that was redriven meanwhile is not removed.
  pruneDelivered: `delete from dovecote_deliveries
    where event_row_id = :rowId and state = 'delivered' and delivered_at <= :bound`,
  pruneQuarantined: `delete from dovecote_deliveries
    where event_row_id = :rowId and state = 'quarantined' and quarantined_at <= :bound`,
  pruneEvent: "delete from dovecote_events where row_id = :rowId",

  nextTenantDelivered: nextTenant("delivered"),
  nextTenantQuarantined: nextTenant("quarantined"),

  pageAll: page(false),
  pageTenant: page(true),
  lastRowId: "select coalesce(max(row_id), 0) as row_id from dovecote_events",
  listPendingAll: list("pending", "all"),
  listPendingTenant: list("pending", "tenant"),
  listClaimedAll: list("claimed", "all"),
  listClaimedTenant: list("claimed", "tenant"),
  listDeliveredTenant: list("delivered", "tenant"),
  listQuarantinedTenant: list("quarantined", "tenant"),

  countDueAll: capped(duePending(SCOPES.all)),
  countDueTenant: capped(duePending(SCOPES.tenant)),
  countScheduledAll: capped(scheduled(SCOPES.all)),
  countScheduledTenant: capped(scheduled(SCOPES.tenant)),
  countClaimedAll: capped(live(SCOPES.all)),
  countClaimedTenant: capped(live(SCOPES.tenant)),
  countExpiredAll: capped(dueClaimed(SCOPES.all)),
  countExpiredTenant: capped(dueClaimed(SCOPES.tenant)),
  countQuarantinedAll: capped(quarantined("")),
  countQuarantinedTenant: capped(quarantined("and d.tenant_id = :tenant")),
  countExhaustedAll: capped(exhausted("")),
  countExhaustedTenant: capped(exhausted("and d.tenant_id = :tenant")),
  oldestDueAll: oldestDue(SCOPES.all),
  oldestDueTenant: oldestDue(SCOPES.tenant),

  reconcile: `insert into dovecote_deliveries (event_row_id, tenant_id, stream, state, available_at, attempts, forgiven)
    select row_id, tenant_id, stream, 'pending', :now, 0, 0 from dovecote_events where row_id = :rowId
    on conflict (event_row_id) do nothing`,
  eventExists: "select 1 as found from dovecote_events where row_id = :rowId",
  ...KEY_STATEMENTS,
};

/** Statement texts by name; the conformance suite's mutants replace one of them. */
export type StatementTexts = Readonly<Record<StatementName, string>>;

export type StatementName =
  | "now"
  | "dataVersion"
  | "insertEvent"
  | "insertDelivery"
  | "eventByIdentity"
  | "anyDueAll"
  | "anyDueStream"
  | "anyDueTenant"
  | "anyDueTenantStream"
  | "pickPendingAll"
  | "pickPendingStream"
  | "pickPendingTenant"
  | "pickPendingTenantStream"
  | "pickExpiredAll"
  | "pickExpiredStream"
  | "pickExpiredTenant"
  | "pickExpiredTenantStream"
  | "claim"
  | "renew"
  | "ack"
  | "retry"
  | "release"
  | "quarantine"
  | "quarantineFailed"
  | "quarantinePending"
  | "stateOf"
  | "redrive"
  | "pickQuarantined"
  | "pickPrunableDelivered"
  | "pickPrunableQuarantined"
  | "pruneDelivered"
  | "pruneQuarantined"
  | "pruneEvent"
  | "nextTenantDelivered"
  | "nextTenantQuarantined"
  | "pageAll"
  | "pageTenant"
  | "lastRowId"
  | "listPendingAll"
  | "listPendingTenant"
  | "listClaimedAll"
  | "listClaimedTenant"
  | "listDeliveredTenant"
  | "listQuarantinedTenant"
  | "countDueAll"
  | "countDueTenant"
  | "countScheduledAll"
  | "countScheduledTenant"
  | "countClaimedAll"
  | "countClaimedTenant"
  | "countExpiredAll"
  | "countExpiredTenant"
  | "countQuarantinedAll"
  | "countQuarantinedTenant"
  | "countExhaustedAll"
  | "countExhaustedTenant"
  | "oldestDueAll"
  | "oldestDueTenant"
  | "reconcile"
  | "eventExists"
  | KeyStatementName;
