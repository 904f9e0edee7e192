/** Settings of a session that an application may have chosen, and that must change nothing. */
import postgresClient from "postgres";

export const HOSTILE: Readonly<Record<string, string>> = {
  // With all five, `update … where id in (select … limit 3 for update skip locked)` updates every row on Postgres 17.
  enable_hashjoin: "off",
  enable_mergejoin: "off",
  enable_material: "off",
  enable_hashagg: "off",
  enable_sort: "off",
  enable_memoize: "off",
  plan_cache_mode: "force_generic_plan",
  join_collapse_limit: "1",
  from_collapse_limit: "1",
  work_mem: "64kB",
  TimeZone: "Asia/Kathmandu",
  DateStyle: "SQL, DMY",
  IntervalStyle: "sql_standard",
  extra_float_digits: "-15",
  bytea_output: "escape",
  search_path: "nowhere",
  default_transaction_isolation: "serializable",
  standard_conforming_strings: "off",
  escape_string_warning: "off",
  array_nulls: "off",
  transform_null_equals: "on",
  quote_all_identifiers: "on",
};

/** Has them as its own, where a session cannot bring them along. */
export const HOSTILE_ROLE = "dovecote_hostile";

/** With the password of the URL's role. */
export async function createHostileRole(serverUrl: string): Promise<void> {
  const sql = postgresClient(serverUrl, { max: 1, onnotice: () => {} });
  const { password } = new URL(serverUrl);
  const settings = Object.entries(HOSTILE).map(([name, value]) => {
    const parts = value.split(", ").map((part) => `'${part}'`);
    return `alter role ${HOSTILE_ROLE} set ${name} to ${parts.join(", ")}`;
  });
  await sql.unsafe(
    [`create role ${HOSTILE_ROLE} superuser login password '${password}'`, ...settings].join("; "),
  );
  await sql.end();
}

/** Whatever is written from now on, the planner goes by what was there. */
export async function freezeStatistics(sql: postgresClient.Sql, schema: string): Promise<void> {
  const tables = await sql<{ name: string }[]>`select relname as name from pg_class
    where relnamespace = (select oid from pg_namespace where nspname = ${schema}) and relkind = 'r'
      and relname like 'dovecote%'`;
  for (const { name } of tables) {
    const table = sql`${sql(schema)}.${sql(name)}`;
    await sql`alter table ${table} set (autovacuum_enabled = off)`;
    await sql`analyze ${table}`;
  }
}
