import type { Capabilities } from "@dovecote/core";

/** What SQLite in a file gives, through `node:sqlite`. Each member picks a branch of the conformance suite. */
export const capabilities: Capabilities = Object.freeze({
  durable: true,
  serverSide: false,
  savepoints: true,
  // `DatabaseSync` has no promises: a transaction that waited would block everybody else on its connection.
  asyncTransactions: false,
  // What an application hands to `enqueue` is its connection; it has nothing that stands for one transaction.
  transactionIdentity: false,
  lockScope: "database",
  snapshotIsolation: "snapshot",
  clock: "host",
  tail: true,
  notify: false,
  keys: false,
});
