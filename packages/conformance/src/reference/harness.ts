/** The harness of the reference store: all in one process, since its spaces are memory. */
import { randomUUID } from "node:crypto";
import type { ErrorCode } from "@dovecote/core";
import {
  type AppTransaction,
  defineHarness,
  type Faults,
  type Harness,
  type OpenTransaction,
  type Probe,
  type ProbedDelivery,
  type Session,
} from "../define-harness.ts";
import { capabilities, ReferenceDriver } from "./driver.ts";
import { type Delivery, type Row, Store } from "./store.ts";
import { ReferenceTransaction } from "./transaction.ts";

const spaces = new Map<string, Store>();

const harness: Harness = defineHarness({
  driver: { name: "@dovecote/conformance reference", version: "0", contract: 1 },
  capabilities,
  async createSpace() {
    const locator = randomUUID();
    spaces.set(locator, new Store());
    return {
      locator,
      async dispose() {
        spaces.delete(locator);
      },
    };
  },
  async connect(locator) {
    const store = typeof locator === "string" ? spaces.get(locator) : undefined;
    if (store === undefined) throw new Error("there is no such space in this process");
    return new ReferenceSession(store);
  },
});

export default harness;

class ReferenceSession implements Session {
  readonly driver: ReferenceDriver;
  readonly root: object = {};
  readonly probe: Probe;
  readonly faults: Faults;
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
    this.driver = new ReferenceDriver(store);
    this.probe = probeOf(store);
    this.faults = faultsOf(store);
  }

  transaction<T>(fn: (tx: AppTransaction) => T): Promise<Awaited<T>> {
    return this.driver.transaction((tx) => fn(appTransaction(tx)));
  }

  async begin(): Promise<OpenTransaction> {
    const tx = new ReferenceTransaction(this.#store);
    return {
      ...appTransaction(tx),
      commit: async () => tx.commit(),
      rollback: async () => tx.rollback(),
      async savepoint() {
        const undo = tx.savepoint();
        return { rollback: async () => undo() };
      },
    };
  }

  async settings(): Promise<Readonly<Record<string, string>>> {
    return {};
  }

  async close(): Promise<void> {}
}

function appTransaction(tx: ReferenceTransaction): AppTransaction {
  return { handle: tx, writeBusinessRow: async (id) => tx.addBusinessRow(id) };
}

function probeOf(store: Store): Probe {
  return {
    deliveries: async () => store.ordered().flatMap((row) => probed(row) ?? []),
    events: async () =>
      store.ordered().map(({ rowId, tenant, enqueuedAt, event }) => ({
        ...event,
        rowId,
        tenant,
        enqueuedAt,
        data: event.data === null ? null : Buffer.from(event.data).toString("hex"),
      })),
    keys: async () =>
      [...store.keys.values()].map((row) =>
        Object.fromEntries(Object.entries(row).map(([name, value]) => [name, JSON.stringify(value)])),
      ),
    businessRows: async () => [...store.businessRows].sort(),
    now: async () => store.now(),
  };
}

function probed({ rowId, tenant, delivery }: Row): ProbedDelivery | undefined {
  if (delivery === undefined) return undefined;
  const { attempt, token, lastFailure, ...rest } = delivery;
  return {
    ...rest,
    rowId,
    tenant,
    attempts: attempt,
    token: token === null ? null : Buffer.from(token).toString("hex"),
    failureCode: lastFailure?.code ?? null,
    failureDetail: lastFailure?.detail ?? null,
    failedAt: lastFailure?.at ?? null,
  };
}

function faultsOf(store: Store): Faults {
  const row = (rowId: number): Row => {
    const found = store.rows.get(rowId);
    if (found === undefined) throw new Error(`there is no row ${rowId}`);
    return found;
  };
  const change = (rowId: number, columns: Partial<Delivery>): void => {
    const { delivery } = row(rowId);
    if (delivery !== undefined) row(rowId).delivery = { ...delivery, ...columns };
  };
  const notDurable = async (): Promise<never> => {
    throw new Error("the reference store is not durable: it has no schema");
  };
  const refuseWrites = async (code: ErrorCode) => {
    store.refusal = code;
    return {
      async release() {
        store.refusal = undefined;
      },
    };
  };
  return {
    async expireLeases(rowIds) {
      for (const rowId of rowIds) change(rowId, { expiresAt: store.now() - 1000 });
    },
    async overwriteDelivery(
      rowId,
      { attempts, token, failureCode, failureDetail, failedAt, tenant: _, ...columns },
    ) {
      change(rowId, {
        ...columns,
        ...(attempts !== undefined && { attempt: attempts }),
        ...(token !== undefined && { token: token === null ? null : Buffer.from(token, "hex") }),
        ...(failureCode !== undefined && {
          lastFailure:
            failureCode === null
              ? null
              : { code: failureCode, detail: failureDetail ?? "", at: failedAt ?? 0 },
        }),
      });
    },
    async deleteDelivery(rowId) {
      row(rowId).delivery = undefined;
    },
    async corruptData(rowId) {
      const damaged = row(rowId);
      store.rows.set(rowId, { ...damaged, event: { ...damaged.event, data: Buffer.from("{") } });
    },
    // Nothing here holds a lock for longer than one synchronous step.
    holdLock: async () => ({ release: async () => {} }),
    failCommits: () => refuseWrites("DRIVER_FAILURE"),
    fillDisk: () => refuseWrites("STORE_FULL"),
    severConnections: async () => {
      throw new Error("the reference store has no connections");
    },
    async ageKeys(ms) {
      const older = <T extends number | null>(at: T): T => (at === null ? at : at - ms * 1000) as T;
      for (const [id, row] of store.keys) {
        const { acquiredAt, expiresAt, completedAt } = row;
        const times = {
          acquiredAt: older(acquiredAt),
          expiresAt: older(expiresAt),
          completedAt: older(completedAt),
        };
        store.keys.set(id, { ...row, ...times });
      }
      for (const [id, mark] of store.marks) store.marks.set(id, { ...mark, sweepAt: older(mark.sweepAt) });
    },
    silenceListeners: async () => {
      throw new Error("the reference store has no connections");
    },
    writeSchemaMarker: notDurable,
    damageSchema: notDurable,
    addForeignObjects: notDurable,
  };
}
