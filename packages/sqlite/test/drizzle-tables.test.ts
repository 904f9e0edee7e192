import Database from "better-sqlite3";
import { generateSQLiteDrizzleJson, generateSQLiteMigration } from "drizzle-kit/api";
import { describe, expect, it } from "vitest";
import * as tables from "../src/drizzle.ts";
import { sqlite } from "../src/index.ts";

/** What drizzle-kit makes of our tables, with the one word that it cannot say. */
async function generatedMigration(): Promise<string> {
  const empty = await generateSQLiteDrizzleJson({});
  const statements = await generateSQLiteMigration(empty, await generateSQLiteDrizzleJson({ ...tables }));
  return statements.map((statement) => statement.replace(/\n\);\s*$/, "\n) strict;")).join("\n");
}

describe("drizzle tables", () => {
  it("SCHEMA-06: a schema that drizzle-kit generates from them is the schema that migrate() makes", async () => {
    const db = new Database(":memory:");
    db.exec(await generatedMigration());
    const dovecote = sqlite(db);
    expect(await dovecote.checkSchema()).toMatchObject({ status: "missing" });
    await dovecote.migrate();
    expect(await dovecote.checkSchema()).toEqual({ status: "ok", version: 2, findings: [] });
  });

  it("SCHEMA-06: a table that is not STRICT is reported", async () => {
    const db = new Database(":memory:");
    db.exec((await generatedMigration()).replaceAll(") strict;", ");"));
    const dovecote = sqlite(db);
    await dovecote.migrate();
    const { status, findings } = await dovecote.checkSchema();
    expect(status).toBe("changed");
    expect(findings.map(({ object, name }) => `${object} ${name}`)).toEqual([
      "table dovecote_events",
      "table dovecote_deliveries",
      "table dovecote_idempotency_keys",
      "table dovecote_inbox",
      "table dovecote_schema",
    ]);
  });
});
