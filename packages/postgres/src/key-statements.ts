/** Statements of idempotency keys and of the inbox, by name; as `statements.ts` says. Each answers one text, JSON. */
import { first, holds, MANY, micros, milliseconds, ofTenant, tenants, within } from "./shapes.ts";

const KEYS = "{schema}.dovecote_idempotency_keys";
const INBOX = "{schema}.dovecote_inbox";

export type KeyStatementName =
  | "keyGet"
  | "keyUnheld"
  | "keyInsert"
  | "keyReplace"
  | "keyTakeover"
  | "keyRefuse"
  | "keyRenew"
  | "keyRelease"
  | "keyComplete"
  | "keyHold"
  | "keyCompleteHeld"
  | "keyResolveCompleted"
  | "keyResolveReleased"
  | "keysStuck"
  | "keysSweep"
  | "inboxSweep"
  | "keysForget"
  | "inboxMark";

/** $1 scope, $2 key, $3 tenant. The tenant is part of the digest, too; this keeps a forged one out (TENANT-01). */
const ADDRESS =
  "scope_digest = decode($1::text, 'hex') and key_digest = decode($2::text, 'hex') and tenant_id = $3::text";
const SAME = "k.scope_digest = l.scope_digest and k.key_digest = l.key_digest";

/** Locked first and judged outside: a predicate beside FOR UPDATE is not judged again after a mere wait. */
const locked = (skip = "", where = ""): string => `locked as materialized (
  select * from ${KEYS} where ${ADDRESS} ${where} for update ${skip}
)`;

/** $4 token. KEY-07: of a superseded claim nothing is true any more. */
const TOKEN = "l.claim_token = decode($4::text, 'hex')";
const LIVE = `${TOKEN} and l.claim_expires_at > clock_timestamp()`;

const RECORD = `json_build_object('tenant', tenant_id, 'scope', encode(scope_digest, 'hex'),
  'key', encode(key_digest, 'hex'), 'algorithm', fingerprint_algorithm, 'fingerprint', encode(fingerprint, 'hex'),
  'takeover', takeover, 'attempt', attempts, 'token', encode(claim_token, 'hex'), 'expiresAt', ${micros("claim_expires_at")},
  'acquiredAt', ${micros("acquired_at")}, 'retentionMs', retention_ms, 'tombstoneMs', tombstone_ms,
  'completedAt', ${micros("completed_at")}, 'status', answer_status, 'headers', answer_headers,
  'body', encode(answer_body, 'hex'), 'reason', unreplayable_reason, 'now', ${micros("clock_timestamp()")})::text as answer`;

/** $4 token, $5 principal, $6 algorithm, $7 fingerprint, $8 lease, $9 policy, $10 retention, $11 tombstone, in ms. */
const EXPIRY = `clock_timestamp() + ${milliseconds("$8")}`;
const CLAIMED = `decode($5::text, 'hex') as principal, $6::text as algorithm, decode($7::text, 'hex') as print,
  $9::text as policy, decode($4::text, 'hex') as token, ${EXPIRY} as expiry, clock_timestamp() as now,
  $10::text::bigint as retention, $11::text::bigint as tombstone`;
const SWEPT =
  "case when n.policy = 'refuse' then null else n.expiry + n.retention * interval '1 millisecond' end";
const RENEWED = (attempts: string): string => `update ${KEYS} as k set principal_digest = n.principal,
  fingerprint_algorithm = n.algorithm, fingerprint = n.print, state = 'claimed', takeover = n.policy,
  attempts = ${attempts}, claim_token = n.token, claim_expires_at = n.expiry, acquired_at = n.now,
  retention_ms = n.retention, tombstone_ms = n.tombstone, sweep_at = ${SWEPT}, completed_at = null,
  answer_status = null, answer_headers = null, answer_body = null, unreplayable_reason = null
  from locked l, (select ${CLAIMED}) as n where ${SAME}`;
