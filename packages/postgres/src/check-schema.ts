/** Comparing a database with the schema that this code makes. */
import { type Catalogue, compareCatalogues, judgeSchema, type SchemaReport } from "@dovecote/core";
import { readCatalogue } from "./catalogue.ts";
import type { Run } from "./client.ts";
import { EXPECTED } from "./expected-catalogue.ts";
import { NEEDS, readMarker } from "./schema.ts";

/** Additions of the user's own are never a finding (SCHEMA-06). */
export async function checkSchema(run: Run, schema: string, quotedSchema: string): Promise<SchemaReport> {
  const marker = await readMarker(async (text) => (await run(text, []))[0]?.[0], quotedSchema);
  const version = marker?.version ?? null;
  const verdict = judgeSchema(marker, NEEDS);
  if (verdict !== "ok") return { status: verdict, version, findings: [] };
  const findings = compareCatalogues(expected(), await readCatalogue(run, schema, quotedSchema));
  return { status: findings.length === 0 ? "ok" : "changed", version, findings };
}

function expected(): Catalogue {
  const catalogue = { table: new Map(), column: new Map(), index: new Map(), constraint: new Map() };
  for (const [kind, name, definition] of EXPECTED) catalogue[kind].set(name, definition);
  return catalogue;
}
