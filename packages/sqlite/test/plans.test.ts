import Database from "better-sqlite3";
import { describe, expect, it, onTestFinished } from "vitest";
import { schemaSql } from "../src/index.ts";
import { STATEMENTS, type StatementName } from "../src/statements.ts";

const touching = (tables: RegExp): readonly StatementName[] =>
  (Object.keys(STATEMENTS) as StatementName[]).filter((name) => tables.test(STATEMENTS[name]));
const TOUCHING = touching(/dovecote_deliveries/);
const TOUCHING_KEYS = touching(/dovecote_(idempotency_keys|inbox)/);

/** These count everything that a partial index holds, up to a cap. Every other statement searches. */
const READS_WHOLE_INDEX: Partial<Record<StatementName, string>> = {
  countQuarantinedAll: "dovecote_deliveries_quarantined",
  countExhaustedAll: "dovecote_deliveries_exhausted",
};

const INDEXES: Readonly<Record<string, readonly string[]>> = {
  dovecote_deliveries: [
    "dovecote_deliveries_pending",
    "dovecote_deliveries_pending_tenant",
    "dovecote_deliveries_pending_stream",
    "dovecote_deliveries_claimed",
    "dovecote_deliveries_claimed_tenant",
    "dovecote_deliveries_quarantined",
    "dovecote_deliveries_delivered",
    "dovecote_deliveries_exhausted",
  ],
  dovecote_idempotency_keys: [
    "sqlite_autoindex_dovecote_idempotency_keys_1",
    "dovecote_idempotency_keys_sweep",
    "dovecote_idempotency_keys_stuck",
    "dovecote_idempotency_keys_principal",
  ],
  dovecote_inbox: ["sqlite_autoindex_dovecote_inbox_1", "dovecote_inbox_sweep"],
};

function fill(db: Database.Database, state: string): void {
  db.exec(`with recursive n (i) as (select 1 union all select i + 1 from n where i < 2000)
    insert into dovecote_events (tenant_id, stream, specversion, event_id, source, event_type, data_kind, enqueued_at)
    select 'tenant', 'orders', '1.0', i, '/shop', 'test', 'absent', 1 from n`);
  const columns = {
    pending: "null, null, null, null, null, null, null",
    claimed: "x'000102030405060708090a0b0c0d0e0f', 'w', 0, 1, null, null, null",
    delivered: "null, null, null, null, 1, null, null",
    quarantined: "null, null, null, null, null, 1, 'r'",
  }[state];
  db.exec(`insert into dovecote_deliveries (event_row_id, tenant_id, stream, state, available_at, attempts, forgiven,
    claim_token, claimed_by, claim_shared, claim_expires_at, delivered_at, quarantined_at, quarantine_reason)
    select row_id, tenant_id, stream, '${state}', 1, 0, 0, ${columns} from dovecote_events`);
  fillKeys(db, state === "delivered");
}

/** All of one tenant's, of 20 principals. */
function fillKeys(db: Database.Database, isDone: boolean): void {
  const columns = isDone ? "'completed', null, null, 1, 'r'" : "'claimed', randomblob(16), 1, null, null";
  db.exec(`with recursive n (i) as (select 1 union all select i + 1 from n where i < 2000)
    insert into dovecote_idempotency_keys (scope_digest, key_digest, tenant_id, principal_digest, fingerprint_algorithm,
      fingerprint, takeover, attempts, acquired_at, retention_ms, tombstone_ms, sweep_at, state, claim_token, claim_expires_at,
      completed_at, unreplayable_reason)
    select zeroblob(32), randomblob(32), 'tenant', cast(i % 20 as blob), 'json-1', zeroblob(32), 'rerun', 1, 1, 1, 1, 1, ${columns} from n;
    insert into dovecote_inbox (event_digest, tenant_id, consumer, seen_at, sweep_at)
    select key_digest, tenant_id, 'consumer', 1, 1 from dovecote_idempotency_keys`);
}

/** Statistics as they may be found: none, of another time, or plainly wrong. */
const STATISTICS: readonly (readonly [string, (db: Database.Database) => void])[] = [
  ["no statistics", () => {}],
  ["statistics of empty tables", (db) => db.exec("analyze")],
  ...["pending", "claimed", "delivered", "quarantined"].map(
    (state) =>
      [
        `statistics of a time when everything was ${state}`,
        (db: Database.Database) => {
          fill(db, state);
          db.exec(`analyze; delete from dovecote_deliveries; delete from dovecote_events;
            delete from dovecote_idempotency_keys; delete from dovecote_inbox`);
        },
      ] as const,
  ),
  ...Object.values(INDEXES)
    .flat()
    .map(
      (favoured) =>
        [
          `statistics by which only the index ${favoured} is any good`,
          (db: Database.Database) => {
            db.exec("analyze; delete from sqlite_stat1");
            const insert = db.prepare("insert into sqlite_stat1 (tbl, idx, stat) values (?, ?, ?)");
            for (const [table, indexes] of Object.entries(INDEXES)) {
              for (const name of indexes) {
                const stat = name === favoured ? "1000000 1 1" : "1000000 1000000 1000000";
                insert.run(table, name, stat);
              }
            }
            insert.run("dovecote_events", "dovecote_events_identity", "10 10 10 10");
            insert.run("dovecote_events", "dovecote_events_tenant", "10 10");
          },
        ] as const,
    ),
  [
    "statistics of a tiny table",
    (db) =>
      db.exec(`analyze; delete from sqlite_stat1;
        insert into sqlite_stat1 (tbl, idx, stat) values ('dovecote_deliveries', null, '1'), ('dovecote_events', null, '1'),
          ('dovecote_idempotency_keys', null, '1'), ('dovecote_inbox', null, '1')`),
  ],
];

