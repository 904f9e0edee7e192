import type { Capabilities } from "@dovecote/core";

/** What Postgres gives. */
export const capabilities: Capabilities = Object.freeze({
  durable: true,
  serverSide: true,
  savepoints: true,
  asyncTransactions: true,
  transactionIdentity: true,
  lockScope: "row",
  snapshotIsolation: "snapshot",
  clock: "server",
  tail: true,
  notify: false,
  keys: true,
});
