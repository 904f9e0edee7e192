/** Comparing a database with the schema that this code makes. */
import { type Catalogue, compareCatalogues, judgeSchema, type SchemaReport } from "@dovecote/core";
import Database from "better-sqlite3";
import { readCatalogue } from "./catalogue.ts";
import type { SqliteClient } from "./client.ts";
import { applyMigrations, NEEDS, readMarker } from "./schema.ts";

const TABLES = [
  "dovecote_events",
  "dovecote_deliveries",
  "dovecote_idempotency_keys",
  "dovecote_inbox",
  "dovecote_schema",
] as const;

/** What is expected is read from a fresh database in memory, so that it cannot differ from what `migrate` makes. */
let expected: Catalogue | undefined;

/** Additions of the user's own are never a finding (SCHEMA-06). */
export function checkSchema(client: SqliteClient): SchemaReport {
  const marker = readMarker(client);
  const version = marker?.version ?? null;
  const verdict = judgeSchema(marker, NEEDS);
  if (verdict !== "ok") return { status: verdict, version, findings: [] };
  expected ??= expectedCatalogue();
  const findings = compareCatalogues(expected, readCatalogue(client, TABLES));
  return { status: findings.length === 0 ? "ok" : "changed", version, findings };
}

function expectedCatalogue(): Catalogue {
  const client = new Database(":memory:");
  try {
    applyMigrations(client);
    return readCatalogue(client, TABLES);
  } finally {
    client.close();
  }
}
