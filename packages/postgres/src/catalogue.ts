/** The schema of a database as plain data: what `checkSchema` compares. */
import type { Catalogue } from "@dovecote/core";
import type { Run } from "./client.ts";

const TABLES = `'dovecote_events', 'dovecote_deliveries', 'dovecote_idempotency_keys', 'dovecote_inbox',
  'dovecote_schema'`;

/**
 * $1 the schema, unquoted. Definitions are what Postgres prints of them, without the name of the schema, and without the
 * quotes that a session may ask for: the setting lasts as long as this statement.
 */
const OBJECTS = `
with unquoted as materialized (
  select pg_catalog.set_config('quote_all_identifiers', 'off', true)
), tables as materialized (
  select c.oid, c.relname from unquoted cross join pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where n.nspname = $1::text and c.relname in (${TABLES}) and c.relkind in ('r', 'p')
)
select 'table', relname::text, 'table' from tables
union all
select 'column', t.relname || '.' || a.attname,
  pg_catalog.format_type(a.atttypid, a.atttypmod) || case when a.attnotnull then ' not null' else '' end
    || case a.attidentity when 'd' then ' identity' when 'a' then ' identity always' else '' end
from tables t join pg_catalog.pg_attribute a on a.attrelid = t.oid where a.attnum > 0 and not a.attisdropped
union all
select 'index', i.relname::text, pg_catalog.pg_get_indexdef(x.indexrelid)
    || case when x.indisvalid then '' else ' (invalid)' end
from tables t join pg_catalog.pg_index x on x.indrelid = t.oid join pg_catalog.pg_class i on i.oid = x.indexrelid
union all
select 'constraint', t.relname || '.' || k.conname, pg_catalog.pg_get_constraintdef(k.oid)
from tables t join pg_catalog.pg_constraint k on k.conrelid = t.oid where k.contype in ('c', 'f', 'p', 'u')`;

/** Reads what there is in a schema; writes nothing (SCHEMA-06). */
export async function readCatalogue(run: Run, schema: string, quotedSchema: string): Promise<Catalogue> {
  const found = { table: new Map(), column: new Map(), index: new Map(), constraint: new Map() };
  for (const [kind, name, definition] of await run(OBJECTS, [schema])) {
    const text = String(definition).replaceAll(`${quotedSchema}.`, "").replaceAll(`${schema}.`, "");
    found[kind as keyof Catalogue].set(String(name), text);
  }
  return found;
}
