/** The schema of a database as plain data: what `checkSchema` compares. */
import type { Catalogue } from "@dovecote/core";
import type { SqliteClient } from "./client.ts";

/** Reads the tables that are named; writes nothing (SCHEMA-06). */
export function readCatalogue(client: SqliteClient, tableNames: readonly string[]): Catalogue {
  const tables = new Map<string, string>();
  const columns = new Map<string, string>();
  const indexes = new Map<string, string>();
  const constraints = new Map<string, string>();
  for (const table of tableNames) {
    const [found] = rows(
      client,
      "select strict from pragma_table_list where schema = 'main' and name = ?",
      table,
    );
    if (found === undefined) continue;
    const sql = definition(client, table);
    const autoincrement = /\bautoincrement\b/i.test(sql);
    tables.set(
      table,
      `${found.strict === 1 ? "strict" : "not strict"}${autoincrement ? ", autoincrement" : ""}`,
    );
    for (const column of rows(client, "select * from pragma_table_xinfo(?)", table)) {
      const { name, type, notnull, dflt_value, pk } = column;
      const parts = [String(type).toLowerCase(), Number(notnull) === 1 || pk ? "not null" : "null"];
      const collation = collationOf(sql, String(name));
      if (collation !== undefined) parts.push(`collate ${collation}`);
      if (dflt_value !== null) parts.push(`default ${dflt_value}`);
      if (pk) parts.push("primary key");
      columns.set(`${table}.${name}`, parts.join(" "));
    }
    for (const key of rows(client, "select * from pragma_foreign_key_list(?)", table)) {
      constraints.set(
        `${table}.${key.from} foreign key`,
        `references ${key.table} (${key.to}) on delete ${key.on_delete}`,
      );
    }
    for (const [name, expression] of checks(sql)) constraints.set(`${table}.${name}`, expression);
    for (const index of rows(client, "select * from pragma_index_list(?)", table)) {
      const name = String(index.name);
      const keys = rows(client, "select * from pragma_index_xinfo(?) where key = 1 order by seqno", name);
      const where = /\bwhere\b(.*)$/is.exec(definition(client, name))?.[1] ?? "";
      const unique = index.unique === 1 ? "unique " : "";
      indexes.set(name, `${unique}(${keys.map(indexKey).join(", ")}) ${normalise(where)}`.trim());
    }
  }
  return { table: tables, column: columns, index: indexes, constraint: constraints };
}

function rows(client: SqliteClient, sql: string, parameter: string): Record<string, unknown>[] {
  const statement = client.prepare(sql);
  statement.safeIntegers(false);
  return statement.all(parameter) as Record<string, unknown>[];
}

function indexKey({ name, desc, coll }: Record<string, unknown>): string {
  return `${name}${coll === "BINARY" ? "" : ` collate ${coll}`}${desc === 1 ? " desc" : ""}`;
}

/** A column's collation is in no pragma, only in the definition of its table. */
function collationOf(sql: string, column: string): string | undefined {
  const declaration = new RegExp(`[\\s("'\`[,]${column}["'\`\\]]?\\s[^,]*?\\bcollate\\s+["'\`[]?(\\w+)`, "i");
  return declaration.exec(sql)?.[1]?.toLowerCase();
}

/** The statement that created a table or an index; empty for what SQLite creates by itself. */
function definition(client: SqliteClient, name: string): string {
  const [row] = rows(client, "select sql from sqlite_schema where name = ?", name);
  return typeof row?.sql === "string" ? row.sql : "";
}

/** The named CHECK constraints of a table's definition: SQLite keeps no other record of them. */
function* checks(sql: string): Generator<[name: string, expression: string], void, undefined> {
  for (const match of sql.matchAll(/\bconstraint\s+["'`[]?(\w+)["'`\]]?\s+check\s*\(/gi)) {
    const start = match.index + match[0].length;
    let depth = 1;
    let end = start;
    for (; end < sql.length && depth > 0; end++) {
      if (sql[end] === "(") depth++;
      if (sql[end] === ")") depth--;
    }
    yield [String(match[1]), normalise(sql.slice(start, end - 1))];
  }
}

/** Two spellings of one expression: white space, quotes of identifiers, a table's name before a column's. */
function normalise(expression: string): string {
  return expression
    .replace(/["`[\]]/g, "")
    .replace(/\bdovecote_\w+\./g, "")
    .replace(/\s+/g, " ")
    .trim()
    .toLowerCase();
}
