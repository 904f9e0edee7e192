/** Reads pg-boss's table as it is, over a pool that the library has no part in. */
import type { Probe, ProbedDelivery } from "@dovecote/conformance";
import type { Pool } from "pg";
import { type Payload, toProbed } from "../stored-event.ts";
import { rowIdIn, tokenOf } from "./proof.ts";
import { stateOf } from "./row.ts";

const micros = (time: string): string => `(extract(epoch from ${time}) * 1000000)::float8`;

interface Row {
  readonly id: string;
  readonly state: string;
  readonly data: Payload;
  readonly output: { readonly code?: string; readonly detail?: string } | null;
  readonly retryCount: number;
  readonly started: boolean;
  readonly createdOn: number;
  readonly startAfter: number;
  readonly expiresAt: number | null;
  readonly completedOn: number | null;
}

type WorkerOf = (rowId: number, attempt: number) => string | null;

export function probeOf(pool: Pool, schema: string, workerOf: WorkerOf): Probe {
  const rows = async (): Promise<readonly Row[]> => {
    const { rows } = await pool.query<Row>(`select id, state, data, output, retry_count as "retryCount",
      started_on is not null as started, ${micros("created_on")} as "createdOn",
      ${micros("start_after")} as "startAfter", ${micros("completed_on")} as "completedOn",
      ${micros("heartbeat_on + heartbeat_seconds * interval '1s'")} as "expiresAt" from ${schema}.job`);
    return rows.sort((a, b) => rowIdIn(a.id) - rowIdIn(b.id));
  };
  return {
    deliveries: async () => (await rows()).map((row) => delivery(row, workerOf)),
    events: async () => (await rows()).map((row) => toProbed(rowIdIn(row.id), row.data, row.createdOn)),
    async keys() {
      throw new Error("there are no idempotency keys");
    },
    async businessRows() {
      const { rows } = await pool.query<{ id: string }>(
        `select id from ${schema}_application.business order by id collate "C"`,
      );
      return rows.map(({ id }) => id);
    },
    async now() {
      const { rows } = await pool.query<{ now: number }>(`select ${micros("clock_timestamp()")} as now`);
      return Number(rows[0]?.now);
    },
  };
}

function delivery(row: Row, workerOf: WorkerOf): ProbedDelivery {
  const state = stateOf(row.state);
  const claimed = state === "claimed";
  const rowId = rowIdIn(row.id);
  return {
    rowId,
    tenant: row.data.tenant,
    state,
    availableAt: row.startAfter,
    attempts: row.started ? row.retryCount + 1 : 0,
    forgiven: 0,
    token: claimed ? Buffer.from(tokenOf(rowId, row.retryCount)).toString("hex") : null,
    worker: claimed ? workerOf(rowId, row.retryCount + 1) : null,
    shared: claimed ? false : null,
    expiresAt: claimed ? row.expiresAt : null,
    failureCode: row.output?.code ?? null,
    failureDetail: row.output?.detail ?? null,
    failedAt: null,
    deliveredAt: state === "delivered" ? row.completedOn : null,
    quarantinedAt: state === "quarantined" ? row.completedOn : null,
    quarantineReason: null,
  };
}
