/** The tables, their versions, and comparing a database with them. */
import { DatabaseSync } from "node:sqlite";
import {
  assertSchemaUsable,
  type Catalogue,
  compareCatalogues,
  judgeSchema,
  type MigrateReport,
  type SchemaMarker,
  type SchemaNeeds,
  type SchemaReport,
} from "@dovecote/core";
import { prepare } from "./client.ts";

export const NEEDS: SchemaNeeds = { version: 1, needed: 1 };

const TABLES = ["outbox_events", "outbox_deliveries", "outbox_schema"] as const;

/**
 * Version 1. A released migration is never edited; later ones only add.
 *
 * - `strict`: a column holds its type alone. `autoincrement`: a row id is never used again (ID-08).
 * - The CHECKs make every invalid combination of state and columns impossible, whoever writes (SCHEMA-07). They compare
 *   `is null` with `is null`, since a CHECK that comes out NULL passes. One line each: that is how `readCatalogue`
 *   finds them.
 * - The indexes are partial, in the order of claims and lists, and end in the rowid implicitly, which breaks ties. One
 *   for each scope that can be claimed, since an index of one scope reads the backlog of others (CLAIM-06, CLAIM-07).
 */
const VERSION_1 = `
create table outbox_events (
  row_id integer primary key autoincrement,
  tenant text not null,
  stream text not null,
  id text not null,
  source text not null,
  type text not null,
  subject text,
  time text,
  datacontenttype text,
  dataschema text,
  partitionkey text,
  extensions text,
  data_kind text not null,
  data blob,
  enqueued_at integer not null,
  constraint data_kind check (data_kind in ('absent', 'json', 'text', 'binary')),
  constraint data check ((data_kind = 'absent') = (data is null))
) strict;
create unique index outbox_events_identity on outbox_events (tenant, source, id);
create index outbox_events_tenant on outbox_events (tenant);

create table outbox_deliveries (
  row_id integer primary key,
  tenant text not null,
  stream text not null,
  state text not null,
  available_at integer not null,
  attempts integer not null,
  forgiven integer not null,
  token blob,
  worker text,
  shared integer,
  expires_at integer,
  failure_code text,
  failure_detail text,
  failed_at integer,
  delivered_at integer,
  quarantined_at integer,
  quarantine_reason text,
  constraint event foreign key (row_id) references outbox_events (row_id),
  constraint state check (state in ('pending', 'claimed', 'delivered', 'quarantined')),
  constraint attempts check (attempts between 0 and 2147483647),
  constraint forgiven check (forgiven between 0 and attempts),
  constraint token check ((state = 'claimed') = (token is not null) and (token is null or length(token) = 16)),
  constraint worker check ((state = 'claimed') = (worker is not null)),
  constraint shared check ((state = 'claimed') = (shared is not null) and (shared is null or shared in (0, 1))),
  constraint expiry check ((state = 'claimed') = (expires_at is not null)),
  constraint delivered check ((state = 'delivered') = (delivered_at is not null)),
  constraint quarantined check ((state = 'quarantined') = (quarantined_at is not null)),
  constraint reason check ((state = 'quarantined') = (quarantine_reason is not null)),
  constraint failure check ((failure_code is null) = (failure_detail is null)),
  constraint failed_at check ((failure_code is null) = (failed_at is null))
) strict;
create index outbox_pending on outbox_deliveries (available_at) where state = 'pending';
create index outbox_pending_tenant on outbox_deliveries (tenant, available_at) where state = 'pending';
create index outbox_pending_stream on outbox_deliveries (stream, available_at) where state = 'pending';
create index outbox_claimed on outbox_deliveries (expires_at) where state = 'claimed';
create index outbox_claimed_tenant on outbox_deliveries (tenant, expires_at) where state = 'claimed';
create index outbox_delivered on outbox_deliveries (delivered_at) where state = 'delivered';
create index outbox_delivered_tenant on outbox_deliveries (tenant, delivered_at) where state = 'delivered';
create index outbox_quarantined on outbox_deliveries (quarantined_at) where state = 'quarantined';
create index outbox_quarantined_tenant on outbox_deliveries (tenant, quarantined_at) where state = 'quarantined';
create index outbox_exhausted on outbox_deliveries (tenant) where attempts = 2147483647;

create table outbox_schema (
  id integer primary key,
  version integer not null,
  requires integer not null,
  constraint single check (id = 1)
) strict;
`;

