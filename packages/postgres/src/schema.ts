/** Versions of the schema: applying them, reading the marker, and refusing what this code cannot work with. */
import {
  assertSchemaUsable,
  DovecoteError,
  invalid,
  judgeSchema,
  type MigrateReport,
  type SchemaMarker,
  type SchemaNeeds,
} from "@dovecote/core";
import { type PostgresJs, runOf } from "./client.ts";
import { outbox } from "./migrations/0001-outbox.ts";
import { idempotency } from "./migrations/0002-idempotency.ts";
import { safeTransaction } from "./safe-transaction.ts";

const MIGRATIONS = [outbox, idempotency] as const;

export const NEEDS: SchemaNeeds = { version: 2, needed: 2 };

/** Postgres cuts longer names silently, and then finds nothing under the whole one. */
const NAME_BYTES = 63;

/** @throws `INVALID_ARGUMENT`. Undefined is the default, `public`. */
export function checkSchemaName(value: unknown, path: string): string {
  if (value === undefined) return "public";
  const bytes = typeof value === "string" ? Buffer.byteLength(value) : 0;
  if (
    typeof value !== "string" ||
    bytes < 1 ||
    bytes > NAME_BYTES ||
    value.includes("\0") ||
    !value.isWellFormed()
  ) {
    throw invalid(path, `a name of 1 to ${NAME_BYTES} bytes without NUL`, value);
  }
  return value;
}

/** `"name"`, whatever it holds. */
export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** The same text whatever `standard_conforming_strings` says. */
function quoteLiteral(text: string): string {
  const quoted = text.replaceAll("'", "''");
  return text.includes("\\") ? `E'${quoted.replaceAll("\\", "\\\\")}'` : `'${quoted}'`;
}

/** The statements of one migration in one schema, with its marker, which is never lowered. */
function migrationSql({ version, requires, sql }: (typeof MIGRATIONS)[number], schema: string): string {
  return `${sql.replaceAll("{schema}", () => schema)}
insert into ${schema}.dovecote_schema as s (id, version, requires) values (1, ${version}, ${requires})
  on conflict (id) do update set version = greatest(s.version, excluded.version), requires = greatest(s.requires, excluded.requires);`;
}

/**
 * The whole schema as SQL text, for those who run migrations with a tool of their own; run it in one transaction.
 *
 * @throws `INVALID_ARGUMENT` if it is no name of a schema.
 * @example
 * await writeFile("migrations/0007_dovecote.sql", schemaSql("outbox"));
 */
export function schemaSql(schema = "public"): string {
  const quoted = quoteIdentifier(checkSchemaName(schema, "schema"));
  const parts = MIGRATIONS.map((migration) => migrationSql(migration, quoted).trim());
  return [`create schema if not exists ${quoted};`, ...parts, ""].join("\n\n");
}

/** One key for every store of a database: migrations of two schemas wait for each other, which costs nothing. */
const LOCK_KEY = "8098991003982651";
/** How long a migration waits for another one, or for whoever uses the tables. */
export const MIGRATION_LOCK_MS = 30_000;

/** Answers one text column of one row, or undefined. */
export type Answer = (text: string) => Promise<string | null | undefined>;

/** The marker, or undefined if there is no schema. Looks before it reads: an error would abort a caller's transaction. */
export async function readMarker(answer: Answer, schema: string): Promise<SchemaMarker | undefined> {
  const table = `${schema}.dovecote_schema`;
  const found = await answer(`select (to_regclass(${quoteLiteral(table)}) is not null)::text as answer`);
  if (found !== "true") return undefined;
  const marker = await answer(`select version || ' ' || requires as answer from ${table} where id = 1`);
  const [version, requires] = marker?.split(" ").map(Number) ?? [];
  return version === undefined || requires === undefined ? undefined : { version, requires };
}

/** Applies what is missing, under one lock, so that N at once apply it once (SCHEMA-03). */
export async function applyMigrations(
  client: PostgresJs,
  schema: string,
  lockMs: number,
): Promise<MigrateReport> {
  const begin = `begin isolation level read committed; set local client_min_messages = warning; set local lock_timeout = ${lockMs}`;
  return safeTransaction(client, begin, async ({ sql }) => {
    const run = runOf(sql);
    const answer: Answer = async (text) => (await run(text, []))[0]?.[0];
    const encoding = await answer("select current_setting('server_encoding') as answer");
    if (encoding !== "UTF8") {
      // A failure text could block a settlement, and an event an enqueue.
      throw new DovecoteError("UNSUPPORTED", `the database's encoding must be UTF8, it is ${encoding}`);
    }
    await answer(`select pg_advisory_xact_lock(${LOCK_KEY})::text as answer`);
    const marker = await readMarker(answer, schema);
    if (judgeSchema(marker, NEEDS) === "tooNew") assertSchemaUsable(marker, NEEDS);
    const version = marker?.version ?? 0;
    const missing = MIGRATIONS.filter((migration) => migration.version > version);
    // Even with IF NOT EXISTS, a schema that is there is refused to roles that may only create tables in it.
    const found = await answer(
      `select (to_regnamespace(${quoteLiteral(schema)}) is not null)::text as answer`,
    );
    if (found !== "true") await sql.unsafe(`create schema if not exists ${schema}`);
    for (const migration of missing) await sql.unsafe(migrationSql(migration, schema));
    return {
      applied: missing.map((migration) => migration.version),
      version: Math.max(version, NEEDS.version),
    };
  });
}
