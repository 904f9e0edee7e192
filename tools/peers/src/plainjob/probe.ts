/** Reads plainjob's table as it is, over a connection that the library has no part in. */
import type { Probe, ProbedDelivery } from "@dovecote/conformance";
import type Database from "better-sqlite3";
import { type Payload, toProbed } from "../stored-event.ts";
import { LEASE_MS, STATES, tokenOf } from "./driver.ts";

interface Row {
  readonly id: number;
  readonly type: string;
  readonly data: string;
  readonly status: number;
  readonly next_run_at: number;
  readonly failed_at: number | null;
  readonly error: string | null;
  readonly created_at: number;
}

type WorkerOf = (rowId: number) => string | null;

export function probeOf(db: Database.Database, workerOf: WorkerOf): Probe {
  const rows = (): readonly Row[] => db.prepare("select * from plainjob_jobs order by id").all() as Row[];
  return {
    deliveries: async () => rows().map((row) => delivery(row, workerOf)),
    events: async () =>
      rows().map((row) => toProbed(row.id, JSON.parse(row.data) as Payload, row.created_at * 1000)),
    async keys() {
      throw new Error("there are no idempotency keys");
    },
    businessRows: async () => db.prepare("select id from business order by id").pluck().all() as string[],
    now: async () => Date.now() * 1000,
  };
}

function delivery(row: Row, workerOf: WorkerOf): ProbedDelivery {
  const state = STATES[row.status] ?? "pending";
  const claimed = state === "claimed";
  return {
    rowId: row.id,
    tenant: "default",
    state,
    availableAt: row.next_run_at * 1000,
    attempts: row.status === 0 ? 0 : 1,
    forgiven: 0,
    token: claimed ? Buffer.from(tokenOf(row.id)).toString("hex") : null,
    worker: claimed ? workerOf(row.id) : null,
    shared: claimed ? false : null,
    expiresAt: claimed ? (row.next_run_at + LEASE_MS) * 1000 : null,
    failureCode: null,
    failureDetail: null,
    failedAt: null,
    deliveredAt: null,
    quarantinedAt: row.failed_at === null ? null : row.failed_at * 1000,
    quarantineReason: row.error,
  };
}
