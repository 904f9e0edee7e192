/** A driver that records what reaches it and answers `applied`: what the portable API refuses never gets here. */
import type { Capabilities, ClaimedRow, Driver, EventRecord } from "../src/index.ts";

export interface Recorded {
  readonly method: string;
  readonly arguments: readonly unknown[];
}

const capabilities: Capabilities = {
  durable: false,
  serverSide: false,
  savepoints: false,
  asyncTransactions: false,
  transactionIdentity: true,
  lockScope: "row",
  snapshotIsolation: "bounded",
  clock: "host",
  tail: false,
  notify: true,
  keys: false,
};

const event: EventRecord = {
  stream: "s",
  id: "1",
  source: "/s",
  type: "t",
  subject: null,
  time: null,
  datacontenttype: null,
  dataschema: null,
  partitionkey: null,
  extensions: null,
  dataKind: "absent",
  data: null,
};

export function fakeDriver(): { readonly driver: Driver<unknown, true>; readonly calls: Recorded[] } {
  const calls: Recorded[] = [];
  const record = (method: string, ...given: unknown[]): void => {
    calls.push({ method, arguments: given });
  };
  const driver: Driver<unknown, true> = {
    name: "fake",
    capabilities,
    async migrate() {
      record("migrate");
      return { applied: [], version: 1 };
    },
    async checkSchema() {
      record("checkSchema");
      return { status: "none", version: null, findings: [] };
    },
    async transaction<T>(fn: (tx: unknown) => T): Promise<Awaited<T>> {
      record("transaction");
      return await fn(undefined);
    },
    enqueue(_tx, tenant, rows) {
      record("enqueue", tenant, rows);
      return rows.map((_, index) => ({ outcome: "enqueued", rowId: index + 1 }));
    },
    async claim(request) {
      record("claim", request);
      const tokens = request.drawTokens(request.limit);
      return tokens.map(
        (token, index): ClaimedRow => ({
          rowId: index + 1,
          tenant: request.tenant ?? "default",
          attempt: 1,
          forgiven: 0,
          token,
          reclaimed: false,
          expiresAt: 1_700_000_000_000_999,
          event,
        }),
      );
    },
    async renew(tenant, items) {
      record("renew", tenant, items);
      return items.map(() => ({ outcome: "applied", expiresAt: 1_700_000_000_000_999 }));
    },
    async settle(tenant, items) {
      record("settle", tenant, items);
      return items.map(() => ({ outcome: "applied" }));
    },
    async redrive(tenant, rowId) {
      record("redrive", tenant, rowId);
      return { outcome: "applied" };
    },
    async redriveMany(filter) {
      record("redriveMany", filter);
      return [];
    },
    redriveIn(_tx, tenant, rowId) {
      record("redriveIn", tenant, rowId);
      return { outcome: "applied" };
    },
    redriveManyIn(_tx, filter) {
      record("redriveManyIn", filter);
      return [];
    },
    async prune(request) {
      record("prune", request);
      return 0;
    },
    async page(request) {
      record("page", request);
      return [];
    },
    async tail(request) {
      record("tail", request);
      return { rows: [], upTo: 0, lastRowId: 0, heldBackMs: 0 };
    },
    async snapshot() {
      record("snapshot");
      return { lastRowId: 0, cursor: 0, page: async () => [], close: async () => {} };
    },
    async list(request) {
      record("list", request);
      return [];
    },
    async stats(tenant, cap) {
      record("stats", tenant, cap);
      const none = { count: 0, exact: true };
      const counts = {
        due: none,
        scheduled: none,
        claimed: none,
        expired: none,
        quarantined: none,
        exhausted: none,
      };
      return { ...counts, oldestDueMs: null };
    },
    async inspect(tenant, rowId) {
      record("inspect", tenant, rowId);
      return null;
    },
    async reconcile(rowId) {
      record("reconcile", rowId);
      return "notFound";
    },
    async subscribe() {
      record("subscribe");
      return async () => {};
    },
    async close() {
      record("close");
    },
  };
  return { driver, calls };
}