describe("CLAIM-01: no statement scans the deliveries, or sorts them", () => {
  it.each(STATISTICS)("with %s", (_what, prepare) => {
    const db = planned(prepare);
    const faults = TOUCHING.flatMap((name) =>
      plan(db, STATEMENTS[name])
        .filter((step) => isFault(step, READS_WHOLE_INDEX[name]))
        .map((step) => `${name}: ${step}`),
    );
    expect(faults).toEqual([]);
  });
});

const KEYS = "dovecote_idempotency_keys";
const BY_KEY = `SEARCH ${KEYS} USING INDEX sqlite_autoindex_${KEYS}_1 (scope_digest=? AND key_digest=?)`;

/** How each statement of keys and of the inbox finds its rows; an insert looks for nothing. */
const SEARCHES: Partial<Record<StatementName, readonly string[]>> = {
  keyPut: [],
  nextTenantClaimed: [`SEARCH ${KEYS} USING COVERING INDEX ${KEYS}_stuck (tenant_id>?)`],
  keysStuck: [`SEARCH ${KEYS} USING INDEX ${KEYS}_stuck (tenant_id=? AND claim_expires_at<?)`],
  keysSweep: [
    `SEARCH ${KEYS} USING INTEGER PRIMARY KEY (rowid=?)`,
    `SEARCH ${KEYS} USING INDEX ${KEYS}_sweep (sweep_at>? AND sweep_at<?)`,
  ],
  keysForget: [
    `SEARCH ${KEYS} USING INTEGER PRIMARY KEY (rowid=?)`,
    `SEARCH ${KEYS} USING INDEX ${KEYS}_principal (principal_digest=?)`,
  ],
  inboxMark: [],
  inboxSweep: [
    "SEARCH dovecote_inbox USING INTEGER PRIMARY KEY (rowid=?)",
    "SEARCH dovecote_inbox USING INDEX dovecote_inbox_sweep (sweep_at<?)",
  ],
};

describe("every statement of keys and of the inbox searches the one index that is meant for it", () => {
  it.each(STATISTICS)("with %s", (_what, prepare) => {
    const db = planned(prepare);
    for (const name of TOUCHING_KEYS) {
      const steps = plan(db, STATEMENTS[name]).filter((step) => !/^LIST SUBQUERY/.test(step));
      expect([name, ...steps]).toEqual([name, ...(SEARCHES[name] ?? [BY_KEY])]);
    }
  });

  it("there are many of them", () => {
    expect(TOUCHING_KEYS.length).toBeGreaterThan(14);
  });
});

/** An event may be found by a scan in the order of row ids, from a cursor on: a page is one. */
function isFault(step: string, wholeIndex: string | undefined): boolean {
  if (/TEMP B-TREE|AUTOMATIC/.test(step)) return true;
  return (
    /^SCAN (d|dovecote_deliveries)\b/.test(step) && !(wholeIndex !== undefined && step.endsWith(wholeIndex))
  );
}

describe("plans", () => {
  it("cover every statement that touches deliveries", () => {
    expect(TOUCHING.length).toBeGreaterThan(45);
  });

  it("notice a scan and a sort", () => {
    const db = planned(() => {});
    const sorted = plan(
      db,
      "select * from dovecote_deliveries d where attempts > :attempt order by forgiven",
    );
    expect(sorted.filter((step) => isFault(step, undefined))).toEqual([
      "SCAN d",
      "USE TEMP B-TREE FOR ORDER BY",
    ]);
  });

  it("those that read a whole index are bounded by a cap", () => {
    for (const name of Object.keys(READS_WHOLE_INDEX)) {
      expect(STATEMENTS[name as StatementName]).toContain("limit :cap");
    }
  });

  it("name an index: one that is missing is an error instead of a slow query", () => {
    const db = planned((made) => made.exec("drop index dovecote_deliveries_pending"));
    expect(() => db.prepare(STATEMENTS.pickPendingAll)).toThrow("no such index: dovecote_deliveries_pending");
  });
});

/** Statistics are read when a connection reads the schema: from a file that was closed since. */
function planned(prepare: (db: Database.Database) => void): Database.Database {
  const made = new Database(":memory:");
  made.exec(schemaSql);
  prepare(made);
  const db = new Database(made.serialize());
  made.close();
  onTestFinished(() => void db.close());
  return db;
}

function plan(db: Database.Database, statement: string): readonly string[] {
  const names = [...statement.matchAll(/:(\w+)/g)].map(([, name]) => String(name));
  const parameters = Object.fromEntries(names.map((name) => [name, 1]));
  const rows = db.prepare(`explain query plan ${statement}`).all(parameters) as { readonly detail: string }[];
  return rows.map(({ detail }) => detail);
}
