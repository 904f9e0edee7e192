import { setTimeout as delay } from "node:timers/promises";
import { override } from "@dovecote/conformance";
import type { MigrateReport } from "@dovecote/core";
import type postgresClient from "postgres";
import { PostgresDriver } from "../../src/driver.ts";
import { toDovecoteError } from "../../src/errors.ts";
import { schemaSql } from "../../src/schema.ts";
import type { PostgresMutant } from "./define.ts";

/** Longer than contenders that start together lie apart on a busy machine. */
const LOOK_MS = 250;
/** Longer than it takes to kill a process. */
const STEP_MS = 100;

export const schema: readonly PostgresMutant[] = [
  {
    name: "schema-named-without-quotes",
    breaks: "SCHEMA-02",
    because: /the place that its locator names/,
    wrap(_driver, client, name) {
      const other = client(name.replaceAll(/\W/g, "_"));
      const driver = new PostgresDriver({ client, ownsClient: false, schema: name.replaceAll(/\W/g, "_") });
      return override(driver, {
        async close() {
          await client`drop schema if exists ${other} cascade`;
          await driver.close();
        },
      });
    },
  },
  {
    name: "migration-without-a-lock",
    breaks: "SCHEMA-03",
    because: /applied once|must succeed/,
    wrap: (driver, client, name) =>
      override(driver, { migrate: () => migrateStepwise(client, name, { lookMs: LOOK_MS, stepMs: 0 }) }),
  },
  {
    name: "migration-in-steps",
    breaks: "SCHEMA-04",
    because: /all or nothing|complete the schema/,
    wrap: (driver, client, name) =>
      override(driver, { migrate: () => migrateStepwise(client, name, { lookMs: 0, stepMs: STEP_MS }) }),
  },
  {
    name: "requirement-of-the-marker-ignored",
    breaks: "SCHEMA-05",
    because: /as the first use must be refused with SCHEMA_TOO_NEW/,
    wrap: (_driver, client, name) =>
      new PostgresDriver({
        client: override(client, {
          unsafe: ((text: string, ...others: never[]) =>
            client.unsafe(text.replace("' ' || requires", "' 1'"), ...others)) as typeof client.unsafe,
        }),
        ownsClient: false,
        schema: name,
      }),
  },
  {
    name: "schema-without-its-check",
    breaks: "SCHEMA-07",
    because: /refused by the database itself/,
    wrap: (driver, client, name) =>
      override(driver, {
        async migrate() {
          const report = await driver.migrate();
          await client`alter table ${client(name)}.dovecote_deliveries drop constraint dovecote_deliveries_worker`;
          return report;
        },
      }),
  },
];

/** Looks first, and then applies one statement after the other; the marker comes first. */
async function migrateStepwise(
  client: postgresClient.Sql,
  name: string,
  { lookMs, stepMs }: { readonly lookMs: number; readonly stepMs: number },
): Promise<MigrateReport> {
  try {
    const [found] = await client<{ marker: string | null }[]>`
      select to_regclass(${`"${name}".dovecote_schema`}) as marker`;
    if (found?.marker) return { applied: [], version: 1 };
    if (lookMs > 0) await delay(lookMs);
    const statements = schemaSql(name)
      .split(/;\n/)
      .filter((each) => each.trim() !== "");
    const isMarker = (statement: string): boolean => statement.includes("dovecote_schema");
    for (const statement of statements.filter(isMarker)) await client.unsafe(statement);
    for (const statement of statements.filter((each) => !isMarker(each))) {
      await delay(stepMs);
      await client.unsafe(statement);
    }
    return { applied: [1], version: 1 };
  } catch (error) {
    throw toDovecoteError(error, "migrate");
  }
}
