/**
 * Version 1: the outbox. Forward-only: a released migration is never edited, later ones only add.
 *
 * - Events are insert-only, so that change-data-capture can follow one table; everything mutable is a delivery.
 * - `AUTOINCREMENT`: a row id is never reused, also after the highest row was pruned (ID-08).
 * - Times are whole microseconds since the epoch in INTEGER columns, from one SQL expression.
 * - The CHECKs make every invalid combination of state and columns impossible, whoever writes (SCHEMA-07).
 * - The indexes are partial: what was delivered costs a claim nothing. Pending rows have one index per scope that can
 *   be claimed, since one scope's index reads another's backlog. Every index ends in the rowid implicitly, which is the
 *   tie-breaker of CLAIM-07.
 */
export const outbox: { readonly version: number; readonly requires: number; readonly sql: string } = {
  version: 1,
  requires: 1,
  sql: `
create table if not exists dovecote_events (
  row_id integer primary key autoincrement,
  tenant_id text not null,
  stream text not null,
  specversion text not null,
  event_id text not null,
  source text not null,
  event_type text not null,
  subject text,
  occurred_at text,
  datacontenttype text,
  dataschema text,
  partitionkey text,
  extensions text,
  data_kind text not null,
  data blob,
  enqueued_at integer not null,
  constraint dovecote_events_data_kind check (data_kind in ('absent', 'json', 'text', 'binary')),
  constraint dovecote_events_data check ((data_kind = 'absent') = (data is null))
) strict;

create unique index if not exists dovecote_events_identity on dovecote_events (tenant_id, source, event_id);
create index if not exists dovecote_events_tenant on dovecote_events (tenant_id);

create table if not exists dovecote_deliveries (
  event_row_id integer primary key references dovecote_events (row_id),
  tenant_id text not null,
  stream text not null,
  state text not null,
  available_at integer not null,
  attempts integer not null,
  forgiven integer not null,
  claim_token blob,
  claimed_by text,
  claim_shared integer,
  claim_expires_at integer,
  last_failure_code text,
  last_failure_detail text,
  last_failed_at integer,
  delivered_at integer,
  quarantined_at integer,
  quarantine_reason text,
  constraint dovecote_deliveries_state check (state in ('pending', 'claimed', 'delivered', 'quarantined')),
  constraint dovecote_deliveries_attempts check (attempts between 0 and 2147483647),
  constraint dovecote_deliveries_forgiven check (forgiven between 0 and attempts),
  constraint dovecote_deliveries_token check ((state = 'claimed') = (claim_token is not null)),
  constraint dovecote_deliveries_token_size check (claim_token is null or length(claim_token) = 16),
  constraint dovecote_deliveries_worker check ((state = 'claimed') = (claimed_by is not null)),
  constraint dovecote_deliveries_shared check ((state = 'claimed') = (claim_shared is not null)),
  constraint dovecote_deliveries_shared_flag check (claim_shared is null or claim_shared in (0, 1)),
  constraint dovecote_deliveries_expiry check ((state = 'claimed') = (claim_expires_at is not null)),
  constraint dovecote_deliveries_delivered check ((state = 'delivered') = (delivered_at is not null)),
  constraint dovecote_deliveries_quarantined check ((state = 'quarantined') = (quarantined_at is not null)),
  constraint dovecote_deliveries_reason check ((state = 'quarantined') = (quarantine_reason is not null)),
  constraint dovecote_deliveries_failure check ((last_failure_code is null) = (last_failure_detail is null)),
  constraint dovecote_deliveries_failed_at check ((last_failure_code is null) = (last_failed_at is null))
) strict;

create index if not exists dovecote_deliveries_pending
  on dovecote_deliveries (available_at) where state = 'pending';
create index if not exists dovecote_deliveries_pending_tenant
  on dovecote_deliveries (tenant_id, available_at) where state = 'pending';
create index if not exists dovecote_deliveries_pending_stream
  on dovecote_deliveries (stream, available_at) where state = 'pending';
create index if not exists dovecote_deliveries_claimed
  on dovecote_deliveries (claim_expires_at) where state = 'claimed';
create index if not exists dovecote_deliveries_claimed_tenant
  on dovecote_deliveries (tenant_id, claim_expires_at) where state = 'claimed';
create index if not exists dovecote_deliveries_quarantined
  on dovecote_deliveries (tenant_id, quarantined_at) where state = 'quarantined';
create index if not exists dovecote_deliveries_delivered
  on dovecote_deliveries (tenant_id, delivered_at) where state = 'delivered';
create index if not exists dovecote_deliveries_exhausted
  on dovecote_deliveries (tenant_id) where attempts = 2147483647;

create table if not exists dovecote_schema (
  id integer primary key,
  version integer not null,
  requires integer not null,
  constraint dovecote_schema_single check (id = 1)
) strict;
`,
};
