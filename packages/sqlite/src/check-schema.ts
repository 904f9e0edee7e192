/** Comparing a database with the schema that this code makes. */
import type { SchemaFinding, SchemaReport } from "@dovecote/core";
import Database from "better-sqlite3";
import { type Catalogue, readCatalogue } from "./catalogue.ts";
import type { SqliteClient } from "./client.ts";
import { applyMigrations, judge, readMarker } from "./schema.ts";

const TABLES = ["dovecote_events", "dovecote_deliveries", "dovecote_schema"] as const;

const KINDS = [
  ["table", "tables"],
  ["column", "columns"],
  ["index", "indexes"],
  ["constraint", "constraints"],
] as const satisfies readonly (readonly [SchemaFinding["object"], keyof Catalogue])[];

/** What is expected is read from a fresh database in memory, so that it cannot differ from what `migrate` makes. */
let expected: Catalogue | undefined;

/** Additions of the user's own are never a finding (SCHEMA-06). */
export function checkSchema(client: SqliteClient): SchemaReport {
  const marker = readMarker(client);
  const version = marker?.version ?? null;
  const verdict = judge(marker);
  if (verdict !== "ok") return { status: verdict, version, findings: [] };
  expected ??= expectedCatalogue();
  const found = readCatalogue(client, TABLES);
  const findings: SchemaFinding[] = [];
  for (const [object, kind] of KINDS) {
    for (const [name, wanted] of expected[kind]) {
      const actual = found[kind].get(name);
      if (actual === undefined)
        findings.push({ problem: "missing", object, name, detail: `expected ${wanted}` });
      else if (actual !== wanted) {
        findings.push({ problem: "changed", object, name, detail: `expected ${wanted}, found ${actual}` });
      }
    }
  }
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
