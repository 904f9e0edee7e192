/**
 * What statements are built of, so that the planner has one plan whatever it believes.
 *
 * With statistics that are missing, of another time, or merely not of this scope, it reads and sorts a whole backlog for
 * one row, or looks each of n rows up n times: 1000 rows were settled in 650 ms instead of 20. `plans.test.ts` holds
 * every statement to these:
 * - Whatever picks rows is a MATERIALIZED CTE with its own ORDER BY and LIMIT over one partial index ({@link first}).
 * - A scope is `= any (array[…])` and leads the ORDER BY. An equality would drop out of the order, and an index without
 *   the scope would give it too, reading everybody else's backlog; here only the scope's own index does.
 * - What filters beside the index is a CASE ({@link holds}): it cannot open another index, and hides no row.
 * - The target of a write is found by its primary key alone, from a list whose length cannot be seen.
 * - A parameter that is an array is parsed once ({@link once}), not once per row.
 */

export const EVENTS = "{schema}.dovecote_events";
export const DELIVERIES = "{schema}.dovecote_deliveries";

/** A time as microseconds since the epoch, exact: `extract` answers a numeric. */
export const micros = (time: string): string => `(extract(epoch from ${time}) * 1000000)::bigint::text`;
export const milliseconds = (parameter: string): string =>
  `${parameter}::text::bigint * interval '1 millisecond'`;
const hex = (bytes: string): string => `encode(${bytes}, 'hex')`;

/** A value that is worked out once per statement, and that the planner does not see. */
export const once = (value: string): string => `(select ${value})`;
/** A condition whose selectivity is taken as a half, and that implies no partial index. */
export const holds = (condition: string): string => `case when ${condition} then true else false end`;
/** As `holds`, or true where no value is asked for. */
export const matches = (column: string, parameter: string): string =>
  `case when ${column} = ${parameter}::text then true else ${parameter}::text is null end`;
/** The scope of a scan; the column leads its ORDER BY. */
export const within = (column: string, value: string): string => `${column} = any (array[${value}])`;
/**
 * Multiplies what the planner expects of a scan by 1000, and nothing else. Where it expects one row, because none were in
 * that state when it last looked, any index looks as good as the one in the right order.
 */
export const MANY = "cross join generate_series(1, (select 1)) as many";
const LIMITS = 6;
/**
 * The first rows of an ordered query over a table and {@link MANY}. A limit that cannot be seen is expected to take a
 * tenth of what is below it, one around it a tenth of that: reading the index in that order is then cheaper by far than
 * sorting, whatever the statistics say and however many are asked for.
 */
export const first = (ordered: string, limit: string, locking = ""): string => {
  const limited = `limit ${once(limit)}`;
  const innermost = `${ordered} ${limited}${locking}`;
  return Array.from({ length: LIMITS - 1 }).reduce<string>(
    (inner) => `select * from (${inner}) as nearest ${limited}`,
    innermost,
  );
};

export interface Scope {
  readonly where: string;
  /** The column of the index that the scope leads. */
  readonly leads: string;
}

export const EVERYTHING: Scope = { where: "", leads: "" };
export const ofStream = (parameter: string): Scope => ({
  where: `and ${within("stream", `${parameter}::text`)}`,
  leads: "stream, ",
});
export const ofOneTenant = (parameter: string): Scope => ({
  where: `and ${within("tenant_id", `${parameter}::text`)}`,
  leads: "tenant_id, ",
});
export const filtered = ({ where, leads }: Scope, condition: string): Scope => ({
  where: `${where} and ${holds(condition)}`,
  leads,
});

/** Columns of an event, in the order that `rows.ts` reads. */
export const EVENT: string = `e.row_id::text, e.tenant_id, e.stream, e.event_id, e.source, e.event_type, e.subject, e.occurred_at,
  e.datacontenttype, e.dataschema, e.partitionkey, e.extensions, e.data_kind, ${hex("e.data")}, ${micros("e.enqueued_at")}`;

export const DELIVERY: string = `d.state, ${micros("d.available_at")}, d.attempts::text, d.forgiven::text, d.claimed_by,
  d.claim_shared::text, ${micros("d.claim_expires_at")}, d.last_failure_code, d.last_failure_detail,
  ${micros("d.last_failed_at")}, ${micros("d.delivered_at")}, ${micros("d.quarantined_at")}, d.quarantine_reason`;

/** Rows without an attempt left are never claimed again (CLAIM-13). */
export const CLAIMABLE = "attempts < 2147483647";

/** TENANT-01: another tenant's row is not there. */
export const ofTenant = (parameter: string, column = "tenant_id"): string =>
  `(${parameter}::text is null or ${column} = ${parameter}::text)`;

/** Of claiming, renewing and settling. */
export const TOKENS: string = once("$4::text::bytea[]");

/** $1 tenant or null: the tenants that have rows of a state, hopping through the index by tenant. For WITH RECURSIVE. */
export const tenants = (table: string, state: string): string => `tenants as (
  select coalesce($1::text, (select min(tenant_id) from ${table} where state = '${state}')) as tenant_id
  union all
  select (select min(tenant_id) from ${table} where state = '${state}' and tenant_id > t.tenant_id)
  from tenants t where t.tenant_id is not null and $1::text is null
)`;
