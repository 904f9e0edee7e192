/** Statements of idempotency keys and of the inbox, by name; as `statements.ts` says. Each write proves what it relies on. */

const KEYS = "dovecote_idempotency_keys";

const COLUMNS = `tenant_id as tenant, scope_digest as scope, key_digest as key, fingerprint_algorithm as algorithm,
  fingerprint, takeover, attempts, claim_token as token, claim_expires_at as expiresAt, acquired_at as acquiredAt,
  retention_ms as retentionMs, tombstone_ms as tombstoneMs, completed_at as completedAt, answer_status as status,
  answer_headers as headers, answer_body as body, unreplayable_reason as reason`;

/** The tenant is part of the digest, too; this keeps a forged one out (TENANT-01). */
const ADDRESS = "scope_digest = :scope and key_digest = :key and tenant_id = :tenant";
/** KEY-07: of a superseded claim nothing is true any more. */
const HELD = `${ADDRESS} and claim_token = :token`;
const LIVE = `${HELD} and claim_expires_at > :now`;

const COMPLETED = `state = 'completed', completed_at = :now, claim_token = null, claim_expires_at = null,
  sweep_at = :now + (retention_ms + tombstone_ms) * 1000`;
const ANSWERED = `${COMPLETED}, answer_status = :status, answer_headers = :headers, answer_body = :body,
  unreplayable_reason = :reason`;

/** What only an operator resolves. */
const INDETERMINATE = `${ADDRESS} and state = 'claimed' and takeover = 'refuse' and claim_expires_at <= :now`;

/** Claims whose lease is over, and that are worth something all the same. */
const STUCK = "state = 'claimed' and claim_expires_at <= :now and (sweep_at is null or sweep_at > :now)";

export type KeyStatementName =
  | "keyGet"
  | "keyPut"
  | "keyRefuse"
  | "keyRenew"
  | "keyRelease"
  | "keyComplete"
  | "keyHold"
  | "keyCompleteHeld"
  | "keyResolveCompleted"
  | "keyResolveReleased"
  | "keysStuck"
  | "nextTenantClaimed"
  | "keysSweep"
  | "keysForget"
  | "inboxMark"
  | "inboxSweep";

export const KEY_STATEMENTS: Readonly<Record<KeyStatementName, string>> = {
  keyGet: `select ${COLUMNS} from ${KEYS} where ${ADDRESS}`,
  keyPut: `insert into ${KEYS} (scope_digest, key_digest, tenant_id, principal_digest, fingerprint_algorithm, fingerprint,
    state, takeover, attempts, claim_token, claim_expires_at, acquired_at, retention_ms, tombstone_ms, sweep_at)
    values (:scope, :key, :tenant, :principal, :algorithm, :fingerprint, 'claimed', :takeover, :attempt, :token, :expiresAt,
      :now, :retentionMs, :tombstoneMs, :sweepAt)
    on conflict (scope_digest, key_digest) do update set principal_digest = excluded.principal_digest,
      fingerprint_algorithm = excluded.fingerprint_algorithm, fingerprint = excluded.fingerprint, state = 'claimed',
      takeover = excluded.takeover, attempts = excluded.attempts, claim_token = excluded.claim_token,
      claim_expires_at = excluded.claim_expires_at, acquired_at = excluded.acquired_at,
      retention_ms = excluded.retention_ms, tombstone_ms = excluded.tombstone_ms, sweep_at = excluded.sweep_at,
      completed_at = null, answer_status = null, answer_headers = null, answer_body = null, unreplayable_reason = null`,
  keyRefuse: `update ${KEYS} set takeover = 'refuse', sweep_at = null where ${ADDRESS} and state = 'claimed'`,
  keyRenew: `update ${KEYS} set claim_expires_at = :expiresAt,
    sweep_at = iif(takeover = 'refuse', null, :expiresAt + retention_ms * 1000) where ${LIVE}`,
  keyRelease: `delete from ${KEYS} where ${LIVE}`,
  keyComplete: `update ${KEYS} set ${ANSWERED} where ${LIVE}`,
  // A write, so that the transaction has the write lock from here on, however it was begun.
  keyHold: `update ${KEYS} set claim_token = claim_token where ${LIVE}`,
  keyCompleteHeld: `update ${KEYS} set ${ANSWERED} where ${HELD}`,
  keyResolveCompleted: `update ${KEYS} set ${COMPLETED}, unreplayable_reason = 'resolved' where ${INDETERMINATE}`,
  keyResolveReleased: `delete from ${KEYS} where ${INDETERMINATE}`,
  keysStuck: `select ${COLUMNS} from ${KEYS} indexed by dovecote_idempotency_keys_stuck
    where ${STUCK} and tenant_id = :tenant order by claim_expires_at limit :limit`,
  nextTenantClaimed: `select min(tenant_id) as tenant_id from ${KEYS} indexed by dovecote_idempotency_keys_stuck
    where state = 'claimed' and tenant_id > :after`,
  keysSweep: `delete from ${KEYS} where rowid in (
    select rowid from ${KEYS} indexed by dovecote_idempotency_keys_sweep
    where sweep_at is not null and sweep_at <= :now and (:tenant is null or tenant_id = :tenant) order by sweep_at limit :limit)`,
  keysForget: `delete from ${KEYS} where rowid in (
    select rowid from ${KEYS} where principal_digest = :principal and tenant_id = :tenant limit :limit)`,
  inboxMark: `insert into dovecote_inbox (event_digest, tenant_id, consumer, seen_at, sweep_at)
    values (:event, :tenant, :consumer, :now, :sweepAt)
    on conflict (event_digest) do update set seen_at = excluded.seen_at, sweep_at = excluded.sweep_at
      where dovecote_inbox.sweep_at <= :now`,
  inboxSweep: `delete from dovecote_inbox where rowid in (
    select rowid from dovecote_inbox indexed by dovecote_inbox_sweep
    where sweep_at <= :now and (:tenant is null or tenant_id = :tenant) order by sweep_at limit :limit)`,
};
