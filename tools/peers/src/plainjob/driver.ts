/**
 * plainjob 0.0.14 behind the driver interface:
 *
 * - enqueue: `add`, which runs on the connection that the queue was given, so in whatever transaction is open on it
 * - lease: `timeout`, which counts from the moment when the job was due; judged by `requeueTimedOutJobs`, which its
 *   timer calls every minute and the harness before every claim
 * - claim: `getAndMarkJobAsProcessing`, one job a call; ack: `markJobAsDone`; quarantine: `markJobAsFailed`
 * - prune: `removeDoneJobs` and `removeFailedJobs`
 *
 * A job is named by its id, and nothing else proves who fetched it.
 */
import type {
  Capabilities,
  ClaimedRow,
  DeliveryState,
  EventRecord,
  SettleItem,
  SettleOutcome,
  StoredRow,
} from "@dovecote/core";
import type Database from "better-sqlite3";
import { better, defineQueue, type Queue } from "plainjob";
import { fromCallback, lacks, missing, type PeerDriver, typed } from "../lacking.ts";
import { type Payload, toEvent, toPayload } from "../stored-event.ts";

const LIBRARY = "plainjob";
export const LEASE_MS = 60_000;
/** Its timer never fires: the harness drives what it would. */
const DAY_MS = 24 * 3600 * 1000;

/** All that the library gives out is the id. */
export function tokenOf(id: number): Uint8Array {
  const token = Buffer.alloc(16);
  token.write("plainjob");
  token.writeUIntBE(id, 8, 6);
  return new Uint8Array(token);
}

/** By the number that plainjob stores. */
export const STATES: readonly DeliveryState[] = ["pending", "claimed", "delivered", "quarantined"];

export const capabilities: Capabilities = {
  durable: true,
  serverSide: false,
  savepoints: true,
  asyncTransactions: false,
  transactionIdentity: false,
  lockScope: "database",
  snapshotIsolation: "bounded",
  clock: "host",
  tail: false,
  notify: false,
  keys: false,
};

const SILENT = { error() {}, warn() {}, info() {}, debug() {} };

/** Constructing a queue creates its tables, and sets pragmas of the connection. `onClaim` hears who claimed what. */
export function plainjobDriver(
  client: Database.Database,
  onClaim: (rowId: number, worker: string) => void,
): PeerDriver {
  let removed = 0;
  const count = (n: number): void => {
    removed += n;
  };
  const connection = better(client);
  const queue = defineQueue({
    connection,
    timeout: LEASE_MS,
    maintenanceInterval: DAY_MS,
    logger: SILENT,
    onDoneJobsRemoved: count,
    onFailedJobsRemoved: count,
  });

  return typed({
    ...missing(LIBRARY),
    name: LIBRARY,
    capabilities,
    async migrate() {
      return { applied: [1], version: 1 };
    },
    async transaction<T>(fn: (tx: Database.Database) => T): Promise<Awaited<T>> {
      const answer: T = connection.transaction(() => fromCallback(() => fn(client))).immediate();
      return await answer;
    },
    enqueue: (_tx, tenant, rows) =>
      rows.map(({ event, delayMs }) => {
        const { id } = queue.add(event.stream, toPayload(tenant, event), { delay: delayMs });
        return { outcome: "enqueued", rowId: id };
      }),
    async claim({ tenant, stream, leaseMs, limit, shared, worker }) {
      checkTenant(tenant);
      if (leaseMs < LEASE_MS / 2 || leaseMs > LEASE_MS)
        throw lacks(LIBRARY, "length of a lease that a claim can choose");
      if (shared) throw lacks(LIBRARY, "claims whose expiry is forgiven");
      queue.requeueTimedOutJobs(LEASE_MS);
      const claims: ClaimedRow[] = [];
      for (const type of stream === null ? queue.getJobTypes() : [stream]) {
        while (claims.length < limit) {
          const id = queue.getAndMarkJobAsProcessing(type)?.id;
          const job = id === undefined ? undefined : queue.getJobById(id);
          if (job === undefined) break;
          claims.push(claimedRow(job));
          onClaim(job.id, worker);
        }
      }
      return claims;
    },
    async renew() {
      throw lacks(LIBRARY, "renewal of a lease");
    },
    async settle(tenant, items) {
      checkTenant(tenant);
      return items.map((item) => settle(queue, item));
    },
    async redrive() {
      throw lacks(LIBRARY, "redrive");
    },
    redriveIn() {
      throw lacks(LIBRARY, "redrive");
    },
    async prune({ tenant, olderThanMs, quarantined }) {
      checkTenant(tenant);
      removed = 0;
      queue.removeDoneJobs(olderThanMs);
      if (quarantined) queue.removeFailedJobs(olderThanMs);
      return removed;
    },
    async page() {
      throw lacks(LIBRARY, "list of jobs");
    },
    async inspect(tenant, rowId) {
      checkTenant(tenant);
      const job = queue.getJobById(rowId);
      return job === undefined ? null : storedRow(job);
    },
    async close() {
      queue.close();
    },
  });
}

function settle(queue: Queue, item: SettleItem): SettleOutcome {
  const { rowId, action } = item;
  if (queue.getJobById(rowId) === undefined) return { outcome: "notFound" };
  switch (action) {
    case "ack":
      queue.markJobAsDone(rowId);
      return { outcome: "applied" };
    case "quarantine":
    case "quarantinePending":
      queue.markJobAsFailed(rowId, item.reason);
      return { outcome: "applied" };
    case "retry":
    case "release":
      throw lacks(LIBRARY, `${action}: a job that fails has failed`);
  }
}

type PersistedJob = NonNullable<ReturnType<Queue["getJobById"]>>;

function claimedRow({ id, type, data, nextRunAt }: PersistedJob): ClaimedRow {
  const payload = parsed(data);
  return {
    rowId: id,
    tenant: payload?.tenant ?? "default",
    attempt: 1, // it counts none
    forgiven: 0,
    token: tokenOf(id),
    reclaimed: false,
    expiresAt: ((nextRunAt ?? 0) + LEASE_MS) * 1000,
    event: payload === undefined ? undecodable(type) : toEvent(payload),
  };
}

function storedRow({ id, type, data, status, nextRunAt, createdAt, error }: PersistedJob): StoredRow {
  const payload = parsed(data);
  const state = STATES[status] ?? "pending";
  return {
    rowId: id,
    tenant: "default",
    enqueuedAt: createdAt * 1000,
    event: payload === undefined ? undecodable(type) : toEvent(payload),
    delivery: {
      state,
      availableAt: (nextRunAt ?? 0) * 1000,
      attempt: 0,
      forgiven: 0,
      worker: null,
      shared: state === "claimed" ? false : null,
      expiresAt: state === "claimed" ? ((nextRunAt ?? 0) + LEASE_MS) * 1000 : null,
      lastFailure: null,
      deliveredAt: null,
      quarantinedAt: null,
      quarantineReason: error ?? null,
    },
  };
}

function parsed(data: string): Payload | undefined {
  try {
    return JSON.parse(data) as Payload;
  } catch {
    return undefined;
  }
}

/** A worker of plainjob gets the text of the job as it is stored. */
function undecodable(stream: string): EventRecord {
  const none = { subject: null, time: null, datacontenttype: null, dataschema: null, partitionkey: null };
  const data = new TextEncoder().encode("{");
  return { stream, id: "?", source: "?", type: "?", ...none, extensions: null, dataKind: "json", data };
}

function checkTenant(tenant: string | null): void {
  if (tenant !== null && tenant !== "default") throw lacks(LIBRARY, "tenants");
}
