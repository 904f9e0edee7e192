/** Settings that an application may have chosen, and that must change nothing. */
import type { DatabaseSync } from "node:sqlite";

const PRAGMAS: readonly string[] = [
  "reverse_unordered_selects = on", // whoever forgot an ORDER BY gets rows backwards
  "automatic_index = off",
  "recursive_triggers = on",
  "foreign_keys = off",
  "trusted_schema = off",
  "secure_delete = on",
  "cache_size = 10",
  "temp_store = file",
  "wal_autocheckpoint = 1",
];

/** Statistics that send the planner astray: they say of every index that it finds everything. */
const LIES = `analyze;
  delete from sqlite_stat1 where tbl like 'outbox_%';
  insert into sqlite_stat1 (tbl, idx, stat)
    select tbl_name, name, '1000000 1000000 1000000' from sqlite_schema
    where type = 'index' and tbl_name like 'outbox_%' and sql is not null;
  analyze sqlite_schema`;

export function beHostile(client: DatabaseSync): void {
  for (const pragma of PRAGMAS) client.exec(`pragma ${pragma}`);
  client.exec(LIES);
}
