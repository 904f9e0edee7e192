/** Broken forms of the SQLite driver: each breaks one thing, and the case named for it has to notice. */
import { type AnyDriver, type Mutant, override, type SqlMutant, sqlMutant } from "@dovecote/conformance";
import type { ClaimedRow, ClaimRequest } from "@dovecote/core";
import type Database from "better-sqlite3";
import { toEventRecord } from "../src/rows.ts";
import type { StatementName } from "../src/statements.ts";

/** Replaces a method by one that uses the connection in a wrong way. */
export interface DriverMutant extends Mutant {
  wrap(driver: AnyDriver, client: Database.Database): AnyDriver;
}

const TOKEN = "and claim_token = :token ";
const EXPIRY = "and claim_expires_at > :now\n";

export const sqlMutants: readonly SqlMutant<StatementName>[] = [
  sqlMutant("sql-ack-without-token", "FENCE-01", /stale/, "ack", TOKEN, ""),
  sqlMutant("sql-retry-without-token", "FENCE-02", /stale/, "retry", TOKEN, ""),
  sqlMutant("sql-release-without-token", "FENCE-02", /stale/, "release", TOKEN, ""),
  sqlMutant("sql-quarantine-without-token", "FENCE-02", /stale/, "quarantine", TOKEN, ""),
  sqlMutant("sql-renew-without-token", "LEASE-04", /renew/, "renew", TOKEN, ""),
  sqlMutant("sql-ack-without-expiry", "FENCE-05", /expired/, "ack", EXPIRY, ""),
  sqlMutant("sql-renew-without-expiry", "LEASE-06", /expired/, "renew", EXPIRY, ""),
  sqlMutant(
    "sql-redrive-keeps-budget",
    "SETTLE-05",
    /forgiven|budget/,
    "redrive",
    "forgiven = attempts,",
    "",
  ),
  sqlMutant(
    "sql-redrive-any-state",
    "SETTLE-05",
    /quarantined|redrive/,
    "redrive",
    "and state = 'quarantined'",
    "",
  ),
  sqlMutant("sql-attempt-not-counted", "FENCE-04", /attempt/, "claim", "attempts = attempts + 1, ", ""),
  sqlMutant(
    "sql-renew-from-old-expiry",
    "LEASE-03",
    /renew|expiry/,
    "renew",
    ":now + :lease",
    "claim_expires_at + :lease",
  ),
  sqlMutant(
    "sql-ack-any-tenant",
    "TENANT-01",
    /tenant/,
    "ack",
    "and (:tenant is null or tenant_id = :tenant)",
    "",
  ),
];

export const driverMutants: readonly DriverMutant[] = [
  {
    name: "select-then-update-claim",
    breaks: "CLAIM-03",
    because: /twice|two|once/,
    wrap: (driver, client) => override(driver, { claim: (request) => selectThenUpdate(client, request) }),
  },
  {
    name: "enqueue-commits-by-itself",
    breaks: "TX-02",
    because: /rollback|rolled back/,
    wrap: (driver, client) =>
      override(driver, {
        enqueue(tx, tenant, rows) {
          const outcomes = driver.enqueue(tx, tenant, rows);
          client.exec("commit; begin immediate");
          return outcomes;
        },
      }),
  },
];

export const mutants: readonly Mutant[] = [...sqlMutants, ...driverMutants].map(
  ({ name, breaks, because }) => ({
    name,
    breaks,
    because,
  }),
);

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
