/** What is done to plainjob's tables behind its back. */
import type { Faults, ProbedDelivery } from "@dovecote/conformance";
import type { DeliveryState } from "@dovecote/core";
import Database from "better-sqlite3";
import { lacks } from "../lacking.ts";
import { LEASE_MS, STATES } from "./driver.ts";

type Column = readonly [name: string, value: (given: unknown) => unknown];

const toMs = (micros: unknown): number => Math.floor(Number(micros) / 1000);

/** What is missing here, plainjob does not store. A job is removed by the age of `next_run_at`. */
const COLUMNS: Partial<Record<keyof ProbedDelivery, Column>> = {
  state: ["status", (state) => STATES.indexOf(state as DeliveryState)],
  availableAt: ["next_run_at", toMs],
  expiresAt: ["next_run_at", (micros) => toMs(micros) - LEASE_MS],
  deliveredAt: ["next_run_at", toMs],
  quarantinedAt: ["failed_at", toMs],
  quarantineReason: ["error", String],
};

const lacking = (what: string) => async (): Promise<never> => {
  throw lacks("plainjob", what);
};

const REFUSE_COMMITS = `create table refusals (id integer primary key,
    missing integer references refusals (id) deferrable initially deferred);
  ${["insert", "update", "delete"]
    .map(
      (event) => `create trigger refuse_${event} after ${event} on plainjob_jobs
    begin insert into refusals (missing) values (-1); end;`,
    )
    .join("\n")}`;

export function faultsOf(db: Database.Database, file: string): Faults {
  return {
    async expireLeases(rowIds) {
      const expire = db.prepare("update plainjob_jobs set next_run_at = ? where id = ? and status = 1");
      for (const rowId of rowIds) expire.run(Date.now() - LEASE_MS - 1, rowId);
    },
    async overwriteDelivery(rowId, columns) {
      for (const [name, value] of Object.entries(columns)) {
        const column = COLUMNS[name as keyof ProbedDelivery];
        if (column === undefined) throw lacks("plainjob", `column for ${name}`);
        db.prepare(`update plainjob_jobs set ${column[0]} = ? where id = ?`).run(column[1](value), rowId);
      }
    },
    deleteDelivery: lacking("delivery apart from its event"),
    async corruptData(rowId) {
      db.prepare("update plainjob_jobs set data = '{' where id = ?").run(rowId);
    },
    async holdLock() {
      const holder = new Database(file);
      holder.exec("begin immediate");
      return {
        async release() {
          holder.exec("rollback");
          holder.close();
        },
      };
    },
    async failCommits() {
      db.exec(REFUSE_COMMITS);
      return {
        async release() {
          db.exec(`drop trigger refuse_insert; drop trigger refuse_update; drop trigger refuse_delete;
            drop table refusals`);
        },
      };
    },
    fillDisk: lacking("test of a full disk in this harness"),
    severConnections: lacking("server"),
    ageKeys: lacking("idempotency key"),
    silenceListeners: lacking("wake-up"),
    writeSchemaMarker: lacking("schema marker"),
    damageSchema: lacking("schema check"),
    addForeignObjects: lacking("schema check"),
  };
}
