import { setTimeout as delay } from "node:timers/promises";
import { override } from "@dovecote/conformance";
import type { MigrateReport } from "@dovecote/core";
import type Database from "better-sqlite3";
import { toDovecoteError } from "../../src/errors.ts";
import { readMarker, schemaSql } from "../../src/schema.ts";
import type { SqliteMutant } from "./define.ts";

/** Longer than contenders that start together lie apart on a busy machine. */
const LOOK_MS = 250;
/** Longer than it takes to kill a process. */
const STEP_MS = 100;

export const schema: readonly SqliteMutant[] = [
  {
    name: "migration-without-a-lock",
    breaks: "SCHEMA-03",
    because: /applied once|must succeed/,
    wrap: (driver, client) =>
      override(driver, { migrate: () => migrateStepwise(client, { lookMs: LOOK_MS, stepMs: 0 }) }),
  },
  {
    name: "migration-in-steps",
    breaks: "SCHEMA-04",
    because: /all or nothing|complete the schema/,
    wrap: (driver, client) =>
      override(driver, { migrate: () => migrateStepwise(client, { lookMs: 0, stepMs: STEP_MS }) }),
  },
  {
    name: "schema-without-its-check",
    breaks: "SCHEMA-07",
    because: /refused by the database itself/,
    wrap: (driver, client) =>
      override(driver, {
        async migrate() {
          const report = await driver.migrate();
          client.unsafeMode(true);
          client.exec(`pragma writable_schema = on;
            update sqlite_schema set sql = replace(sql, '(state = ''claimed'') = (claimed_by is not null)', 'true')
            where name = 'dovecote_deliveries';
            pragma writable_schema = reset`);
          client.unsafeMode(false);
          return report;
        },
      }),
  },
];

/** Looks first, and then applies one statement after the other; the marker comes first. */
async function migrateStepwise(
  client: Database.Database,
  { lookMs, stepMs }: { readonly lookMs: number; readonly stepMs: number },
): Promise<MigrateReport> {
  try {
    if (readMarker(client) !== undefined) return { applied: [], version: 1 };
    if (lookMs > 0) await delay(lookMs);
    client.pragma("journal_mode = wal");
    const statements = schemaSql.split(/;\n/).filter((each) => each.trim() !== "");
    const isMarker = (statement: string): boolean => statement.includes("dovecote_schema");
    for (const statement of statements.filter(isMarker)) client.exec(statement);
    for (const statement of statements.filter((each) => !isMarker(each))) {
      await delay(stepMs);
      client.exec(statement);
    }
    return { applied: [1], version: 1 };
  } catch (error) {
    throw toDovecoteError(error, "migrate");
  }
}
