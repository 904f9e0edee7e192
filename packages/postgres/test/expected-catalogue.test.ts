import { expect, it } from "vitest";
import { readCatalogue } from "../src/catalogue.ts";
import { runOf } from "../src/client.ts";
import { postgres } from "../src/index.ts";
import { freshSchema } from "./support.ts";

it("SCHEMA-06: what checkSchema expects is what migrate makes", async () => {
  const { sql, schema } = await freshSchema();
  await postgres(sql, { schema }).migrate();
  const catalogue = await readCatalogue(runOf(sql), schema, `"${schema}"`);
  const entries = Object.entries(catalogue).flatMap(([kind, objects]) =>
    [...objects].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, definition]) => [kind, name, definition]),
  );
  // After a new migration: `vitest run <this file> --update` on Postgres 17 writes the file.
  await expect(`/** What \`migrate\` makes, as Postgres prints it. Written by the test of the same name; see there. */
import type { Catalogue } from "@dovecote/core";

export const EXPECTED: readonly (readonly [kind: keyof Catalogue, name: string, definition: string])[] = [
${entries.map((entry) => `  ${JSON.stringify(entry)},`).join("\n")}
];
`).toMatchFileSnapshot("../src/expected-catalogue.ts");
});
