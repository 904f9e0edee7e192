/**
 * Version 2: idempotency keys and the inbox. It touches nothing of version 1, so that code which knows only that one goes
 * on beside it. What the columns mean is said in `@dovecote/core`, `idempotency/driver.ts`.
 *
 * - Keys and scopes are digests: neither can be read back from a copy of the file.
 * - `sweep_at` says from when on a record is worth nothing, for the index. A claim that refuses takeovers has none.
 * - The CHECKs make every invalid combination impossible, whoever writes (SCHEMA-07).
 */
export const idempotency: { readonly version: number; readonly requires: number; readonly sql: string } = {
  version: 2,
  requires: 1,
  sql: `
create table if not exists dovecote_idempotency_keys (
  scope_digest blob not null,
  key_digest blob not null,
  tenant_id text not null,
  principal_digest blob,
  fingerprint_algorithm text not null,
  fingerprint blob not null,
  state text not null,
  takeover text not null,
  attempts integer not null,
  claim_token blob,
  claim_expires_at integer,
  acquired_at integer not null,
  retention_ms integer not null,
  tombstone_ms integer not null,
  completed_at integer,
  sweep_at integer,
  answer_status integer,
  answer_headers text,
  answer_body blob,
  unreplayable_reason text,
  primary key (scope_digest, key_digest),
  constraint dovecote_idempotency_keys_digests check (length(scope_digest) = 32 and length(key_digest) = 32),
  constraint dovecote_idempotency_keys_state check (state in ('claimed', 'completed')),
  constraint dovecote_idempotency_keys_takeover check (takeover in ('rerun', 'refuse')),
  constraint dovecote_idempotency_keys_attempts check (attempts between 1 and 2147483647),
  constraint dovecote_idempotency_keys_token check ((state = 'claimed') = (claim_token is not null)),
  constraint dovecote_idempotency_keys_token_size check (claim_token is null or length(claim_token) = 16),
  constraint dovecote_idempotency_keys_expiry check ((state = 'claimed') = (claim_expires_at is not null)),
  constraint dovecote_idempotency_keys_completed check ((state = 'completed') = (completed_at is not null)),
  constraint dovecote_idempotency_keys_sweep check ((sweep_at is null) = (state = 'claimed' and takeover = 'refuse')),
  constraint dovecote_idempotency_keys_answer check ((answer_headers is null) = (answer_body is null)),
  constraint dovecote_idempotency_keys_kept check (
    case when state = 'completed' then (answer_body is null) = (unreplayable_reason is not null)
    else answer_status is null and answer_body is null and unreplayable_reason is null end),
  constraint dovecote_idempotency_keys_status check (answer_status is null or answer_status between 200 and 599),
  constraint dovecote_idempotency_keys_kept_status check (answer_body is null or answer_status is not null)
) strict;

create index if not exists dovecote_idempotency_keys_sweep
  on dovecote_idempotency_keys (sweep_at) where sweep_at is not null;
create index if not exists dovecote_idempotency_keys_stuck
  on dovecote_idempotency_keys (tenant_id, claim_expires_at) where state = 'claimed';
create index if not exists dovecote_idempotency_keys_principal
  on dovecote_idempotency_keys (principal_digest) where principal_digest is not null;

create table if not exists dovecote_inbox (
  event_digest blob not null primary key,
  tenant_id text not null,
  consumer text not null,
  seen_at integer not null,
  sweep_at integer not null,
  constraint dovecote_inbox_digest check (length(event_digest) = 32)
) strict;

create index if not exists dovecote_inbox_sweep on dovecote_inbox (sweep_at);
`,
};
