/** Versions of the schema: applying them, reading the marker, and refusing what this code cannot work with. */
import {
  assertSchemaUsable,
  judgeSchema,
  type MigrateReport,
  type SchemaMarker,
  type SchemaNeeds,
} from "@dovecote/core";
import type { SqliteClient } from "./client.ts";
import { outbox } from "./migrations/0001-outbox.ts";
import { idempotency } from "./migrations/0002-idempotency.ts";

const MIGRATIONS = [outbox, idempotency] as const;

export const NEEDS: SchemaNeeds = { version: 2, needed: 2 };

const MARKER = "insert into dovecote_schema (id, version, requires) values (1, ?, ?)";

/**
 * The whole schema as SQL text, for those who run migrations with a tool of their own. Idempotent; run it in one
 * transaction, and see that `PRAGMA journal_mode = WAL` is set on the file.
 */
export const schemaSql: string = `${MIGRATIONS.map(({ sql }) => sql.trim()).join("\n\n")}

${MARKER.replace("?, ?", `${NEEDS.version}, ${outbox.requires}`)}
  on conflict (id) do update set version = max(version, excluded.version), requires = max(requires, excluded.requires);
`;

/** The marker, or undefined if there is no schema. */
export function readMarker(client: SqliteClient): SchemaMarker | undefined {
  const table = client
    .prepare("select 1 from sqlite_schema where type = 'table' and name = 'dovecote_schema'")
    .get();
  if (table === undefined) return undefined;
  const row = client.prepare("select version, requires from dovecote_schema where id = 1").get();
  if (row === undefined) return undefined;
  const { version, requires } = row as Record<keyof SchemaMarker, number | bigint>;
  return { version: Number(version), requires: Number(requires) };
}

/** Applies what is missing. Runs inside one `BEGIN IMMEDIATE`, so that N at once apply it once (SCHEMA-03, SCHEMA-04). */
export function applyMigrations(client: SqliteClient): MigrateReport {
  const marker = readMarker(client);
  if (judgeSchema(marker, NEEDS) === "tooNew") assertSchemaUsable(marker, NEEDS);
  const version = marker?.version ?? 0;
  const applied: number[] = [];
  for (const migration of MIGRATIONS) {
    if (migration.version <= version) continue;
    client.exec(migration.sql);
    const sql = `${MARKER} on conflict (id) do update set version = excluded.version, requires = excluded.requires`;
    client.prepare(sql).run(migration.version, migration.requires);
    applied.push(migration.version);
  }
  return { applied, version: Math.max(version, NEEDS.version) };
}
