/** Transactions of the reference store: what they write is staged, and applied as a whole at the commit. */
import { DovecoteError, type EventRecord } from "@dovecote/core";
import { identity, type Row, type Store } from "./store.ts";

/** Of a record by its id in a table of the store; undefined deletes it. */
interface Write {
  readonly table: Map<string, unknown>;
  readonly id: string;
  readonly value: unknown;
}

const open = new WeakMap<Store, Set<ReferenceTransaction>>();

export class ReferenceTransaction {
  readonly #store: Store;
  #staged: Row[] = [];
  #businessRows: string[] = [];
  #writes: Write[] = [];
  #onCommit: (() => void)[] = [];
  #ended = false;

  constructor(store: Store) {
    this.#store = store;
    const transactions = open.get(store) ?? new Set();
    open.set(store, transactions.add(this));
  }

  /** A transaction of ours, which commits if `work` returns. */
  static run<T>(store: Store, work: (tx: ReferenceTransaction) => T): T {
    const tx = new ReferenceTransaction(store);
    try {
      const result = work(tx);
      tx.commit();
      return result;
    } catch (error) {
      tx.rollback();
      throw error;
    }
  }

  /** The caller's open transaction. */
  static joined(store: Store, tx: unknown): ReferenceTransaction {
    if (!(tx instanceof ReferenceTransaction)) {
      throw new DovecoteError(
        "TX_REQUIRED",
        "this call belongs to a transaction of yours; its handle is missing",
      );
    }
    tx.assertUsable(store);
    return tx;
  }

  /** Whether an open transaction has written a record: it is locked until that one ends. */
  static isWriting(store: Store, table: ReadonlyMap<string, unknown>, id: string): boolean {
    return [...(open.get(store) ?? [])].some((transaction) => transaction.#written(table, id) !== undefined);
  }

  /** The lowest row id that an open transaction may still commit: what is above it is not final (PAGE-04). */
  static firstOpenRowId(store: Store): number {
    let first = Number.MAX_SAFE_INTEGER;
    for (const transaction of open.get(store) ?? [])
      first = Math.min(first, transaction.#staged[0]?.rowId ?? first);
    return first;
  }

  assertUsable(store: Store): void {
    if (store !== this.#store)
      throw new DovecoteError("TX_FOREIGN", "the transaction belongs to another store");
    if (this.#ended)
      throw new DovecoteError("TX_CLOSED", "this transaction has ended; its handle cannot be used again");
  }

  find(tenant: string, event: EventRecord): Row | undefined {
    const key = identity(tenant, event);
    return (
      this.#staged.find((row) => identity(row.tenant, row.event) === key) ?? this.#store.find(tenant, event)
    );
  }

  add(row: Row): void {
    this.#staged.push(row);
  }

  addBusinessRow(id: string): void {
    this.#businessRows.push(id);
  }

  /** As this transaction has left it, or as it is committed. */
  read<T>(table: Map<string, T>, id: string): T | undefined {
    const written = this.#written(table, id);
    return written === undefined ? table.get(id) : (written.value as T | undefined);
  }

  /** @throws `STORE_BUSY` if another transaction has written it: nothing here waits. */
  write<T>(table: Map<string, T>, id: string, value: T | undefined): void {
    if (this.#written(table, id) === undefined && ReferenceTransaction.isWriting(this.#store, table, id)) {
      throw new DovecoteError("STORE_BUSY", "another transaction has written this record, and is still open");
    }
    this.#writes.push({ table, id, value });
  }

  #written(table: ReadonlyMap<string, unknown>, id: string): Write | undefined {
    return this.#writes.findLast((write) => write.table === table && write.id === id);
  }

  onCommit(apply: () => void): void {
    this.#onCommit.push(apply);
  }

  /** Everything after this call is undone by what it answers. */
  savepoint(): () => void {
    const staged = this.#staged.length;
    const businessRows = this.#businessRows.length;
    const writes = this.#writes.length;
    const applied = this.#onCommit.length;
    return () => {
      this.#staged = this.#staged.slice(0, staged);
      this.#businessRows = this.#businessRows.slice(0, businessRows);
      this.#writes = this.#writes.slice(0, writes);
      this.#onCommit = this.#onCommit.slice(0, applied);
    };
  }

  /** @throws `SERIALIZATION_FAILURE`, retryable, if another transaction committed one of the identities first. */
  commit(): void {
    this.assertUsable(this.#store);
    this.#end();
    if (this.#staged.some(({ tenant, event }) => this.#store.find(tenant, event) !== undefined)) {
      throw new DovecoteError("SERIALIZATION_FAILURE", "another transaction committed the same identity");
    }
    const wakes = this.#staged.length > 0 || this.#onCommit.length > 0;
    if (wakes || this.#writes.length > 0) this.#store.assertWritable();
    for (const row of this.#staged) this.#store.add(row);
    for (const id of this.#businessRows) this.#store.businessRows.add(id);
    for (const { table, id, value } of this.#writes) {
      if (value === undefined) table.delete(id);
      else table.set(id, value);
    }
    for (const apply of this.#onCommit) apply();
    if (wakes) this.#store.wake();
  }

  rollback(): void {
    this.#end();
  }

  #end(): void {
    this.#ended = true;
    open.get(this.#store)?.delete(this);
  }
}
