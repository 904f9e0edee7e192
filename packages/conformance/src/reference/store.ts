/** The rows of the reference store, and the rules that a database would keep by its constraints. */
import {
  BOUNDS,
  type DeliveryRecord,
  DovecoteError,
  type ErrorCode,
  type EventRecord,
  type KeyAddress,
  type StoredKey,
  type StoredRow,
} from "@dovecote/core";

export interface Delivery extends DeliveryRecord {
  readonly token: Uint8Array | null;
}

export interface Row {
  readonly rowId: number;
  readonly tenant: string;
  readonly enqueuedAt: number;
  readonly event: EventRecord;
  /** undefined: lost, as a damaged store would have it. Replaced as a whole, never changed in place. */
  delivery: Delivery | undefined;
}

/** The record of an idempotency key. Replaced as a whole, never changed in place. */
export interface KeyRow extends KeyAddress, StoredKey {
  readonly principal: Uint8Array | null;
  readonly acquiredAt: number;
}

/** That a consumer has seen an event. */
interface Mark {
  readonly tenant: string;
  readonly sweepAt: number;
}

/** One space. Sessions of one process share it. */
export class Store {
  readonly rows: Map<number, Row> = new Map();
  readonly keys: Map<string, KeyRow> = new Map();
  readonly marks: Map<string, Mark> = new Map();
  readonly businessRows: Set<string> = new Set();
  readonly #identities = new Map<string, number>();
  readonly #listeners = new Set<{ readonly call: () => void }>();
  #lastRowId = 0;
  /** Why nothing can be written right now, as for a database whose commit fails or whose disk is full. */
  refusal: ErrorCode | undefined;

  /** Microseconds since the epoch, from a clock that fake dates do not reach. */
  now(): number {
    return Math.floor((performance.timeOrigin + performance.now()) * 1000);
  }

  /** Called before the first change of whatever applies as a whole: nothing can fail after it. */
  assertWritable(): void {
    if (this.refusal !== undefined) throw new DovecoteError(this.refusal, "the store takes no writes");
  }

  nextRowId(): number {
    this.#lastRowId += 1;
    return this.#lastRowId;
  }

  add(row: Row): void {
    this.rows.set(row.rowId, row);
    this.#identities.set(identity(row.tenant, row.event), row.rowId);
  }

  remove(row: Row): void {
    this.rows.delete(row.rowId);
    this.#identities.delete(identity(row.tenant, row.event));
  }

  find(tenant: string, event: Pick<EventRecord, "source" | "id">): Row | undefined {
    const rowId = this.#identities.get(identity(tenant, event));
    return rowId === undefined ? undefined : this.rows.get(rowId);
  }

  /** Ascending row ids. */
  ordered(): readonly Row[] {
    return [...this.rows.values()].sort((a, b) => a.rowId - b.rowId);
  }

  subscribe(call: () => void): () => void {
    const listener = { call };
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  wake(): void {
    for (const { call } of [...this.#listeners]) queueMicrotask(call);
  }
}

export function identity(tenant: string, { source, id }: Pick<EventRecord, "source" | "id">): string {
  return JSON.stringify([tenant, source, id]);
}

/** A new delivery. */
export function pending(availableAt: number): Delivery {
  return {
    state: "pending",
    availableAt,
    attempt: 0,
    forgiven: 0,
    ...UNCLAIMED,
    lastFailure: null,
    deliveredAt: null,
    quarantinedAt: null,
    quarantineReason: null,
  };
}

/** What every delivery has that is not claimed. */
export const UNCLAIMED: Pick<Delivery, "token" | "worker" | "shared" | "expiresAt"> = {
  token: null,
  worker: null,
  shared: null,
  expiresAt: null,
};

export function attemptsLeft({ attempt }: Delivery): boolean {
  return attempt < BOUNDS.attempt;
}

export function toStoredRow({ rowId, tenant, enqueuedAt, event, delivery }: Row): StoredRow {
  if (delivery === undefined) return { rowId, tenant, enqueuedAt, event, delivery: null };
  const { token: _, ...record } = delivery;
  return { rowId, tenant, enqueuedAt, event, delivery: record };
}

export function sameBytes(a: Uint8Array | null, b: Uint8Array | undefined): boolean {
  return (
    a !== null && b !== undefined && a.length === b.length && a.every((byte, index) => byte === b[index])
  );
}
