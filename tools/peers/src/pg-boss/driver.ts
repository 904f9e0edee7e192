/**
 * pg-boss 12.38 behind the driver interface, with the best that it documents for each call:
 *
 * - enqueue: `insert` with `db`, and a uuid of our own made of the identity
 * - lease: `heartbeatSeconds` of the queue, since `touch` renews it; judged by `supervise`, called before every fetch
 * - claim: `fetch`; ack: `complete`; renew: `touch`; each settle names the attempt as `{ id, retryCount }`
 * - retry: `fail`, and `update` of `startAfter` in the same transaction for a delay
 * - quarantine: `cancel`; redrive: `resume`; release: both in one transaction
 */
import type {
  Capabilities,
  ClaimedRow,
  Refusal,
  RenewOutcome,
  SettleItem,
  SettleOutcome,
  StoredRow,
} from "@dovecote/core";
import type { CommandResponse, Db, JobAttempt, JobWithMetadata, PgBoss } from "pg-boss";
import { fromCallback, lacks, missing, type PeerDriver, typed } from "../lacking.ts";
import { type Payload, toEvent, toPayload } from "../stored-event.ts";
import { attemptOf, QUEUES, queueOf, rowIdIn, rowIdOf, tokenOf, uuidOf } from "./proof.ts";
import { stateOf, storedRow } from "./row.ts";

const LIBRARY = "pg-boss";
const LEASE_SECONDS = 60;

/** Every option of a queue that has to do with claims. */
const QUEUE_OPTIONS = {
  policy: "standard",
  heartbeatSeconds: LEASE_SECONDS,
  expireInSeconds: 24 * 3600,
  retryLimit: 1_000_000,
  retryDelay: 0,
} as const;

export const capabilities: Capabilities = {
  durable: true,
  serverSide: true,
  savepoints: true,
  asyncTransactions: true,
  transactionIdentity: true,
  lockScope: "row",
  snapshotIsolation: "snapshot",
  clock: "server",
  tail: false,
  notify: false,
  keys: false,
};

/**
 * `boss` is started once it is needed: starting it installs its schema. `onClaim` hears who claimed what, which pg-boss
 * does not store.
 */
