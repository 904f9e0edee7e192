/** What is done to pg-boss's tables behind its back. */
import type { Faults, ProbedDelivery } from "@dovecote/conformance";
import type { Pool } from "pg";
import { lacks } from "../lacking.ts";
import { uuidOf } from "./proof.ts";

/** The column, and how its value is made of the parameter. What is missing here, pg-boss does not store. */
const COLUMNS: Partial<Record<keyof ProbedDelivery, string>> = {
  availableAt: "start_after = to_timestamp($2::float8 / 1000000)",
  expiresAt: "heartbeat_on = to_timestamp($2::float8 / 1000000) - heartbeat_seconds * interval '1s'",
  deliveredAt: "completed_on = to_timestamp($2::float8 / 1000000)",
  quarantinedAt: "completed_on = to_timestamp($2::float8 / 1000000)",
  attempts: "retry_count = $2::int - 1, started_on = coalesce(started_on, now())",
};

const lacking = (what: string) => async (): Promise<never> => {
  throw lacks("pg-boss", what);
};

export function faultsOf(pool: Pool, schema: string): Faults {
  const job = `${schema}.job`;
  return {
    async expireLeases(rowIds) {
      await pool.query(
        `update ${job} set heartbeat_on = clock_timestamp() - heartbeat_seconds * interval '1s' - interval '1 ms'
        where id = any ($1::uuid[]) and state = 'active'`,
        [rowIds.map(uuidOf)],
      );
      // A monitor pass is due again, however short ago the last one was.
      await pool.query(`update ${schema}.queue set monitor_claim_on = null, monitor_on = null`);
    },
    async overwriteDelivery(rowId, columns) {
      for (const [name, value] of Object.entries(columns)) {
        const assignment = COLUMNS[name as keyof ProbedDelivery];
        if (assignment === undefined) throw lacks("pg-boss", `column for ${name}`);
        await pool.query(`update ${job} set ${assignment} where id = $1::uuid`, [uuidOf(rowId), value]);
      }
    },
    deleteDelivery: lacking("delivery apart from its event"),
    corruptData: lacking("data that could be damaged without breaking the column's type jsonb"),
    async holdLock(rowId) {
      const client = await pool.connect();
      await client.query("begin");
      await client.query(`select 1 from ${job} where id = $1::uuid for update`, [uuidOf(rowId)]);
      return {
        async release() {
          await client.query("rollback");
          client.release();
        },
      };
    },
    async failCommits() {
      await pool.query(`create function ${schema}.refuse_commit() returns trigger language plpgsql
        as 'begin raise exception ''refused at the commit''; end'`);
      await pool.query(`create constraint trigger refuse_commit after insert or update or delete
        on ${schema}.job_common deferrable initially deferred
        for each row execute function ${schema}.refuse_commit()`);
      return {
        async release() {
          await pool.query(`drop function ${schema}.refuse_commit() cascade`);
        },
      };
    },
    fillDisk: lacking("test of a full disk in this harness"),
    severConnections: lacking("test of severed connections in this harness"),
    ageKeys: lacking("idempotency key"),
    silenceListeners: lacking("wake-up"),
    writeSchemaMarker: lacking("marker of this form"),
    damageSchema: lacking("schema check of this form"),
    addForeignObjects: lacking("schema check of this form"),
  };
}
