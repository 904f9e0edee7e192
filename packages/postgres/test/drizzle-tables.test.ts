import { generateDrizzleJson, generateMigration } from "drizzle-kit/api";
import { expect, it } from "vitest";
import { dovecoteTables } from "../src/drizzle.ts";
import { postgres } from "../src/index.ts";
import { freshSchema } from "./support.ts";

it("SCHEMA-06: a schema that drizzle-kit generates from the tables is the schema that migrate() makes", async () => {
  const { sql, schema } = await freshSchema();
  const generated = generateDrizzleJson({ ...dovecoteTables(schema) });
  const statements = await generateMigration(generateDrizzleJson({}), generated);
  await sql.begin(async (tx) => {
    // The test's schema is there already.
    for (const statement of statements.filter((text) => !text.startsWith("CREATE SCHEMA")))
      await tx.unsafe(statement);
  });
  const dovecote = postgres(sql, { schema });
  expect(await dovecote.checkSchema()).toMatchObject({ status: "missing" });
  await dovecote.migrate();
  expect(await dovecote.checkSchema()).toEqual({ status: "ok", version: 2, findings: [] });
  expect(await dovecote.claim({ worker: "w" })).toEqual([]);
});