export function pgBossDriver(
  boss: PgBoss,
  onClaim: (rowId: number, attempt: number, worker: string) => void,
): PeerDriver {
  let started: Promise<PgBoss> | undefined;
  const ready = (): Promise<PgBoss> => {
    started ??= boss.start();
    return started;
  };

  return typed({
    ...missing(LIBRARY),
    name: LIBRARY,
    capabilities,
    async migrate() {
      await ready();
      for (const queue of QUEUES) await boss.createQueue(queue, QUEUE_OPTIONS);
      return { applied: [1], version: 1 };
    },
    async transaction<T>(fn: (tx: Db) => T): Promise<Awaited<T>> {
      await ready();
      return await inTransaction(boss, async (db) => fromCallback(() => fn(db)));
    },
    async enqueue(tx, tenant, rows) {
      await ready();
      const keyed = rows.map(({ event, delayMs }) => {
        checkStream(event.stream);
        return { event, delayMs, rowId: rowIdOf(tenant, event) };
      });
      const stored = new Set<string>();
      for (const queue of QUEUES) {
        const jobs = keyed
          // It refuses a batch that names a uuid twice.
          .filter(({ rowId }, index) => keyed.findIndex((each) => each.rowId === rowId) === index)
          .filter(({ event }) => event.stream === queue)
          .map(({ event, delayMs, rowId }) => ({
            id: uuidOf(rowId),
            data: toPayload(tenant, event),
            ...(delayMs > 0 && { startAfter: interval(delayMs) }),
          }));
        if (jobs.length === 0) continue;
        const ids = await boss.insert(queue, jobs, { db: tx as Db, returnId: true });
        for (const id of ids ?? []) stored.add(id);
      }
      return keyed.map(({ rowId }) => ({
        outcome: stored.delete(uuidOf(rowId)) ? ("enqueued" as const) : ("alreadyEnqueued" as const),
        rowId,
      }));
    },
    async claim({ tenant, stream, leaseMs, limit, shared, worker }) {
      checkTenant(tenant);
      checkLease(leaseMs);
      if (shared) throw lacks(LIBRARY, "claims whose expiry is forgiven");
      if (stream !== null) checkStream(stream);
      await ready();
      await boss.supervise();
      const jobs: JobWithMetadata<Payload>[] = [];
      for (const queue of stream === null ? QUEUES : [stream]) {
        if (jobs.length === limit) break;
        const batchSize = limit - jobs.length;
        jobs.push(...(await boss.fetch<Payload>(queue, { batchSize, includeMetadata: true })));
      }
      const claims = jobs.map(claimedRow);
      for (const { rowId, attempt } of claims) onClaim(rowId, attempt, worker);
      return claims;
    },
    async renew(tenant, items) {
      checkTenant(tenant);
      await ready();
      const outcomes: RenewOutcome[] = [];
      for (const { rowId, attempt, token, leaseMs } of items) {
        checkLease(leaseMs);
        const held = attemptOf({ rowId, attempt, token });
        const done = held !== undefined && applied(await boss.touch(queueOf(rowId), held));
        const job = await find(boss, rowId);
        const beat = job?.heartbeatOn?.getTime();
        outcomes.push(
          done && beat !== undefined
            ? { outcome: "applied", expiresAt: (beat + LEASE_SECONDS * 1000) * 1000 }
            : refusal(job),
        );
      }
      return outcomes;
    },
    async settle(tenant, items) {
      checkTenant(tenant);
      await ready();
      const outcomes: SettleOutcome[] = [];
      for (const item of items) {
        const done = await settle(boss, item);
        outcomes.push(done ? { outcome: "applied" } : refusal(await find(boss, item.rowId)));
      }
      return outcomes;
    },
    async redrive(tenant, rowId) {
      checkTenant(tenant);
      await ready();
      return redriven(boss, rowId, {});
    },
    async redriveIn(tx, tenant, rowId) {
      checkTenant(tenant);
      await ready();
      return redriven(boss, rowId, { db: tx as Db });
    },
    async prune() {
      throw lacks(LIBRARY, "prune on demand by age: it deletes by itself, after deleteAfterSeconds");
    },
    async page({ tenant, stream, after, upTo, limit }) {
      checkTenant(tenant);
      await ready();
      const found: StoredRow[] = [];
      for (const queue of stream === null ? QUEUES : [stream]) {
        const jobs = await boss.findJobs<Payload>(queue, { limit: 100_000 });
        found.push(...jobs.map((job) => storedRow(job, rowIdIn(job.id))));
      }
      return found
        .filter(({ rowId }) => rowId > after && rowId <= (upTo ?? Number.MAX_SAFE_INTEGER))
        .sort((a, b) => a.rowId - b.rowId)
        .slice(0, limit);
    },
    async inspect(tenant, rowId) {
      checkTenant(tenant);
      await ready();
      const job = await find(boss, rowId);
      return job === undefined ? null : storedRow(job, rowId);
    },
    async close() {
      if (started === undefined) return;
      await started;
      await boss.stop({ graceful: false });
    },
  });
}

async function settle(boss: PgBoss, item: SettleItem): Promise<boolean> {
  const { rowId } = item;
  const queue = queueOf(rowId);
  if (item.action === "quarantinePending") return applied(await boss.cancel(queue, uuidOf(rowId)));
  const held = attemptOf(item);
  if (held === undefined) return false;
  switch (item.action) {
    case "ack":
      return applied(await boss.complete(queue, held));
    case "retry":
      return inTransaction(boss, async (db) => {
        if (!applied(await boss.fail(queue, held, { ...item.failure }, { db }))) return false;
        await delay(boss, queue, held, item.delayMs, db);
        return true;
      });
    case "release":
      return inTransaction(boss, async (db) => {
        if (!applied(await boss.cancel(queue, held, { db }))) return false;
        await boss.resume(queue, held.id, { db });
        await delay(boss, queue, held, item.delayMs, db);
        return true;
      });
    case "quarantine":
      return applied(await boss.cancel(queue, held));
  }
}

