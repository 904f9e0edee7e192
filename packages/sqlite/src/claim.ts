/** Claiming due rows, inside one `BEGIN IMMEDIATE`. */
import { type ClaimedRow, type ClaimRequest, DovecoteError } from "@dovecote/core";
import type { Connection } from "./connection.ts";
import { type EventColumns, safeRowId, toEventRecord } from "./rows.ts";
import { type ScopeName, type StatementName, scopeName } from "./statements.ts";

interface Picked extends EventColumns {
  readonly attempts: number;
  readonly forgiven: number;
  readonly claim_shared: number | null;
}

interface ScopeStatements {
  readonly anyDue: StatementName;
  readonly pickPending: StatementName;
  readonly pickExpired: StatementName;
}

const STATEMENTS_OF: Readonly<Record<ScopeName, ScopeStatements>> = {
  all: { anyDue: "anyDueAll", pickPending: "pickPendingAll", pickExpired: "pickExpiredAll" },
  stream: { anyDue: "anyDueStream", pickPending: "pickPendingStream", pickExpired: "pickExpiredStream" },
  tenant: { anyDue: "anyDueTenant", pickPending: "pickPendingTenant", pickExpired: "pickExpiredTenant" },
  tenantStream: {
    anyDue: "anyDueTenantStream",
    pickPending: "pickPendingTenantStream",
    pickExpired: "pickExpiredTenantStream",
  },
};

type Scope = Pick<ClaimRequest, "tenant" | "stream">;

/** Whether anything is due in the scope, read without a write lock. */
export function anyDue(connection: Connection, { tenant, stream }: Scope): boolean {
  const statement = connection.statement(STATEMENTS_OF[scopeName(tenant, stream)].anyDue);
  const { due } = statement.get({ ...named({ tenant, stream }), now: connection.now() }) as { due: number };
  return due === 1;
}

export function claim(connection: Connection, request: ClaimRequest): readonly ClaimedRow[] {
  const now = connection.now();
  const rows = pick(connection, request, now);
  if (rows.length === 0) return [];
  const tokens = request.drawTokens(rows.length);
  const { worker } = request;
  const shared = request.shared ? 1 : 0;
  const lease = request.leaseMs * 1000;
  const statement = connection.statement("claim");
  return rows.map((row, index) => {
    const token = tokens[index];
    const rowId = safeRowId(row.row_id);
    const reclaimed = row.claim_shared !== null;
    const forgive = row.claim_shared === 1 ? 1 : 0;
    const { changes } = statement.run({ rowId, token, worker, shared, lease, forgive, now });
    if (token === undefined || changes !== 1) {
      // The row was picked under the same lock, so only its token can have stood in the way (CLAIM-09).
      throw new DovecoteError(
        "ENTROPY_UNAVAILABLE",
        "the source of random bytes repeated a token; nothing was claimed",
      );
    }
    return {
      rowId,
      tenant: row.tenant_id,
      attempt: row.attempts + 1,
      forgiven: row.forgiven + forgive,
      token,
      reclaimed,
      expiresAt: now + lease,
      event: toEventRecord(row),
    };
  });
}

/**
 * Expired claims first, then pending rows. Expired ones take at most half of the places, so that rows which kill
 * their workers cannot hold up the others; places that stay free go to further expired ones (CLAIM-07).
 */
function pick(connection: Connection, request: ClaimRequest, now: number): readonly Picked[] {
  const { limit } = request;
  const names = STATEMENTS_OF[scopeName(request.tenant, request.stream)];
  const parameters = { ...named(request), now, limit };
  const expired = connection.statement(names.pickExpired).all(parameters) as Picked[];
  const pending = connection.statement(names.pickPending).all(parameters) as Picked[];
  const reserved = Math.min(expired.length, Math.max(1, Math.floor(limit / 2)));
  const fromPending = Math.min(pending.length, limit - reserved);
  return [...expired.slice(0, limit - fromPending), ...pending.slice(0, fromPending)];
}

/** Only the parameters that the scope's statements name. */
function named({ tenant, stream }: Scope): Record<string, string> {
  return { ...(tenant !== null && { tenant }), ...(stream !== null && { stream }) };
}
