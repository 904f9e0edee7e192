import { randomUUID } from "node:crypto";
import postgresClient from "postgres";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { postgres } from "../src/index.ts";
import { type StatementName, statementsOf } from "../src/statements.ts";
import { allIndexesOf, CALLS, explain, faultsOf, indexesOf, type PlanMode } from "./plan-explain.ts";
import { fill, fillKeys } from "./plan-load.ts";
import { serverUrl } from "./support.ts";

const MODES: readonly PlanMode[] = ["force_generic_plan", "force_custom_plan"];
const TABLES = ["dovecote_events", "dovecote_deliveries", "dovecote_idempotency_keys", "dovecote_inbox"];

const schema = `plans_${randomUUID().replaceAll("-", "")}`;
const texts = statementsOf(`"${schema}"`);
let sql: postgresClient.Sql;

/** Loaded once; every test plans in a transaction that it rolls back, and executes none of the statements. */
beforeAll(async () => {
  sql = postgresClient(serverUrl(), { max: 1, onnotice: () => {} });
  await postgres(sql, { schema }).migrate();
  // Statistics are what a test takes of them, and until then those of empty tables.
  for (const table of TABLES) {
    await sql.unsafe(`alter table "${schema}".${table} set (autovacuum_enabled = false)`);
    await sql.unsafe(`analyze "${schema}".${table}`);
  }
  await fill(sql, schema);
  await fillKeys(sql, schema);
}, 300_000);

afterAll(async () => {
  await sql.unsafe(`drop schema if exists "${schema}" cascade`);
  await sql.end();
}, 60_000);

class Rollback extends Error {}

async function planning<T>(fn: (tx: postgresClient.TransactionSql) => Promise<T>): Promise<T> {
  let answer: { readonly value: T } | undefined;
  const done = sql.begin(async (tx) => {
    answer = { value: await fn(tx) };
    throw new Rollback();
  });
  await done.catch((error: unknown) => {
    if (!(error instanceof Rollback)) throw error;
  });
  if (answer === undefined) throw new Error("nothing was planned");
  return answer.value;
}

async function analyze(tx: postgresClient.TransactionSql): Promise<void> {
  for (const table of TABLES) await tx.unsafe(`analyze "${schema}".${table}`);
}

async function analyzeOnly(tx: postgresClient.TransactionSql, state: string): Promise<void> {
  await tx.unsafe(`delete from "${schema}".dovecote_deliveries where state <> '${state}'`);
  const isDone = state === "delivered";
  await tx.unsafe(`delete from "${schema}".dovecote_idempotency_keys where (state = 'completed') <> ${isDone};
    delete from "${schema}".dovecote_inbox where (sweep_at <= clock_timestamp()) <> ${isDone}`);
  await analyze(tx);
}

const STATISTICS: readonly (readonly [string, (tx: postgresClient.TransactionSql) => Promise<void>])[] = [
  ["of empty tables", async () => {}],
  ["that are fresh", analyze],
  ["of a time when everything was delivered", (tx) => analyzeOnly(tx, "delivered")],
  ["of a time when everything was pending", (tx) => analyzeOnly(tx, "pending")],
  ["of a time when everything was claimed", (tx) => analyzeOnly(tx, "claimed")],
];

/** Where each scope finds its expired and its pending rows. */
const CLAIMED_IN: Partial<Record<StatementName, readonly [expired: string, due: string]>> = {
  claimAll: ["claimed", "pending"],
  claimStream: ["claimed", "pending_stream"],
  claimTenant: ["claimed_tenant", "pending_tenant"],
  claimTenantStream: ["claimed_tenant", "pending_tenant"],
};

const KEYS = "dovecote_idempotency_keys";

