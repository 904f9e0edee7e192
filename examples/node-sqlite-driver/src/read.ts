/** Everything that reads: pages, lists, counts, single rows, snapshots. */
import {
  assertSchemaUsable,
  type CappedCount,
  DovecoteError,
  type DriverSnapshot,
  type ListRequest,
  type PageRequest,
  type StatsRecord,
  type StoredRow,
} from "@dovecote/core";
import { openReadOnly } from "./client.ts";
import { Connection } from "./connection.ts";
import { toDovecoteError } from "./errors.ts";
import { type EntryRow, toStored } from "./rows.ts";
import { NEEDS, readMarker } from "./schema.ts";
import type { Span, StatementTexts } from "./statements.ts";

/** Above every time and row id. */
const END = Number.MAX_SAFE_INTEGER;

/** Whose rows a call spans, and the parameters that its statement then names. */
export function spanOf(tenant: string | null): { readonly span: Span; readonly named: { tenant?: string } } {
  return tenant === null ? { span: "all", named: {} } : { span: "tenant", named: { tenant } };
}

export function page(
  connection: Connection,
  { tenant, stream, after, upTo, limit }: PageRequest,
): readonly StoredRow[] {
  const { span, named } = spanOf(tenant);
  const parameters = { ...named, stream, after, upTo: upTo ?? END, limit };
  return connection.all<EntryRow>(`page.${span}`, parameters).map(toStored);
}

export function inspect(connection: Connection, tenant: string | null, rowId: number): StoredRow | null {
  const [row] = page(connection, { tenant, stream: null, after: rowId - 1, upTo: rowId, limit: 1 });
  return row ?? null;
}

export function list(connection: Connection, request: ListRequest): readonly StoredRow[] {
  const { tenant, state, stream, failureCode, before, limit } = request;
  const { span, named } = spanOf(tenant);
  const position = { beforeAt: before?.at ?? END, beforeRowId: before?.rowId ?? END };
  const parameters = { ...named, ...position, stream, failureCode, limit };
  return connection.all<EntryRow>(`list.${state}.${span}`, parameters).map(toStored);
}

type Counted = Record<Exclude<keyof StatsRecord, "oldestDueMs">, number> & { oldestDue: number | null };

export function stats(connection: Connection, tenant: string | null, cap: number): StatsRecord {
  const { span, named } = spanOf(tenant);
  const now = connection.now();
  const row = connection.get<Counted>(`stats.${span}`, { ...named, now, cap }) as Counted;
  const capped = (count: number): CappedCount => ({ count: Math.min(count, cap), exact: count <= cap });
  return {
    due: capped(row.due),
    scheduled: capped(row.scheduled),
    claimed: capped(row.claimed),
    expired: capped(row.expired),
    quarantined: capped(row.quarantined),
    exhausted: capped(row.exhausted),
    oldestDueMs: row.oldestDue === null ? null : Math.floor((now - row.oldestDue) / 1000),
  };
}

export function lastRowId(connection: Connection): number {
  return connection.get<{ rowId: number }>("lastRowId")?.rowId ?? 0;
}

/** A read transaction on a connection of its own: it sees the commit at which it first read, and no later one (PAGE-03). */
export function openSnapshot(file: string, texts: StatementTexts): DriverSnapshot {
  const client = openReadOnly(file);
  try {
    const connection = new Connection(client, texts);
    client.exec("begin");
    assertSchemaUsable(readMarker(client), NEEDS);
    const last = lastRowId(connection);
    let open = true;
    return {
      lastRowId: last,
      cursor: last,
      async page(request) {
        if (!open) throw new DovecoteError("CLOSED", "the snapshot was closed");
        try {
          return page(connection, request);
        } catch (error) {
          throw toDovecoteError(error, "snapshot");
        }
      },
      async close() {
        if (open) client.close();
        open = false;
      },
    };
  } catch (error) {
    client.close();
    throw error;
  }
}