const ACQUIRED = `json_build_object('attempt', k.attempts, 'expiresAt', ${micros("k.claim_expires_at")})::text as answer`;

const COMPLETED = `state = 'completed', completed_at = clock_timestamp(), claim_token = null, claim_expires_at = null,
  sweep_at = clock_timestamp() + (k.retention_ms + k.tombstone_ms) * interval '1 millisecond'`;
/** $5 status, $6 headers, $7 body, $8 reason. */
const ANSWERED = `${COMPLETED}, answer_status = $5::text::integer, answer_headers = $6::text,
  answer_body = decode($7::text, 'hex'), unreplayable_reason = $8::text`;

const guarded = (parameter: string): string => `(${parameter}::text is null
  or strpos(coalesce(current_setting('dovecote.transaction', true), ''), ${parameter}::text) > 0)`;
const applied = (from: string, guard: string): string =>
  `select json_build_object('guarded', ${guard}, 'applied', (select count(*) from ${from}))::text as answer`;

const complete = (proof: string, guard: string): string => `with ${locked("", `and ${guard}`)}, written as (
  update ${KEYS} as k set ${ANSWERED} from locked l where ${SAME} and ${proof} returning 1
) ${applied("written", guard)}`;

/** A setting that lives as long as the lock of a hold: until its transaction ends, or is rolled back to before it. */
const HOLDS = "coalesce(current_setting('dovecote.held', true), '')";
const STILL_HELD = `strpos(${HOLDS}, $2::text) > 0`;

const INDETERMINATE =
  "l.state = 'claimed' and l.takeover = 'refuse' and l.claim_expires_at <= clock_timestamp()";

/** $1 tenant or null, $2 limit. Locked by nobody: what is held is alive. */
const sweep = (table: string, key: string): string => `with old as materialized (
  ${first(
    `select ${key} from ${table} ${MANY} where sweep_at <= statement_timestamp()
    and ${holds(ofTenant("$1"))} order by sweep_at`,
    "$2::text::integer",
    " for update skip locked",
  )}
), removed as (
  delete from ${table} as t using old o where ${key
    .split(", ")
    .map((column) => `t.${column} = o.${column}`)
    .join(" and ")} and t.sweep_at <= clock_timestamp() returning 1
) select json_build_object('removed', (select count(*) from removed))::text as answer`;

const KEY = "scope_digest, key_digest";