/** Where a statement of keys or of the inbox finds its rows. All others find theirs by the primary key. */
const FOUND_IN: Partial<Record<StatementName, readonly string[]>> = {
  keysStuck: [`${KEYS}_stuck`],
  keysSweep: [`${KEYS}_pkey`, `${KEYS}_sweep`],
  keysForget: [`${KEYS}_pkey`, `${KEYS}_principal`],
  inboxSweep: ["dovecote_inbox_pkey", "dovecote_inbox_sweep"],
  inboxMark: ["dovecote_inbox_pkey"],
};

describe("CLAIM-01: no statement reads, or sorts, more than it was asked for", () => {
  it.each(STATISTICS)("with statistics %s", { timeout: 120_000 }, async (_what, prepare) => {
    const faults = await planning(async (tx) => {
      await prepare(tx);
      const found: string[] = [];
      for (const { name, what, parameters } of CALLS) {
        for (const mode of MODES) {
          const plan = await explain(tx, texts[name], parameters, mode);
          for (const fault of faultsOf(plan)) found.push(`${name} ${what} (${mode}): ${fault}`);
          if (/^(key|inbox)/.test(name)) {
            expect([name, mode, allIndexesOf(plan)]).toEqual([
              name,
              mode,
              FOUND_IN[name] ?? [`${KEYS}_pkey`],
            ]);
          }
          const indexes = CLAIMED_IN[name.replace("Shared", "") as StatementName];
          if (indexes === undefined) continue;
          const { expired, due } = indexesOf(plan);
          expect([name, mode, expired, due]).toEqual([
            name,
            mode,
            [`dovecote_deliveries_${indexes[0]}`],
            [`dovecote_deliveries_${indexes[1]}`],
          ]);
        }
      }
      return found;
    });
    expect(faults).toEqual([]);
  });
});

describe("plans", () => {
  it("are made of every statement of keys and of the inbox", () => {
    const planned = new Set(CALLS.map(({ name }) => name));
    const names = (Object.keys(texts) as StatementName[]).filter((name) => /^(key|inbox)/.test(name));
    expect(names.length).toBeGreaterThan(15);
    expect(names.filter((name) => !planned.has(name))).toEqual([]);
  });

  const deliveries = `"${schema}".dovecote_deliveries`;

  it.each([
    ["reads all of dovecote_deliveries", "", `select * from ${deliveries} where attempts = $1::integer`],
    [
      "sorts dovecote_deliveries",
      "set local enable_bitmapscan = off; set local enable_seqscan = off",
      `select * from ${deliveries} where state = 'claimed' and attempts = $1::integer order by claimed_by`,
    ],
    [
      "reads a bitmap of dovecote_deliveries",
      "set local enable_indexscan = off; set local enable_seqscan = off",
      `select * from ${deliveries} where state = 'claimed' and attempts = $1::integer`,
    ],
    [
      "looks rows of dovecote_deliveries up one by one in a list of them all",
      "set local enable_hashjoin = off; set local enable_mergejoin = off",
      `with ids as materialized (select 1::bigint as id where $1::integer = 1) select d.* from ids join ${deliveries} d
        on d.event_row_id = ids.id and d.event_row_id = any (array(select id from ids))`,
    ],
  ])("of which one %s are noticed", async (fault, settings, text) => {
    const plan = await planning(async (tx) => {
      await tx.unsafe(settings === "" ? "select 1" : settings);
      return explain(tx, text, ["1"], "force_generic_plan");
    });
    expect(faultsOf(plan)).toContain(fault);
  });

  it("parse an array once, not once per row", () => {
    const arrays = /(\(select )?\$\d::text::(\w+\[\]|json)/g;
    let arrayCount = 0;
    for (const [name, text] of Object.entries(texts)) {
      for (const [found, once] of text.matchAll(arrays)) {
        const isFrom = /(json_to_recordset|json_array_elements_text)\($/.test(
          text.slice(0, text.indexOf(found)),
        );
        expect(once !== undefined || isFrom, `${name}: ${found}`).toBe(true);
        arrayCount++;
      }
    }
    expect(arrayCount).toBeGreaterThan(20);
  });
});
