/** Versions of the schema: applying them, reading the marker, and refusing what this code cannot work with. */
import { DovecoteError, type MigrateReport } from "@dovecote/core";
import type { SqliteClient } from "./client.ts";
import { outbox } from "./migrations/0001-outbox.ts";

const MIGRATIONS = [outbox] as const;

/** The version that this code brings a schema to, and the oldest that it can work with. */
const VERSION = 1;
const NEEDED = 1;

/** What `dovecote_schema` says. `requires` is the oldest code that may still write (SCHEMA-05). */
interface Marker {
  readonly version: number;
  readonly requires: number;
}

const MARKER = "insert into dovecote_schema (id, version, requires) values (1, ?, ?)";

/**
 * The whole schema as SQL text, for those who run migrations with a tool of their own. Idempotent; run it in one
 * transaction, and see that `PRAGMA journal_mode = WAL` is set on the file.
 */
export const schemaSql: string = `${MIGRATIONS.map(({ sql }) => sql.trim()).join("\n\n")}

${MARKER.replace("?, ?", `${VERSION}, ${outbox.requires}`)}
  on conflict (id) do update set version = max(version, excluded.version), requires = max(requires, excluded.requires);
`;

/** The marker, or undefined if there is no schema. */
export function readMarker(client: SqliteClient): Marker | undefined {
  const table = client
    .prepare("select 1 from sqlite_schema where type = 'table' and name = 'dovecote_schema'")
    .get();
  if (table === undefined) return undefined;
  const row = client.prepare("select version, requires from dovecote_schema where id = 1").get();
  if (row === undefined) return undefined;
  const { version, requires } = row as Record<keyof Marker, number | bigint>;
  return { version: Number(version), requires: Number(requires) };
}

export type SchemaVerdict = "ok" | "missing" | "tooOld" | "tooNew";

export function judge(marker: Marker | undefined): SchemaVerdict {
  if (marker === undefined) return "missing";
  if (marker.requires > VERSION) return "tooNew";
  return marker.version < NEEDED ? "tooOld" : "ok";
}

/** @throws `SCHEMA_MISSING`, `SCHEMA_TOO_OLD` or `SCHEMA_TOO_NEW` (SCHEMA-05). */
export function assertUsable(client: SqliteClient): void {
  const marker = readMarker(client);
  switch (judge(marker)) {
    case "ok":
      return;
    case "missing":
      throw new DovecoteError("SCHEMA_MISSING", "the database has no Dovecote schema; call migrate() first");
    case "tooOld": {
      const message = `the schema has version ${marker?.version}, this code needs ${NEEDED}; call migrate() first`;
      throw new DovecoteError("SCHEMA_TOO_OLD", message);
    }
    case "tooNew": {
      const message = `the schema may only be written by code of version ${marker?.requires} or newer; this is ${VERSION}`;
      throw new DovecoteError("SCHEMA_TOO_NEW", message);
    }
  }
}

/** Applies what is missing. Runs inside one `BEGIN IMMEDIATE`, so that N at once apply it once (SCHEMA-03, SCHEMA-04). */
export function applyMigrations(client: SqliteClient): MigrateReport {
  const marker = readMarker(client);
  if (judge(marker) === "tooNew") assertUsable(client);
  const version = marker?.version ?? 0;
  const applied: number[] = [];
  for (const migration of MIGRATIONS) {
    if (migration.version <= version) continue;
    client.exec(migration.sql);
    const sql = `${MARKER} on conflict (id) do update set version = excluded.version, requires = excluded.requires`;
    client.prepare(sql).run(migration.version, migration.requires);
    applied.push(migration.version);
  }
  return { applied, version: Math.max(version, VERSION) };
}
