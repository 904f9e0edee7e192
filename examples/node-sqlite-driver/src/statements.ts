/**
 * Every statement by name, so that a mutant can rewrite one. Predicates carry the id of the guarantee they uphold.
 *
 * `:now` is database time, read in the same transaction after it got its lock: nothing here ever sees a time of the
 * process (CLOCK-02). Every scan names its index with INDEXED BY: with stale or missing statistics SQLite otherwise
 * picks one whose cost grows with the backlog of others; a missing index is then an error instead of a slow query.
 */
import type { DeliveryState } from "@dovecote/core";

export type Span = "all" | "tenant";
export type Scope = Span | "stream" | "tenantStream";

export type StatementName =
  | "now"
  | "insertEvent"
  | "insertDelivery"
  | "eventByIdentity"
  | "claim"
  | "renew"
  | "ack"
  | "retry"
  | "release"
  | "quarantine"
  | "quarantinePending"
  | "stateOf"
  | "redrive"
  | "reconcile"
  | "lastRowId"
  | "pruneDelivery"
  | "pruneEvent"
  | `${"anyDue" | "pickPending" | "pickExpired"}.${Scope}`
  | `${"page" | "pickQuarantined" | "stats"}.${Span}`
  | `pickOld.${"delivered" | "quarantined"}.${Span}`
  | `list.${DeliveryState}.${Span}`;

export type StatementTexts = Readonly<Record<StatementName, string>>;

/** Resolution 1 ms, stored as microseconds. The function answers a REAL: rounding keeps .001 from becoming .000999. */
const NOW = "cast(round(unixepoch('subsec') * 1000) as integer) * 1000";

/** Columns by the names of `EventRecord` and `DeliveryRecord`, see `rows.ts`. */
const EVENT = `e.row_id as rowId, e.tenant, e.enqueued_at as enqueuedAt, e.stream, e.id, e.source, e.type, e.subject,
  e.time, e.datacontenttype, e.dataschema, e.partitionkey, e.extensions, e.data_kind as dataKind, e.data`;
const DELIVERY = `d.state, d.available_at as availableAt, d.attempts as attempt, d.forgiven, d.worker, d.shared,
  d.expires_at as expiresAt, d.failure_code as code, d.failure_detail as detail, d.failed_at as failedAt,
  d.delivered_at as deliveredAt, d.quarantined_at as quarantinedAt, d.quarantine_reason as quarantineReason`;

/** CROSS JOIN keeps the deliveries outside: their index gives the order, so that nothing is sorted. */
const WITH_EVENT = "cross join outbox_events e on e.row_id = d.row_id";

/** What has used up its attempts is never claimed again (CLAIM-13). */
const CLAIMABLE = "d.attempts < 2147483647";

/** TENANT-01: another tenant's row is not there. */
const OF_TENANT = "(:tenant is null or tenant = :tenant)";

/**
 * What every write after the claim proves: the row, the attempt, the token, and that the lease is not expired, also
 * if nobody took it over yet (FENCE-01 to FENCE-07, LEASE-04, LEASE-06). The state is implied by the token (CHECK).
 */
const FENCE = `row_id = :rowId and attempts = :attempt and token = :token and expires_at > :now and ${OF_TENANT}`;

const UNCLAIM = "token = null, worker = null, shared = null, expires_at = null";
const QUARANTINE = "state = 'quarantined', quarantined_at = :now, quarantine_reason = :reason";
const FILTER =
  "(:stream is null or d.stream = :stream) and (:failureCode is null or d.failure_code = :failureCode)";

/** The index of each scope that can be claimed (CLAIM-06); one stream of one tenant is found among the tenant's. */
const SCOPES = {
  all: { pending: "outbox_pending", claimed: "outbox_claimed", where: "true" },
  stream: { pending: "outbox_pending_stream", claimed: "outbox_claimed", where: "d.stream = :stream" },
  tenant: {
    pending: "outbox_pending_tenant",
    claimed: "outbox_claimed_tenant",
    where: "d.tenant = :tenant",
  },
  tenantStream: {
    pending: "outbox_pending_tenant",
    claimed: "outbox_claimed_tenant",
    where: "d.tenant = :tenant and d.stream = :stream",
  },
} as const;

