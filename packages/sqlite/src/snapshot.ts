/** Snapshots: a read transaction on a connection of its own, or a fixed upper bound where there can be only one. */
import {
  assertSchemaUsable,
  DovecoteError,
  type DriverSnapshot,
  type PageRequest,
  type StoredRow,
} from "@dovecote/core";
import { Connection } from "./connection.ts";
import { toDovecoteError } from "./errors.ts";
import { openReadOnly } from "./open.ts";
import { lastRowId, page } from "./read.ts";
import { NEEDS, readMarker } from "./schema.ts";
import type { StatementTexts } from "./statements.ts";

/** One consistent state: a WAL reader sees the commit at which its transaction first read (PAGE-03). */
export function fileSnapshot(path: string, texts: StatementTexts): DriverSnapshot {
  const client = openReadOnly(path);
  try {
    assertSchemaUsable(readMarker(client), NEEDS);
    const connection = new Connection(client, texts);
    client.exec("begin");
    const last = lastRowId(connection);
    return {
      lastRowId: last,
      cursor: last,
      async page(request) {
        if (!client.open) throw new DovecoteError("CLOSED", "the snapshot was closed");
        try {
          return page(connection, request);
        } catch (error) {
          throw toDovecoteError(error, "snapshot");
        }
      },
      async close() {
        client.close();
      },
    };
  } catch (error) {
    client.close();
    throw error;
  }
}

/** In memory: rows up to the last one at the start; their deliveries as they are when the page is read. */
export function boundedSnapshot(
  connection: Connection,
  read: (request: PageRequest) => Promise<readonly StoredRow[]>,
): DriverSnapshot {
  const last = lastRowId(connection);
  let closed = false;
  return {
    lastRowId: last,
    cursor: last,
    async page(request) {
      if (closed) throw new DovecoteError("CLOSED", "the snapshot was closed");
      return read(request);
    },
    async close() {
      closed = true;
    },
  };
}
