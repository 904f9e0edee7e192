/** What is done to the database behind the driver's back, so that nothing has to sleep or to be lucky. */
import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import type { Faults, ProbedDelivery } from "@dovecote/conformance";
import { NOW } from "./probe.ts";

/** Columns of the table by the names that the suite has for them. */
const COLUMNS: Readonly<Record<keyof Omit<ProbedDelivery, "rowId">, string>> = {
  tenant: "tenant",
  state: "state",
  availableAt: "available_at",
  attempts: "attempts",
  forgiven: "forgiven",
  token: "token",
  worker: "worker",
  shared: "shared",
  expiresAt: "expires_at",
  failureCode: "failure_code",
  failureDetail: "failure_detail",
  failedAt: "failed_at",
  deliveredAt: "delivered_at",
  quarantinedAt: "quarantined_at",
  quarantineReason: "quarantine_reason",
};

/** One way to damage each kind of object, and the name that `checkSchema` must then give. */
const DAMAGES = {
  table: ["drop table outbox_deliveries", "outbox_deliveries"],
  column: ["alter table outbox_events rename column subject to topic", "outbox_events.subject"],
  index: ["drop index outbox_pending", "outbox_pending"],
  // SQLite cannot drop a constraint: its text is edited where it is stored.
  constraint: [
    `pragma writable_schema = on;
    update sqlite_schema set sql = replace(sql, 'forgiven between 0 and attempts', 'forgiven >= 0')
    where name = 'outbox_deliveries';
    pragma writable_schema = reset`,
    "outbox_deliveries.forgiven",
  ],
} as const;

/** A row that refers to nothing is noticed at the commit, since its constraint is deferred. */
const REFUSE_COMMITS = `create table refusals (id integer primary key,
    missing integer references refusals (id) deferrable initially deferred);
  ${["insert", "update", "delete"]
    .map(
      (event) => `create trigger refuse_${event} after ${event} on outbox_deliveries
    begin insert into refusals (missing) values (-1); end;`,
    )
    .join("\n")}`;
const ACCEPT_COMMITS = `drop trigger refuse_insert; drop trigger refuse_update; drop trigger refuse_delete;
  drop table refusals`;

/** SQLite's own limit of the pages of a file. */
const MAX_PAGES = 4_294_967_294;

/** `db` observes; `session` are the connections whose storage can be filled up. */
export function faultsOf(db: DatabaseSync, session: readonly DatabaseSync[], file: string): Faults {
  return {
    async expireLeases(rowIds) {
      const expire = db.prepare(`update outbox_deliveries set expires_at = ${NOW} - 1000
        where row_id = ? and state = 'claimed'`);
      for (const rowId of rowIds) expire.run(rowId);
    },
    async overwriteDelivery(rowId, columns) {
      const entries = Object.entries(columns) as [keyof typeof COLUMNS, string | number | boolean | null][];
      const assignments = entries.map(([name]) => `${COLUMNS[name]} = ?`).join(", ");
      const values = entries.map(([name, value]) => encode(name, value));
      db.prepare(`update outbox_deliveries set ${assignments} where row_id = ?`).run(...values, rowId);
    },
    async deleteDelivery(rowId) {
      db.prepare("delete from outbox_deliveries where row_id = ?").run(rowId);
    },
    async corruptData(rowId) {
      db.prepare("update outbox_events set data = x'7b' where row_id = ?").run(rowId);
    },
    // SQLite has one lock: that of the database.
    async holdLock() {
      const holder = new DatabaseSync(file);
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
      return { release: async () => db.exec(ACCEPT_COMMITS) };
    },
    async fillDisk() {
      const limitTo = (pages: unknown): void => {
        for (const each of session) each.exec(`pragma max_page_count = ${pages}`);
      };
      limitTo(db.prepare("pragma page_count").get()?.page_count);
      return { release: async () => limitTo(MAX_PAGES) };
    },
    async severConnections() {
      throw new Error("there is no server that could sever a connection");
    },
    async ageKeys() {
      throw new Error("there are no idempotency keys");
    },
    async silenceListeners() {
      throw new Error("there is no server that a listener could lose");
    },
    async writeSchemaMarker({ version, requires }) {
      db.prepare("update outbox_schema set version = ?, requires = ?").run(version, requires);
    },
    async damageSchema(object) {
      const [sql, name] = DAMAGES[object];
      db.exec(sql);
      return name;
    },
    async addForeignObjects() {
      db.exec(`create table mine (id integer primary key);
        alter table outbox_events add column note text;
        create index mine_by_type on outbox_events (type)`);
    },
  };
}

function encode(column: keyof typeof COLUMNS, value: string | number | boolean | null): SQLInputValue {
  if (column === "token" && typeof value === "string") return Buffer.from(value, "hex");
  return typeof value === "boolean" ? Number(value) : value;
}
