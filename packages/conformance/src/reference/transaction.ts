/** Transactions of the reference store: what they write is staged, and applied as a whole at the commit. */
import { DovecoteError, type EventRecord } from "@dovecote/core";
import { identity, type Row, type Store } from "./store.ts";

const open = new WeakMap<Store, Set<ReferenceTransaction>>();

export class ReferenceTransaction {
  readonly #store: Store;
  #staged: Row[] = [];
  #businessRows: string[] = [];
  #onCommit: (() => void)[] = [];
  #ended = false;

  constructor(store: Store) {
    this.#store = store;
    const transactions = open.get(store) ?? new Set();
    open.set(store, transactions.add(this));
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

  onCommit(apply: () => void): void {
    this.#onCommit.push(apply);
  }

  /** Everything after this call is undone by what it answers. */
  savepoint(): () => void {
    const staged = this.#staged.length;
    const businessRows = this.#businessRows.length;
    const applied = this.#onCommit.length;
    return () => {
      this.#staged = this.#staged.slice(0, staged);
      this.#businessRows = this.#businessRows.slice(0, businessRows);
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
    if (this.#staged.length > 0 || this.#onCommit.length > 0) this.#store.assertWritable();
    for (const row of this.#staged) this.#store.add(row);
    for (const id of this.#businessRows) this.#store.businessRows.add(id);
    for (const apply of this.#onCommit) apply();
    if (this.#staged.length > 0 || this.#onCommit.length > 0) this.#store.wake();
  }

  rollback(): void {
    this.#end();
  }

  #end(): void {
    this.#ended = true;
    open.get(this.#store)?.delete(this);
  }
}