async function delay(
  boss: PgBoss,
  queue: string,
  { id }: JobAttempt,
  delayMs: number,
  db: Db,
): Promise<void> {
  if (delayMs > 0) await boss.update(queue, undefined, { id, startAfter: interval(delayMs), db });
}

async function redriven(
  boss: PgBoss,
  rowId: number,
  options: { db?: Db },
): Promise<{ outcome: "applied" } | Exclude<Refusal, { outcome: "lostClaim" }>> {
  if (applied(await boss.resume(queueOf(rowId), uuidOf(rowId), options))) return { outcome: "applied" };
  const job = await find(boss, rowId, options);
  return job === undefined
    ? { outcome: "notFound" }
    : { outcome: "illegalTransition", state: stateOf(job.state) };
}

/** `affected` is described where a call is limited to an attempt, and missing in the type. */
function applied(response: CommandResponse): boolean {
  return (response as { readonly affected?: number }).affected === 1;
}

/** Why a call affected nothing, which pg-boss does not say: looked up afterwards. */
function refusal(job: JobWithMetadata<Payload> | undefined): Refusal {
  if (job === undefined) return { outcome: "notFound" };
  const state = stateOf(job.state);
  return state === "claimed" ? { outcome: "lostClaim" } : { outcome: "illegalTransition", state };
}

async function find(
  boss: PgBoss,
  rowId: number,
  options: { db?: Db } = {},
): Promise<JobWithMetadata<Payload> | undefined> {
  const [job] = await boss.findJobs<Payload>(queueOf(rowId), { id: uuidOf(rowId), ...options });
  return job;
}

function claimedRow(job: JobWithMetadata<Payload>): ClaimedRow {
  const heartbeat = job.heartbeatOn?.getTime() ?? 0;
  const output = job.output as { value?: { message?: string } } | null;
  return {
    rowId: rowIdIn(job.id),
    tenant: job.data.tenant,
    attempt: job.retryCount + 1,
    forgiven: 0,
    token: tokenOf(rowIdIn(job.id), job.retryCount),
    reclaimed: output?.value?.message === "job heartbeat timeout",
    expiresAt: (heartbeat + LEASE_SECONDS * 1000) * 1000,
    event: toEvent(job.data),
  };
}

async function inTransaction<T>(boss: PgBoss, fn: (db: Db) => Promise<T>): Promise<T> {
  const tx = await boss.getDb().beginTransaction?.();
  if (tx === undefined) throw lacks(LIBRARY, "transactions over this adapter");
  try {
    const answer = await fn(tx.db);
    await tx.commit();
    return answer;
  } catch (error) {
    await tx.rollback();
    throw error;
  }
}

/** A `startAfter` that is a Postgres interval counts from the server's time. */
function interval(delayMs: number): string {
  return `${delayMs} milliseconds`;
}

function checkTenant(tenant: string | null): void {
  if (tenant !== null && tenant !== "default") throw lacks(LIBRARY, "tenants");
}

function checkStream(stream: string): void {
  if (!QUEUES.includes(stream)) throw lacks(LIBRARY, `queue ${stream} in this harness`);
}

/** The lease is an option of the queue. A case that only needs some lease gets it, one about its length does not. */
function checkLease(leaseMs: number): void {
  if (leaseMs < (LEASE_SECONDS * 1000) / 2 || leaseMs > LEASE_SECONDS * 1000)
    throw lacks(LIBRARY, "length of a lease that a claim can choose");
}