function ofScope(scope: Scope): Record<string, string> {
  const { pending, claimed, where } = SCOPES[scope];
  const from = (index: string, join = ""): string => `from outbox_deliveries d indexed by ${index} ${join}`;
  // CLAIM-05: equal or past is due. LEASE-01: a live lease excludes every other claimer.
  const due = `where d.state = 'pending' and d.available_at <= :now and ${CLAIMABLE} and ${where}`;
  const expired = `where d.state = 'claimed' and d.expires_at <= :now and ${CLAIMABLE} and ${where}`;
  const picked = `select d.attempts as attempt, d.forgiven, d.shared, ${EVENT}`;
  return {
    // A read before the write: an idle worker takes no write lock.
    [`anyDue.${scope}`]: `select 1 as found where exists (select 1 ${from(pending)} ${due})
      or exists (select 1 ${from(claimed)} ${expired})`,
    [`pickPending.${scope}`]: `${picked} ${from(pending, WITH_EVENT)} ${due}
      order by d.available_at, d.row_id limit :limit`,
    [`pickExpired.${scope}`]: `${picked} ${from(claimed, WITH_EVENT)} ${expired}
      order by d.expires_at, d.row_id limit :limit`,
  };
}

/** The time that orders the rows of each state; every state has an index by it, and one by tenant and it. */
const AT = {
  pending: "available_at",
  claimed: "expires_at",
  delivered: "delivered_at",
  quarantined: "quarantined_at",
} as const;

function ofSpan(span: Span): Record<string, string> {
  const suffix = span === "tenant" ? "_tenant" : "";
  const { where } = SCOPES[span];
  const from = (state: DeliveryState, join = ""): string =>
    `from outbox_deliveries d indexed by outbox_${state}${suffix} ${join} where d.state = '${state}' and ${where}`;
  const list = (state: DeliveryState): string => `select ${EVENT}, ${DELIVERY} ${from(state, WITH_EVENT)}
    and (d.${AT[state]}, d.row_id) < (:beforeAt, :beforeRowId) and ${FILTER}
    order by d.${AT[state]} desc, d.row_id desc limit :limit`;
  const pickOld = (state: "delivered" | "quarantined"): string =>
    `select d.row_id as rowId ${from(state)} and d.${AT[state]} <= :bound order by d.${AT[state]} limit :limit`;
  // Counts stop one row past the cap.
  const capped = (rows: string): string => `(select count(*) from (select 1 ${rows} limit :cap + 1))`;
  const due = `${from("pending")} and d.available_at <= :now and ${CLAIMABLE}`;
  return {
    // PAGE-01, PAGE-02: every event, with or without its delivery.
    [`page.${span}`]: `select ${EVENT}, ${DELIVERY}
      from outbox_events e ${span === "tenant" ? "indexed by outbox_events_tenant" : "not indexed"}
      left join outbox_deliveries d on d.row_id = e.row_id
      where e.row_id > :after and e.row_id <= :upTo and (:stream is null or e.stream = :stream)
      ${span === "tenant" ? "and e.tenant = :tenant" : ""} order by e.row_id limit :limit`,
    [`list.pending.${span}`]: list("pending"),
    [`list.claimed.${span}`]: list("claimed"),
    [`list.delivered.${span}`]: list("delivered"),
    [`list.quarantined.${span}`]: list("quarantined"),
    [`pickQuarantined.${span}`]: `select d.row_id as rowId ${from("quarantined")} and ${CLAIMABLE} and ${FILTER}
      order by d.quarantined_at, d.row_id limit :limit`,
    [`pickOld.delivered.${span}`]: pickOld("delivered"),
    [`pickOld.quarantined.${span}`]: pickOld("quarantined"),
    [`stats.${span}`]: `select ${capped(due)} as due,
      ${capped(`${from("pending")} and d.available_at > :now and ${CLAIMABLE}`)} as scheduled,
      ${capped(`${from("claimed")} and d.expires_at > :now`)} as claimed,
      ${capped(`${from("claimed")} and d.expires_at <= :now and ${CLAIMABLE}`)} as expired,
      ${capped(from("quarantined"))} as quarantined,
      ${capped(`from outbox_deliveries d indexed by outbox_exhausted where d.attempts = 2147483647 and ${where}
        and (d.state = 'pending' or (d.state = 'claimed' and d.expires_at <= :now))`)} as exhausted,
      (select d.available_at ${due} order by d.available_at limit 1) as oldestDue`,
  };
}

