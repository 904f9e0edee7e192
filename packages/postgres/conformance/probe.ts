/** Reads the tables as they are, over a connection that the driver has no part in. */
import type { Probe, ProbedDelivery, ProbedEvent } from "@dovecote/conformance";
import type postgresClient from "postgres";
import { quoteIdentifier } from "../src/schema.ts";

const micros = (time: string): string => `(extract(epoch from ${time}) * 1000000)::float8`;

export function probeOf(sql: postgresClient.Sql, schema: string): Probe {
  const quoted = quoteIdentifier(schema);
  const deliveries = `select event_row_id::float8 as "rowId", tenant_id as tenant, state,
    ${micros("available_at")} as "availableAt", attempts, forgiven, encode(claim_token, 'hex') as token,
    claimed_by as worker, claim_shared as shared, ${micros("claim_expires_at")} as "expiresAt",
    last_failure_code as "failureCode", last_failure_detail as "failureDetail", ${micros("last_failed_at")} as "failedAt",
    ${micros("delivered_at")} as "deliveredAt", ${micros("quarantined_at")} as "quarantinedAt",
    quarantine_reason as "quarantineReason"
    from ${quoted}.dovecote_deliveries order by event_row_id`;
  const events = `select row_id::float8 as "rowId", tenant_id as tenant, stream, event_id as id, source,
    event_type as type, subject, occurred_at as time, datacontenttype, dataschema, partitionkey, extensions,
    data_kind as "dataKind", encode(data, 'hex') as data, ${micros("enqueued_at")} as "enqueuedAt"
    from ${quoted}.dovecote_events order by row_id`;
  return {
    deliveries: async () => [...(await sql.unsafe<ProbedDelivery[]>(deliveries))],
    events: async () => [...(await sql.unsafe<ProbedEvent[]>(events))],
    async keys() {
      const rows = await sql.unsafe<{ record: Record<string, unknown> }[]>(
        `select row_to_json(k) as record from ${quoted}.dovecote_idempotency_keys k order by scope_digest, key_digest`,
      );
      return rows.map(({ record }) =>
        Object.fromEntries(
          Object.entries(record).map(([name, value]) => [name, value === null ? null : String(value)]),
        ),
      );
    },
    async businessRows() {
      const rows = await sql.unsafe<{ id: string }[]>(
        `select id from ${quoted}.business order by id collate "C"`,
      );
      return rows.map(({ id }) => id);
    },
    async now() {
      const [row] = await sql.unsafe<{ now: number }[]>(`select ${micros("clock_timestamp()")} as now`);
      return Number(row?.now);
    },
  };
}
