/** Tables as large as a store of some months, filled behind the driver's back. */
import type postgresClient from "postgres";

/** 200,000 delivered and 100,000 pending rows of `acme`, 100,000 pending ones of `other`, and some of each other state. */
export async function fill(sql: postgresClient.Sql, schema: string): Promise<void> {
  await rows(sql, schema, "acme", 200_000, "delivered");
  await rows(sql, schema, "acme", 100_000, "pending");
  await rows(sql, schema, "other", 100_000, "pending");
  await rows(sql, schema, "acme", 2_000, "claimed");
  await rows(sql, schema, "acme", 2_000, "quarantined");
}

/** What a store holds after years, beside a tenant with a backlog and one whose workers all died. */
export async function fillLarge(sql: postgresClient.Sql, schema: string): Promise<void> {
  await rows(sql, schema, "acme", 1_000_000, "delivered");
  await rows(sql, schema, "acme", 200_000, "pending");
  await rows(sql, schema, "acme", 20_000, "inFlight");
  await rows(sql, schema, "other", 1_000_000, "pending");
  await rows(sql, schema, "stuck", 100_000, "claimed");
}

const NOTHING = { claim: "null, null, null, null", delivered: "null", quarantined: "null, null" };
const FUTURE = "clock_timestamp() + interval '1 day'";
const PAST = "clock_timestamp() - (n || ' milliseconds')::interval";

async function rows(
  sql: postgresClient.Sql,
  schema: string,
  tenant: string,
  count: number,
  filled: "pending" | "claimed" | "inFlight" | "delivered" | "quarantined",
): Promise<void> {
  const state = filled === "inFlight" ? "claimed" : filled;
  const { claim, delivered, quarantined } = {
    ...NOTHING,
    ...(state === "claimed" && {
      claim: `decode(md5(n::text), 'hex'), 'w', false, ${filled === "inFlight" ? FUTURE : PAST}`,
    }),
    ...(state === "delivered" && { delivered: PAST }),
    ...(state === "quarantined" && { quarantined: `${PAST}, 'spoiled'` }),
  };
  await sql.unsafe(`with events as (
      insert into "${schema}".dovecote_events (tenant_id, stream, specversion, event_id, source, event_type, data_kind,
        data, enqueued_at, identity_digest)
      select '${tenant}', case when n % 2 = 0 then 'orders' else 'bills' end, '1.0', n::text, '/shop', 'test', 'json',
        convert_to('{"n":' || n || '}', 'UTF8'), clock_timestamp(),
        sha256(convert_to('${tenant} ${filled} ' || n, 'UTF8'))
      from generate_series(1, ${count}) as n
      returning row_id, stream
    )
    insert into "${schema}".dovecote_deliveries (event_row_id, tenant_id, stream, state, available_at, attempts, forgiven,
      claim_token, claimed_by, claim_shared, claim_expires_at, delivered_at, quarantined_at, quarantine_reason)
    select row_id, '${tenant}', stream, '${state}', ${PAST}, 1, 0, ${claim}, ${delivered}, ${quarantined}
    from (select row_id, stream, row_id as n from events) as e`);
}

/** 50,000 answers that are kept and 50,000 live claims, of 1,000 principals each, beside what is stuck or worth nothing any more. */
export async function fillKeys(sql: postgresClient.Sql, schema: string): Promise<void> {
  await keys(sql, schema, "acme", 50_000, "completed");
  await keys(sql, schema, "other", 50_000, "live");
  await keys(sql, schema, "acme", 2_000, "live");
  await keys(sql, schema, "acme", 2_000, "old");
  await keys(sql, schema, "acme", 2_000, "rerun");
  await keys(sql, schema, "other", 2_000, "refuse");
  await marks(sql, schema, "acme", 50_000, FUTURE);
  await marks(sql, schema, "other", 50_000, FUTURE);
  await marks(sql, schema, "acme", 2_000, PAST);
}

async function keys(
  sql: postgresClient.Sql,
  schema: string,
  tenant: string,
  count: number,
  filled: "completed" | "old" | "live" | "rerun" | "refuse",
): Promise<void> {
  const isDone = filled === "completed" || filled === "old";
  const [policy, sweepAt] = {
    completed: ["rerun", FUTURE],
    old: ["rerun", PAST],
    live: ["rerun", FUTURE],
    rerun: ["rerun", FUTURE],
    refuse: ["refuse", "null"],
  }[filled];
  const claim = isDone ? "null, null" : `decode(md5(n::text), 'hex'), ${filled === "live" ? FUTURE : PAST}`;
  const answer = isDone
    ? `${PAST}, 201, '[]', convert_to(repeat('paid ', 50), 'UTF8')`
    : "null, null, null, null";
  await sql.unsafe(`insert into "${schema}".dovecote_idempotency_keys (scope_digest, key_digest, tenant_id, principal_digest,
      fingerprint_algorithm, fingerprint, state, takeover, attempts, claim_token, claim_expires_at, acquired_at, retention_ms,
      tombstone_ms, sweep_at, completed_at, answer_status, answer_headers, answer_body)
    select ${digest(`'${tenant} ' || n % 3000`)}, ${digest(`'${tenant} ${filled} ' || n`)}, '${tenant}',
      ${digest(`'${tenant} ' || n % 1000`)}, 'json-1', ${digest("n::text")}, '${isDone ? "completed" : "claimed"}', '${policy}', 1,
      ${claim}, ${PAST}, 86400000, 0, ${sweepAt}, ${answer}
    from generate_series(1, ${count}) as n`);
}

async function marks(
  sql: postgresClient.Sql,
  schema: string,
  tenant: string,
  count: number,
  sweepAt: string,
): Promise<void> {
  await sql.unsafe(`insert into "${schema}".dovecote_inbox (event_digest, tenant_id, consumer, seen_at, sweep_at)
    select ${digest(`'${tenant} ${sweepAt.length} ' || n`)}, '${tenant}', 'invoices', clock_timestamp(), ${sweepAt}
    from generate_series(1, ${count}) as n`);
}

const digest = (text: string): string => `sha256(convert_to(${text}, 'UTF8'))`;
