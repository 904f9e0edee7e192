/** What is done to the database behind the driver's back. */
import type { Faults, ProbedDelivery } from "@dovecote/conformance";
import Database from "better-sqlite3";

const COLUMNS: Readonly<Record<keyof Omit<ProbedDelivery, "rowId">, string>> = {
  tenant: "tenant_id",
  state: "state",
  availableAt: "available_at",
  attempts: "attempts",
  forgiven: "forgiven",
  token: "claim_token",
  worker: "claimed_by",
  shared: "claim_shared",
  expiresAt: "claim_expires_at",
  failureCode: "last_failure_code",
  failureDetail: "last_failure_detail",
  failedAt: "last_failed_at",
  deliveredAt: "delivered_at",
  quarantinedAt: "quarantined_at",
  quarantineReason: "quarantine_reason",
};

/** One statement each that damages the schema, and what `checkSchema` must call the object. */
const DAMAGES = {
  table: { sql: "drop table dovecote_deliveries", name: "dovecote_deliveries" },
  column: {
    sql: "alter table dovecote_events rename column subject to topic",
    name: "dovecote_events.subject",
  },
  index: { sql: "drop index dovecote_deliveries_pending", name: "dovecote_deliveries_pending" },
  // SQLite cannot drop a constraint: its text is edited where it is stored.
  constraint: {
    sql: `pragma writable_schema = on;
      update sqlite_schema set sql = replace(sql, 'forgiven between 0 and attempts', 'forgiven >= 0')
      where name = 'dovecote_deliveries';
      pragma writable_schema = reset`,
    name: "dovecote_deliveries.dovecote_deliveries_forgiven",
  },
} as const;

/**
 * A row that refers to nothing is noticed at the commit, since its constraint is deferred. Foreign keys are enforced on
 * the connections of better-sqlite3 unless they are switched off.
 */
const REFUSE_COMMITS = `create table refusals (id integer primary key,
    missing integer references refusals (id) deferrable initially deferred);
  ${["insert", "update", "delete"]
    .map(
      (event) => `create trigger refuse_${event} after ${event} on dovecote_deliveries
    begin insert into refusals (missing) values (-1); end;`,
    )
    .join("\n")}`;

/** SQLite's own limit of the pages of a file: what does not fit is refused as on a full disk. */
const MAX_PAGES = 4_294_967_294;

/** `client` is the connection of the session, `db` another one to its file. */
export function faultsOf(db: Database.Database, client: Database.Database, file: string): Faults {
  return {
    async ageKeys(ms) {
      db.prepare(
        `update dovecote_idempotency_keys set claim_expires_at = claim_expires_at - :micros,
        acquired_at = acquired_at - :micros, completed_at = completed_at - :micros, sweep_at = sweep_at - :micros`,
      ).run({ micros: ms * 1000 });
      db.prepare("update dovecote_inbox set seen_at = seen_at - :micros, sweep_at = sweep_at - :micros").run({
        micros: ms * 1000,
      });
    },
    async expireLeases(rowIds) {
      const expire = db.prepare(`update dovecote_deliveries
        set claim_expires_at = cast(round(unixepoch('subsec') * 1000) as integer) * 1000 - 1000
        where event_row_id = ? and state = 'claimed'`);
      for (const rowId of rowIds) expire.run(rowId);
    },
    async overwriteDelivery(rowId, columns) {
      const entries = Object.entries(columns) as [keyof typeof COLUMNS, unknown][];
      const assignments = entries.map(([key]) => `${COLUMNS[key]} = ?`).join(", ");
      const values = entries.map(([key, value]) => encode(key, value));
      db.prepare(`update dovecote_deliveries set ${assignments} where event_row_id = ?`).run(
        ...values,
        rowId,
      );
    },
    async deleteDelivery(rowId) {
      db.prepare("delete from dovecote_deliveries where event_row_id = ?").run(rowId);
    },
    async corruptData(rowId) {
      db.prepare("update dovecote_events set data = x'7b' where row_id = ?").run(rowId);
    },
    // SQLite has one lock: that of the database.
    async holdLock() {
      const holder = new Database(file);
      holder.exec("begin immediate");
      return {
        async release() {
          holder.exec("rollback");
          holder.close();
        },
      };
    },
    async failCommits() {
      db.exec(REFUSE_COMMITS);
      return {
        async release() {
          db.exec(`drop trigger refuse_insert; drop trigger refuse_update; drop trigger refuse_delete;
            drop table refusals`);
        },
      };
    },
    async fillDisk() {
      const pages = client.pragma("page_count", { simple: true });
      client.pragma(`max_page_count = ${pages}`);
      return {
        async release() {
          client.pragma(`max_page_count = ${MAX_PAGES}`);
        },
      };
    },
    async severConnections() {
      throw new Error("SQLite has no server that could sever a connection");
    },
    async silenceListeners() {
      throw new Error("SQLite has no server that a listener could lose");
    },
    async writeSchemaMarker({ version, requires }) {
      db.prepare("update dovecote_schema set version = ?, requires = ?").run(version, requires);
    },
    async damageSchema(object) {
      const damage = DAMAGES[object];
      db.unsafeMode(true);
      db.exec(damage.sql);
      db.unsafeMode(false);
      return damage.name;
    },
    async addForeignObjects() {
      db.exec(`create table mine (id integer primary key);
        alter table dovecote_events add column note text;
        create index mine_by_type on dovecote_events (event_type)`);
    },
  };
}

function encode(column: keyof typeof COLUMNS, value: unknown): unknown {
  if (column === "token" && typeof value === "string") return Buffer.from(value, "hex");
  return typeof value === "boolean" ? Number(value) : value;
}
