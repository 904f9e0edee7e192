/** What is done to the database behind the driver's back. */
import type { Faults, ProbedDelivery } from "@dovecote/conformance";
import type postgresClient from "postgres";
import { quoteIdentifier } from "../src/schema.ts";
import type { SilentProxy } from "./silent-proxy.ts";

type Column = keyof Omit<ProbedDelivery, "rowId">;

const time = (parameter: string): string =>
  `timestamptz 'epoch' + ${parameter}::text::bigint * interval '1 microsecond'`;
const text = (parameter: string): string => `${parameter}::text`;
const integer = (parameter: string): string => `${parameter}::text::integer`;

/** The column, and how its value is made of a text. */
const COLUMNS: Readonly<Record<Column, readonly [string, (parameter: string) => string]>> = {
  tenant: ["tenant_id", text],
  state: ["state", text],
  availableAt: ["available_at", time],
  attempts: ["attempts", integer],
  forgiven: ["forgiven", integer],
  token: ["claim_token", (parameter) => `decode(${parameter}::text, 'hex')`],
  worker: ["claimed_by", text],
  shared: ["claim_shared", (parameter) => `${parameter}::text::boolean`],
  expiresAt: ["claim_expires_at", time],
  failureCode: ["last_failure_code", text],
  failureDetail: ["last_failure_detail", text],
  failedAt: ["last_failed_at", time],
  deliveredAt: ["delivered_at", time],
  quarantinedAt: ["quarantined_at", time],
  quarantineReason: ["quarantine_reason", text],
};

export function faultsOf(
  sql: postgresClient.Sql,
  schema: string,
  application: string,
  listening: SilentProxy,
): Faults {
  const quoted = quoteIdentifier(schema);
  const deliveries = `${quoted}.dovecote_deliveries`;
  const run = async (statement: string, parameters: readonly (string | null)[] = []): Promise<void> => {
    await sql.unsafe(statement, [...parameters]);
  };
  const damages = {
    table: [`drop table ${deliveries}`, "dovecote_deliveries"],
    column: [
      `alter table ${quoted}.dovecote_events rename column subject to topic`,
      "dovecote_events.subject",
    ],
    index: [`drop index ${quoted}.dovecote_deliveries_pending`, "dovecote_deliveries_pending"],
    constraint: [
      `alter table ${deliveries} drop constraint dovecote_deliveries_forgiven`,
      "dovecote_deliveries.dovecote_deliveries_forgiven",
    ],
  } as const;
  return {
    async ageKeys(ms) {
      const past = (column: string): string =>
        `${column} = ${column} - $1::text::bigint * interval '1 millisecond'`;
      const keys = ["claim_expires_at", "acquired_at", "completed_at", "sweep_at"].map(past).join(", ");
      await run(`update ${quoted}.dovecote_idempotency_keys set ${keys}`, [String(ms)]);
      await run(`update ${quoted}.dovecote_inbox set ${past("seen_at")}, ${past("sweep_at")}`, [String(ms)]);
    },
    async expireLeases(rowIds) {
      await run(
        `update ${deliveries} set claim_expires_at = clock_timestamp() - interval '1 millisecond'
        where event_row_id = any ($1::text::bigint[]) and state = 'claimed'`,
        [`{${rowIds.join(",")}}`],
      );
    },
    async overwriteDelivery(rowId, columns) {
      const entries = Object.entries(columns) as [Column, unknown][];
      const assignments = entries.map(
        ([key], index) => `${COLUMNS[key][0]} = ${COLUMNS[key][1](`$${index + 2}`)}`,
      );
      const values = entries.map(([, value]) => (value === null ? null : String(value)));
      const statement = `update ${deliveries} set ${assignments.join(", ")} where event_row_id = $1::text::bigint`;
      await run(statement, [String(rowId), ...values]);
    },
    deleteDelivery: (rowId) =>
      run(`delete from ${deliveries} where event_row_id = $1::text::bigint`, [String(rowId)]),
    corruptData: (rowId) =>
      run(`update ${quoted}.dovecote_events set data = '\\x7b' where row_id = $1::text::bigint`, [
        String(rowId),
      ]),
    async holdLock(rowId) {
      const holder = await sql.reserve();
      await holder.unsafe(
        `begin; select 1 from ${deliveries} where event_row_id = ${Number(rowId)} for update`,
      );
      return {
        async release() {
          await holder.unsafe("rollback");
          holder.release();
        },
      };
    },
    async failCommits() {
      await run(`create function ${quoted}.refuse_commit() returns trigger language plpgsql
        as 'begin raise exception ''refused at the commit''; end'`);
      await run(`create constraint trigger refuse_commit after insert or update or delete on ${deliveries}
        deferrable initially deferred for each row execute function ${quoted}.refuse_commit()`);
      return { release: () => run(`drop function ${quoted}.refuse_commit() cascade`) };
    },
    // The error of a full disk without a full disk: every new version of a row asks for room.
    async fillDisk() {
      await run(`create function ${quoted}.refuse_room() returns trigger language plpgsql
        as 'begin raise sqlstate ''53100'' using message = ''could not extend file''; end'`);
      for (const table of ["dovecote_events", "dovecote_deliveries"]) {
        await run(`create trigger refuse_room before insert or update on ${quoted}.${table}
          for each row execute function ${quoted}.refuse_room()`);
      }
      return { release: () => run(`drop function ${quoted}.refuse_room() cascade`) };
    },
    async severConnections() {
      // Gone when this returns: a backend that is only told to end may answer once more.
      await sql`select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = ${application}`;
    },
    silenceListeners: async () => listening.silence(),
    writeSchemaMarker: ({ version, requires }) =>
      run(`update ${quoted}.dovecote_schema set version = $1::text::integer, requires = $2::text::integer`, [
        String(version),
        String(requires),
      ]),
    async damageSchema(object) {
      const [statement, name] = damages[object];
      await run(statement);
      return name;
    },
    addForeignObjects: () =>
      run(`create table ${quoted}.mine (id integer primary key);
        alter table ${quoted}.dovecote_events add column note text;
        create index mine_by_type on ${quoted}.dovecote_events (event_type)`),
  };
}
