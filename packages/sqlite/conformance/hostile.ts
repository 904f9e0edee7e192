/** Settings of a connection that an application may have chosen, and that must change nothing. */
import type Database from "better-sqlite3";

const PRAGMAS: readonly string[] = [
  // Rows without an ORDER BY come backwards, and no index is made on the way.
  "reverse_unordered_selects = on",
  "automatic_index = off",
  "case_sensitive_like = on",
  "recursive_triggers = on",
  "foreign_keys = off",
  "cell_size_check = on",
  "trusted_schema = off",
  "secure_delete = on",
  "legacy_alter_table = on",
  // Ten pages, spilled to files as soon as they are used up.
  "cache_size = 10",
  "cache_spill = 1",
  "temp_store = file",
  "wal_autocheckpoint = 1",
];

/** Statistics that send the planner astray: a scan is said to be the best there is. */
const LIES = `analyze;
  delete from sqlite_stat1 where tbl like 'dovecote_%';
  insert into sqlite_stat1 (tbl, idx, stat)
    select tbl_name, name, '1000000 1000000 1000000' from sqlite_schema
    where type = 'index' and tbl_name like 'dovecote_%' and sql is not null;
  analyze sqlite_schema`;

export function beHostile(client: Database.Database): void {
  for (const pragma of PRAGMAS) client.pragma(pragma);
  // Integers come as bigints unless a statement says otherwise.
  client.defaultSafeIntegers(true);
  client.exec(LIES);
}
