import type { Capabilities } from "@dovecote/core";

/** What SQLite gives. */
export function capabilitiesOf({ memory }: { readonly memory: boolean }): Capabilities {
  return Object.freeze({
    durable: !memory,
    serverSide: false,
    savepoints: true,
    asyncTransactions: false,
    transactionIdentity: false,
    lockScope: "database",
    // A database in memory belongs to one connection, so there is no second one to hold a read transaction.
    snapshotIsolation: memory ? "bounded" : "snapshot",
    clock: "host",
    tail: true,
    notify: true,
    keys: true,
  });
}

/** The capabilities of a database in a file. */
export const capabilities: Capabilities = capabilitiesOf({ memory: false });