const MIGRATIONS = [{ version: 1, requires: 1, sql: VERSION_1 }] as const;

/** The marker, or undefined if there is no schema. */
export function readMarker(client: DatabaseSync): SchemaMarker | undefined {
  const table = "select name from sqlite_schema where type = 'table' and name = 'outbox_schema'";
  if (rows(client, table).length === 0) return undefined;
  const [row] = rows(client, "select version, requires from outbox_schema");
  return row === undefined ? undefined : { version: Number(row.version), requires: Number(row.requires) };
}

/**
 * Applies what is missing. Runs inside one `BEGIN IMMEDIATE`: of N at once the others wait and find nothing left, and
 * whoever is killed in the middle leaves nothing (SCHEMA-03, SCHEMA-04).
 */
export function applyMigrations(client: DatabaseSync): MigrateReport {
  const marker = readMarker(client);
  if (judgeSchema(marker, NEEDS) === "tooNew") assertSchemaUsable(marker, NEEDS);
  const missing = MIGRATIONS.filter(({ version }) => version > (marker?.version ?? 0));
  for (const { version, requires, sql } of missing) {
    client.exec(sql);
    client.prepare("insert or replace into outbox_schema values (1, ?, ?)").run(version, requires);
  }
  const applied = missing.map(({ version }) => version);
  return { applied, version: Math.max(marker?.version ?? 0, NEEDS.version) };
}

/** Writes nothing. What is expected is read from a fresh database, so that it cannot differ from what `migrate` makes. */
export function checkSchema(client: DatabaseSync): SchemaReport {
  const marker = readMarker(client);
  const version = marker?.version ?? null;
  const verdict = judgeSchema(marker, NEEDS);
  if (verdict !== "ok") return { status: verdict, version, findings: [] };
  const fresh = new DatabaseSync(":memory:");
  try {
    applyMigrations(fresh);
    const findings = compareCatalogues(readCatalogue(fresh), readCatalogue(client));
    return { status: findings.length === 0 ? "ok" : "changed", version, findings };
  } finally {
    fresh.close();
  }
}

/** Our tables as plain data, by the texts of their definitions: the same object in other words counts as changed. */
function readCatalogue(client: DatabaseSync): Catalogue {
  const found = {
    table: new Map<string, string>(),
    column: new Map<string, string>(),
    index: new Map<string, string>(),
    constraint: new Map<string, string>(),
  };
  for (const table of TABLES) {
    for (const { type, name, sql } of rows(client, "select * from sqlite_schema where tbl_name = ?", table)) {
      const text = String(sql ?? "").toLowerCase();
      if (type === "index") found.index.set(String(name), text);
      if (type !== "table") continue;
      const traits = ["strict", "autoincrement"].filter((word) => new RegExp(`\\b${word}\\b`).test(text));
      found.table.set(table, `a table ${traits.join(", ")}`);
      for (const [, constraint, definition] of text.matchAll(/^\s*constraint (\w+) (.+?),?$/gm))
        found.constraint.set(`${table}.${constraint}`, String(definition));
    }
    for (const column of rows(client, "select * from pragma_table_info(?)", table)) {
      const { name, type, notnull, dflt_value, pk } = column;
      const text = `${type}${notnull === 1 ? " not null" : ""}${pk === 1 ? " primary key" : ""}`;
      found.column.set(`${table}.${name}`, dflt_value === null ? text : `${text} default ${dflt_value}`);
    }
  }
  return found;
}

function rows(client: DatabaseSync, sql: string, ...parameters: string[]): Record<string, unknown>[] {
  return prepare(client, sql).all(...parameters);
}
