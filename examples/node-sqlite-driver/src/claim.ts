/** Claiming due rows, inside one `BEGIN IMMEDIATE`. */
import { type ClaimedRow, type ClaimRequest, DovecoteError } from "@dovecote/core";
import type { Connection } from "./connection.ts";
import { type EventRow, toEvent } from "./rows.ts";
import type { Scope } from "./statements.ts";

interface PickedRow extends EventRow {
  readonly attempt: number;
  readonly forgiven: number;
  /** null if the row is pending. */
  readonly shared: number | null;
}

/** Whether anything is due in the scope, read without a write lock. */
export function anyDue(connection: Connection, { tenant, stream }: ClaimRequest): boolean {
  const now = connection.now();
  return connection.get(`anyDue.${scopeOf(tenant, stream)}`, { ...named(tenant, stream), now }) !== undefined;
}

export function claim(connection: Connection, request: ClaimRequest): readonly ClaimedRow[] {
  const now = connection.now();
  const rows = pick(connection, request, now);
  if (rows.length === 0) return [];
  const tokens = request.drawTokens(rows.length); // throws before anything was written (CLAIM-10)
  const lease = request.leaseMs * 1000;
  return rows.map((row, index) => {
    const { rowId, tenant } = row;
    const token = tokens[index] ?? new Uint8Array();
    const forgive = row.shared === 1 ? 1 : 0;
    const { worker, shared } = request;
    const parameters = { rowId, token, worker, shared: shared ? 1 : 0, lease, forgive, now };
    if (connection.run("claim", parameters) !== 1) {
      // The row was picked under the same lock: only its token can have stood in the way (CLAIM-09).
      throw new DovecoteError("ENTROPY_UNAVAILABLE", "the source of random bytes repeated a token");
    }
    const counts = { attempt: row.attempt + 1, forgiven: row.forgiven + forgive };
    const reclaimed = row.shared !== null;
    return { rowId, tenant, ...counts, token, reclaimed, expiresAt: now + lease, event: toEvent(row) };
  });
}

/**
 * Expired claims first, then pending rows. Expired ones take at most half of the places, so that rows which kill their
 * workers cannot hold up the others; places that stay free go to further expired ones (CLAIM-07).
 */
function pick(
  connection: Connection,
  { tenant, stream, limit }: ClaimRequest,
  now: number,
): readonly PickedRow[] {
  const scope = scopeOf(tenant, stream);
  const parameters = { ...named(tenant, stream), now, limit };
  const expired = connection.all<PickedRow>(`pickExpired.${scope}`, parameters);
  const pending = connection.all<PickedRow>(`pickPending.${scope}`, parameters);
  const reserved = Math.min(expired.length, Math.max(1, Math.floor(limit / 2)));
  const fromPending = Math.min(pending.length, limit - reserved);
  return [...expired.slice(0, limit - fromPending), ...pending.slice(0, fromPending)];
}

function scopeOf(tenant: string | null, stream: string | null): Scope {
  if (tenant === null) return stream === null ? "all" : "stream";
  return stream === null ? "tenant" : "tenantStream";
}

/** Only the parameters that the scope's statements name. */
function named(tenant: string | null, stream: string | null): Record<string, string> {
  return { ...(tenant !== null && { tenant }), ...(stream !== null && { stream }) };
}
