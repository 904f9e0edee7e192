/** What drivers with a schema share: judging its marker, and comparing it with what the code makes. */
import type { SchemaFinding } from "./driver.ts";
import { DovecoteError } from "./errors.ts";

/** What a store says of its schema. `requires` is the oldest code that may still write (SCHEMA-05). */
export interface SchemaMarker {
  readonly version: number;
  readonly requires: number;
}

/** The version that some code brings a schema to, and the oldest that it can work with. */
export interface SchemaNeeds {
  readonly version: number;
  readonly needed: number;
}

export type SchemaVerdict = "ok" | "missing" | "tooOld" | "tooNew";

export function judgeSchema(
  marker: SchemaMarker | undefined,
  { version, needed }: SchemaNeeds,
): SchemaVerdict {
  if (marker === undefined) return "missing";
  if (marker.requires > version) return "tooNew";
  return marker.version < needed ? "tooOld" : "ok";
}

/** @throws `SCHEMA_MISSING`, `SCHEMA_TOO_OLD` or `SCHEMA_TOO_NEW` (SCHEMA-05). */
export function assertSchemaUsable(marker: SchemaMarker | undefined, needs: SchemaNeeds): void {
  switch (judgeSchema(marker, needs)) {
    case "ok":
      return;
    case "missing":
      throw new DovecoteError("SCHEMA_MISSING", "there are no Dovecote tables; call migrate() first");
    case "tooOld": {
      const message = `the schema has version ${marker?.version}, this code needs ${needs.needed}; call migrate() first`;
      throw new DovecoteError("SCHEMA_TOO_OLD", message);
    }
    case "tooNew": {
      const message = `the schema may only be written by code of version ${marker?.requires} or newer; this is ${needs.version}`;
      throw new DovecoteError("SCHEMA_TOO_NEW", message);
    }
  }
}

/** The objects of a schema by kind and name, each with a text that is equal exactly if the object is. */
export type Catalogue = Readonly<Record<SchemaFinding["object"], ReadonlyMap<string, string>>>;

/** What is missing or changed. Additions are never a finding (SCHEMA-06). */
export function compareCatalogues(expected: Catalogue, found: Catalogue): readonly SchemaFinding[] {
  const findings: SchemaFinding[] = [];
  for (const object of ["table", "column", "index", "constraint"] as const) {
    for (const [name, wanted] of expected[object]) {
      const actual = found[object].get(name);
      if (actual === wanted) continue;
      const detail = actual === undefined ? `expected ${wanted}` : `expected ${wanted}, found ${actual}`;
      findings.push({ problem: actual === undefined ? "missing" : "changed", object, name, detail });
    }
  }
  return findings;
}
