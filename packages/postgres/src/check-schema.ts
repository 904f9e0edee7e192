/** Comparing a database with the schema that this code makes. */
import type { SchemaFinding, SchemaReport } from "@dovecote/core";
import { type Catalogue, readCatalogue } from "./catalogue.ts";
import type { Run } from "./client.ts";
import { EXPECTED } from "./expected-catalogue.ts";
import { judge, readMarker } from "./schema.ts";

/** Additions of the user's own are never a finding (SCHEMA-06). */
export async function checkSchema(run: Run, schema: string, quotedSchema: string): Promise<SchemaReport> {
  const marker = await readMarker(async (text) => (await run(text, []))[0]?.[0], quotedSchema);
  const version = marker?.version ?? null;
  const verdict = judge(marker);
  if (verdict !== "ok") return { status: verdict, version, findings: [] };
  const findings = compare(await readCatalogue(run, schema, quotedSchema));
  return { status: findings.length === 0 ? "ok" : "changed", version, findings };
}

function compare(found: Catalogue): readonly SchemaFinding[] {
  return EXPECTED.flatMap(([object, name, wanted]): readonly SchemaFinding[] => {
    const actual = found[object].get(name);
    if (actual === wanted) return [];
    if (actual === undefined) return [{ problem: "missing", object, name, detail: `expected ${wanted}` }];
    return [{ problem: "changed", object, name, detail: `expected ${wanted}, found ${actual}` }];
  });
}