export const KEY_STATEMENTS: Readonly<Record<KeyStatementName, string>> = {
  keyGet: `select ${RECORD} from ${KEYS} where ${ADDRESS}`,
  // Answers a row unless its holder's transaction is open.
  keyUnheld: `with ${locked("skip locked")} select count(*)::text as answer from locked`,
  keyInsert: `insert into ${KEYS} as k (scope_digest, key_digest, tenant_id, principal_digest, fingerprint_algorithm, fingerprint,
    state, takeover, attempts, claim_token, claim_expires_at, acquired_at, retention_ms, tombstone_ms, sweep_at)
    select decode($1::text, 'hex'), decode($2::text, 'hex'), $3::text, n.principal, n.algorithm, n.print, 'claimed', n.policy,
      1, n.token, n.expiry, n.now, n.retention, n.tombstone, ${SWEPT} from (select ${CLAIMED}) as n
    on conflict (scope_digest, key_digest) do nothing returning ${ACQUIRED}`,
  // Over a record that is worth nothing any more.
  keyReplace: `with ${locked("skip locked")} ${RENEWED("1")} and l.sweep_at <= clock_timestamp() returning ${ACQUIRED}`,
  // $12 the token of the claim whose lease is over.
  keyTakeover: `with ${locked("skip locked")} ${RENEWED("l.attempts + 1")} and l.claim_token = decode($12::text, 'hex')
    and l.takeover = 'rerun' and l.claim_expires_at <= clock_timestamp() returning ${ACQUIRED}`,
  keyRefuse: `with ${locked("skip locked")} update ${KEYS} as k set takeover = 'refuse', sweep_at = null
    from locked l where ${SAME} and ${TOKEN} and l.claim_expires_at <= clock_timestamp() returning 'refused' as answer`,
  // $5 lease in ms.
  keyRenew: `with ${locked()} update ${KEYS} as k set claim_expires_at = n.expiry,
      sweep_at = case when k.takeover = 'refuse' then null else n.expiry + k.retention_ms * interval '1 millisecond' end
    from locked l, lateral (select clock_timestamp() + ${milliseconds("$5")} as expiry where ${LIVE}) as n
    where ${SAME} returning ${ACQUIRED}`,
  keyRelease: `with ${locked()} delete from ${KEYS} as k using locked l where ${SAME} and ${LIVE} returning 'released' as answer`,
  keyComplete: complete(LIVE, guarded("$9")),
  // $5 guard. The lock is the lease until this transaction ends (KEY-08).
  keyHold: `with ${locked("", `and ${guarded("$5")}`)}, held as materialized (
    select set_config('dovecote.held', concat(${HOLDS}, ' ', $2::text), true) from locked l where ${LIVE}
  ) ${applied("held", guarded("$5"))}`,
  // What proves the transaction is the mark of its hold.
  keyCompleteHeld: complete(TOKEN, STILL_HELD),
  keyResolveCompleted: `with ${locked("skip locked")} update ${KEYS} as k set ${COMPLETED}, unreplayable_reason = 'resolved'
    from locked l where ${SAME} and ${INDETERMINATE} returning 'resolved' as answer`,
  keyResolveReleased: `with ${locked("skip locked")} delete from ${KEYS} as k using locked l
    where ${SAME} and ${INDETERMINATE} returning 'released' as answer`,
  // $1 tenant or null, $2 limit. Of each tenant those whose lease has been over for longest, then of all.
  keysStuck: `with recursive ${tenants(KEYS, "claimed")}, found as materialized (
  select s.* from tenants t cross join lateral (
    ${first(
      `select k.* from ${KEYS} k ${MANY}
    where k.state = 'claimed' and ${within("k.tenant_id", "t.tenant_id")} and k.claim_expires_at <= statement_timestamp()
      and ${holds("k.sweep_at is null or k.sweep_at > statement_timestamp()")}
    order by k.tenant_id, k.claim_expires_at`,
      "$2::text::integer",
    )}
  ) as s where t.tenant_id is not null order by s.claim_expires_at limit $2::text::integer
) select ${RECORD} from found order by claim_expires_at`,
  keysSweep: sweep(KEYS, KEY),
  inboxSweep: sweep(INBOX, "event_digest"),
  // $1 tenant, $2 principal, $3 limit.
  keysForget: `with found as materialized (
    ${first(
      `select ${KEY} from ${KEYS} ${MANY} where ${within("principal_digest", "decode($2::text, 'hex')")}
    and ${holds("tenant_id = $1::text")} order by principal_digest`,
      "$3::text::integer",
      " for update",
    )}
), removed as (
    delete from ${KEYS} as k using found l where ${SAME} returning 1
  ) select json_build_object('removed', (select count(*) from removed))::text as answer`,
  // $1 event, $2 tenant, $3 consumer, $4 retention in ms, $5 guard. A mark that has outlived its retention is none.
  inboxMark: `with marked as (
    insert into ${INBOX} as i (event_digest, tenant_id, consumer, seen_at, sweep_at)
    select decode($1::text, 'hex'), $2::text, $3::text, clock_timestamp(), clock_timestamp() + ${milliseconds("$4")}
    where ${guarded("$5")}
    on conflict (event_digest) do update set seen_at = excluded.seen_at, sweep_at = excluded.sweep_at
      where i.sweep_at <= clock_timestamp()
    returning 1
  ) ${applied("marked", guarded("$5"))}`,
};