const BY_NAME: Partial<StatementTexts> = {
  now: `select ${NOW} as now`,
  // ID-04: whoever comes second inserts nothing and gets no row, instead of an error about a unique constraint.
  // ID-09: `node:sqlite` binds some empty arrays as NULL, those without memory behind them; the kind tells them apart.
  insertEvent: `insert into outbox_events (tenant, stream, id, source, type, subject, time, datacontenttype, dataschema,
    partitionkey, extensions, data_kind, data, enqueued_at)
    values (:tenant, :stream, :id, :source, :type, :subject, :time, :datacontenttype, :dataschema,
    :partitionkey, :extensions, :dataKind, iif(:dataKind = 'absent', null, coalesce(:data, x'')), :now)
    on conflict (tenant, source, id) do nothing returning row_id as rowId`,
  insertDelivery: `insert into outbox_deliveries (row_id, tenant, stream, state, available_at, attempts, forgiven)
    values (:rowId, :tenant, :stream, 'pending', :now + :delay, 0, 0)`,
  eventByIdentity: `select ${EVENT} from outbox_events e where tenant = :tenant and source = :source and id = :id`,

  // What was picked is proven once more: the row is still due, and the token is new (CLAIM-09).
  claim: `update outbox_deliveries set state = 'claimed', attempts = attempts + 1, forgiven = forgiven + :forgive,
    token = :token, worker = :worker, shared = :shared, expires_at = :now + :lease
    where row_id = :rowId and token is not :token
    and ((state = 'pending' and available_at <= :now) or (state = 'claimed' and expires_at <= :now))`,
  // LEASE-03: from database time, not from the old expiry.
  renew: `update outbox_deliveries set expires_at = :now + :lease, shared = case when :unshare then 0 else shared end
    where ${FENCE}`,
  ack: `update outbox_deliveries set state = 'delivered', delivered_at = :now, ${UNCLAIM} where ${FENCE}`,
  retry: `update outbox_deliveries set state = 'pending', available_at = :now + :delay,
    failure_code = :code, failure_detail = :detail, failed_at = :now, ${UNCLAIM} where ${FENCE}`,
  release: `update outbox_deliveries set state = 'pending', available_at = :now + :delay, forgiven = forgiven + 1,
    ${UNCLAIM} where ${FENCE}`,
  // Without a failure of its own a quarantine keeps the last one.
  quarantine: `update outbox_deliveries set ${QUARANTINE}, failure_code = coalesce(:code, failure_code),
    failure_detail = coalesce(:detail, failure_detail), failed_at = iif(:code is null, failed_at, :now), ${UNCLAIM}
    where ${FENCE}`,
  // SETTLE-04: the row id of an operator proves nothing, the state does.
  quarantinePending: `update outbox_deliveries set ${QUARANTINE}
    where row_id = :rowId and state = 'pending' and ${OF_TENANT}`,
  // FENCE-06: what is true when it is looked up.
  stateOf: `select state, attempts as attempt from outbox_deliveries where row_id = :rowId and ${OF_TENANT}`,

  // FENCE-10: the state is proven by the statement that writes. FENCE-04: the attempt is kept. SETTLE-05: a new budget.
  redrive: `update outbox_deliveries as d set state = 'pending', available_at = :now, forgiven = attempts,
    failure_code = 'quarantined', failure_detail = quarantine_reason, failed_at = quarantined_at,
    quarantined_at = null, quarantine_reason = null
    where row_id = :rowId and state = 'quarantined' and ${CLAIMABLE} and ${OF_TENANT}`,
  // FENCE-10: a row that was redriven meanwhile is not removed.
  pruneDelivery: `delete from outbox_deliveries
    where row_id = :rowId and state = :state and coalesce(delivered_at, quarantined_at) <= :bound`,
  pruneEvent: "delete from outbox_events where row_id = :rowId",
  reconcile: `insert into outbox_deliveries (row_id, tenant, stream, state, available_at, attempts, forgiven)
    select row_id, tenant, stream, 'pending', :now, 0, 0 from outbox_events where row_id = :rowId
    on conflict (row_id) do nothing`,
  lastRowId: "select coalesce(max(row_id), 0) as rowId from outbox_events",
};

export const STATEMENTS: StatementTexts = {
  ...BY_NAME,
  ...ofScope("all"),
  ...ofScope("stream"),
  ...ofScope("tenant"),
  ...ofScope("tenantStream"),
  ...ofSpan("all"),
  ...ofSpan("tenant"),
} as StatementTexts;
