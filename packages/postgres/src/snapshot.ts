/** Snapshots: one REPEATABLE READ, READ ONLY transaction on a connection of its own. */
import { DovecoteError, type DriverSnapshot } from "@dovecote/core";
import { type PostgresJs, runOf } from "./client.ts";
import { toDovecoteError } from "./errors.ts";
import { lastRowId, page } from "./read.ts";
import { type SafeConnection, safeTransaction } from "./safe-transaction.ts";
import type { StatementTexts } from "./statements.ts";

/**
 * The server's snapshot is taken by the first statement, which also answers where it ends (PAGE-03). Every row up to
 * `final` was final before (PAGE-06).
 */
export async function openSnapshot(
  client: PostgresJs,
  texts: StatementTexts,
  final: number,
): Promise<DriverSnapshot> {
  let release: () => void = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const opened = Promise.withResolvers<{ connection: SafeConnection; lastRowId: number }>();
  const transaction = safeTransaction(
    client,
    "begin isolation level repeatable read read only",
    async (connection) => {
      opened.resolve({ connection, lastRowId: await lastRowId(runOf(connection.sql), texts) });
      await released;
    },
  );
  transaction.catch(opened.reject);
  const { connection, lastRowId: last } = await opened.promise;
  const run = runOf(connection.sql);
  let closed = false;
  return {
    lastRowId: last,
    cursor: Math.min(final, last),
    async page(request) {
      if (closed) throw new DovecoteError("CLOSED", "the snapshot was closed");
      try {
        return await page(run, texts, request);
      } catch (error) {
        throw toDovecoteError(error, "snapshot");
      }
    },
    async close() {
      closed = true;
      release();
      await transaction.catch(() => {}); // a lost connection has been reported by the page that met it
    },
  };
}
