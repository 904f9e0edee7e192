/**
 * Version 2: idempotency keys and the inbox. It touches nothing of version 1, so that code which knows only that one goes
 * on beside it.
 *
 * - Keys and scopes are digests: neither can be read back from a dump. The tenant is part of the digest, and beside it for
 *   whoever looks at the table.
 * - What a record is worth is a function of its times (KEY-12, KEY-13); `sweep_at` only says from when on it is worth
 *   nothing, for the index. A claim that refuses takeovers has none: it waits for an operator.
 * - The CHECKs make every invalid combination impossible, whoever writes (SCHEMA-07).
 */
export const idempotency: { readonly version: number; readonly requires: number; readonly sql: string } = {
  version: 2,
  requires: 1,
  sql: `
create table if not exists {schema}.dovecote_idempotency_keys (
  scope_digest bytea not null,
  key_digest bytea not null,
  tenant_id text not null,
  principal_digest bytea,
  fingerprint_algorithm text not null,
  fingerprint bytea not null,
  state text not null,
  takeover text not null,
  attempts integer not null,
  claim_token bytea,
  claim_expires_at timestamptz,
  acquired_at timestamptz not null,
  retention_ms bigint not null,
  tombstone_ms bigint not null,
  completed_at timestamptz,
  sweep_at timestamptz,
  answer_status integer,
  answer_headers text,
  answer_body bytea,
  unreplayable_reason text,
  constraint dovecote_idempotency_keys_pkey primary key (scope_digest, key_digest),
  constraint dovecote_idempotency_keys_digests check (octet_length(scope_digest) = 32 and octet_length(key_digest) = 32),
  constraint dovecote_idempotency_keys_state check (state in ('claimed', 'completed')),
  constraint dovecote_idempotency_keys_takeover check (takeover in ('rerun', 'refuse')),
  constraint dovecote_idempotency_keys_attempts check (attempts >= 1),
  constraint dovecote_idempotency_keys_token check ((state = 'claimed') = (claim_token is not null)),
  constraint dovecote_idempotency_keys_token_size check (octet_length(claim_token) = 16),
  constraint dovecote_idempotency_keys_expiry check ((state = 'claimed') = (claim_expires_at is not null)),
  constraint dovecote_idempotency_keys_completed check ((state = 'completed') = (completed_at is not null)),
  constraint dovecote_idempotency_keys_sweep check ((sweep_at is null) = (state = 'claimed' and takeover = 'refuse')),
  constraint dovecote_idempotency_keys_answer check ((answer_headers is null) = (answer_body is null)),
  constraint dovecote_idempotency_keys_kept
    check (case when state = 'completed' then (answer_body is null) = (unreplayable_reason is not null)
      else answer_status is null and answer_body is null and unreplayable_reason is null end),
  constraint dovecote_idempotency_keys_status check (answer_status between 200 and 599),
  constraint dovecote_idempotency_keys_kept_status check (answer_body is null or answer_status is not null)
) with (fillfactor = 75, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

create index if not exists dovecote_idempotency_keys_sweep
  on {schema}.dovecote_idempotency_keys (sweep_at) where sweep_at is not null;
create index if not exists dovecote_idempotency_keys_stuck
  on {schema}.dovecote_idempotency_keys (tenant_id, claim_expires_at) where state = 'claimed';
create index if not exists dovecote_idempotency_keys_principal
  on {schema}.dovecote_idempotency_keys (principal_digest) where principal_digest is not null;

create table if not exists {schema}.dovecote_inbox (
  event_digest bytea not null,
  tenant_id text not null,
  consumer text not null,
  seen_at timestamptz not null,
  sweep_at timestamptz not null,
  constraint dovecote_inbox_pkey primary key (event_digest),
  constraint dovecote_inbox_digest check (octet_length(event_digest) = 32)
);

create index if not exists dovecote_inbox_sweep on {schema}.dovecote_inbox (sweep_at);
`,
};
