import { type AnyDriver, override, sqlMutant } from "@dovecote/conformance";
import type { ClaimedRow, ClaimRequest } from "@dovecote/core";
import type Database from "better-sqlite3";
import { toEventRecord } from "../../src/rows.ts";
import type { SqliteMutant } from "./define.ts";

export const claim: readonly SqliteMutant[] = [
  {
    name: "select-then-update-claim",
    breaks: "CLAIM-03",
    because: /no event may be claimed twice/,
    wrap: selectingThenUpdating,
  },
  sqlMutant(
    "sql-claim-locks-to-find-nothing",
    "CLAIM-04",
    /one of them locked must answer \[\] promptly/,
    "anyDueTenant",
    "select exists",
    "select true or exists",
  ),
  sqlMutant(
    "sql-claim-a-tick-late",
    "CLAIM-05",
    /an event without delay is due at once|must be possible from the tick on/,
    "pickPendingTenant",
    "d.available_at <= :now",
    "d.available_at < :now",
  ),
  sqlMutant(
    "sql-expired-in-row-order",
    "CLAIM-07",
    /must answer in order/,
    "pickExpiredAll",
    "order by d.claim_expires_at, d.event_row_id",
    "order by d.event_row_id",
  ),
  {
    name: "claim-blocks-while-it-waits",
    breaks: "CLAIM-08",
    because: /must not block the event loop/,
    wrap: (driver, client) =>
      override(driver, {
        claim(request) {
          client.pragma("busy_timeout = 200");
          try {
            client.exec("begin immediate; commit");
          } catch {
            // Still locked: the driver goes on waiting in its own way.
          }
          return driver.claim(request);
        },
      }),
  },
  sqlMutant(
    "sql-claim-accepts-the-stored-token",
    "CLAIM-09",
    /a token that repeats the stored one must be refused/,
    "claim",
    "and claim_token is not :token",
    "",
  ),
];

export function selectingThenUpdating(driver: AnyDriver, client: Database.Database): AnyDriver {
  return override(driver, { claim: (request) => selectThenUpdate(client, request) });
}

/** The classic: what is due is read first, and updated later by nothing but its id. */
async function selectThenUpdate(
  client: Database.Database,
  request: ClaimRequest,
): Promise<readonly ClaimedRow[]> {
  const now = client
    .prepare("select cast(round(unixepoch('subsec') * 1000) as integer) * 1000")
    .pluck()
    .get() as number;
  const due = client
    .prepare(
      `select d.attempts, d.forgiven, e.* from dovecote_deliveries d join dovecote_events e on e.row_id = d.event_row_id
      where (d.state = 'pending' and d.available_at <= ?) or (d.state = 'claimed' and d.claim_expires_at <= ?)
      order by d.available_at, d.event_row_id limit ?`,
    )
    .all(now, now, request.limit) as (Parameters<typeof toEventRecord>[0] & {
    attempts: number;
    forgiven: number;
  })[];
  const tokens = request.drawTokens(due.length);
  const update = client.prepare(`update dovecote_deliveries set state = 'claimed', attempts = attempts + 1,
    claim_token = ?, claimed_by = ?, claim_shared = 0, claim_expires_at = ? where event_row_id = ?`);
  return due.map((row, index) => {
    const token = tokens[index] ?? Buffer.alloc(16);
    const expiresAt = now + request.leaseMs * 1000;
    update.run(token, request.worker, expiresAt, row.row_id);
    return {
      rowId: row.row_id,
      tenant: row.tenant_id,
      attempt: row.attempts + 1,
      forgiven: row.forgiven,
      token,
      reclaimed: false,
      expiresAt,
      event: toEventRecord(row),
    };
  });
}
