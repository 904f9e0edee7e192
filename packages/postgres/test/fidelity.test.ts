/** What was stored comes back exactly, whatever the session and the client are set to. */
import { tmpdir } from "node:os";
import { drizzle } from "drizzle-orm/postgres-js";
import { drizzle as drizzleRc } from "drizzle-orm-rc/postgres-js";
import postgresClient from "postgres";
import { describe, expect, it } from "vitest";
import { postgres } from "../src/index.ts";
import { connect, event, type Migrated, migrated, refused, serverUrl, written } from "./support.ts";

const BYTES = Uint8Array.from({ length: 512 }, (_, n) => (n * 7) % 256);

/** Everything a text or a byte can be mangled by. */
const FULL = event('it\'s \\ "quoted" $1 {curly} \u{1F54A}', {
  source: "/shop?q=%20'&x=$1",
  subject: "  spaces, \\backslashes\\ and 'quotes'  ",
  time: "2024-02-29T23:59:59.123456789+05:30",
  datacontenttype: "application/octet-stream",
  dataschema: "https://example.com/schema?a=b",
  partitionkey: "\\x00ff",
  extensions: {
    flag: true,
    whole: -2_147_483_648,
    text: "it's \\ x",
    bytes: { type: "binary", value: BYTES },
    link: { type: "uri", value: "https://example.com/%2F" },
    at: { type: "timestamp", value: "2024-02-29T23:59:59.10Z" },
  },
  data: BYTES,
});

/** Every operation once, on one event that goes through every state; answers how it was read each time. */
async function lifecycle({ sql, other, schema, dovecote }: Migrated): Promise<void> {
  const before = Date.now();
  const { rowId } = await sql.begin((tx) => dovecote.enqueue(tx, FULL));
  expect(await sql.begin((tx) => dovecote.enqueue(tx, FULL))).toMatchObject({
    outcome: "alreadyEnqueued",
    rowId,
  });
  const conflict = await refused("IDENTITY_CONFLICT", () =>
    dovecote.transaction((tx) => dovecote.enqueue(tx, { ...FULL, data: BYTES.slice(1) })),
  );
  expect(conflict.fields).toEqual(["data"]);

  const [first] = await dovecote.claim({ worker: "w\\'1", leaseMs: 60_000 });
  expect(first).toMatchObject({ rowId, attempt: 1, worker: "w\\'1" });
  expect(first?.event).toMatchObject(stored());
  if (first === undefined) return;
  const { expiresAt } = await dovecote.renew(first, { leaseMs: 3_600_000 });
  expect(Math.abs(expiresAt.getTime() - before - 3_600_000)).toBeLessThan(60_000);
  await dovecote.retry(first, { failure: { code: "c'\\", detail: "d'\\" } });
  const [second] = await dovecote.admin().claim({ worker: "w2" });
  expect(second).toMatchObject({ rowId, attempt: 2 });
  if (second === undefined) return;
  await dovecote.quarantine(second, { reason: "r'\\" });
  expect((await dovecote.redrive({ failureCode: "c'\\", dryRun: true })).rowIds).toEqual([rowId]);
  await dovecote.redrive(rowId);
  const [third] = await dovecote.claim({ worker: "w3" });
  if (third === undefined) throw new Error("nothing to claim");
  await dovecote.ack(third);

  const [entry] = (await dovecote.page()).entries;
  expect(entry?.event).toEqual(expect.objectContaining(stored()));
  expect(entry?.delivery).toMatchObject({
    state: "delivered",
    attempt: 3,
    lastFailure: { code: "quarantined", detail: "r'\\" },
  });
  const [times] = await other`select (extract(epoch from e.enqueued_at) * 1000)::text as enqueued,
    (extract(epoch from d.delivered_at) * 1000)::text as delivered
    from ${other(schema)}.dovecote_events e join ${other(schema)}.dovecote_deliveries d on d.event_row_id = e.row_id`;
  expect(entry?.enqueuedAt.getTime()).toBe(Math.floor(Number(times?.enqueued)));
  expect(entry?.delivery.deliveredAt?.getTime()).toBe(Math.floor(Number(times?.delivered)));
  expect((await dovecote.list({ state: "delivered" })).entries).toHaveLength(1);
  for await (const { event: read } of await dovecote.snapshot()) expect(read).toMatchObject(stored());
  expect(await dovecote.inspect(rowId)).toMatchObject({ outcome: "found", entry: { rowId } });
  expect(await dovecote.stats()).toMatchObject({
    due: { count: 0, exact: true },
    claimed: { count: 0, exact: true },
  });
  const [bytes] = await other`select data from ${other(schema)}.dovecote_events`;
  expect(Buffer.compare(bytes?.data, Buffer.from(BYTES))).toBe(0);
  await other`update ${other(schema)}.dovecote_deliveries set delivered_at = delivered_at - interval '2 hours'`;
  expect(await dovecote.prune({ olderThanMs: 3_600_000 })).toMatchObject({ pruned: 1 });
  expect(await written(other, schema)).toEqual({ events: [], business: [] });
}

function stored(): object {
  const { stream: _stream, extensions: _extensions, data, ...attributes } = FULL;
  return {
    ...attributes,
    dataKind: "binary",
    dataBytes: data,
    extensions: {
      flag: { type: "boolean", value: true },
      whole: { type: "integer", value: -2_147_483_648 },
      text: { type: "string", value: "it's \\ x" },
      bytes: { type: "binary", value: BYTES },
      link: { type: "uri", value: "https://example.com/%2F" },
      at: { type: "timestamp", value: "2024-02-29T23:59:59.10Z" },
    },
  };
}

const SETTINGS: readonly Readonly<Record<string, string | boolean>>[] = [
  { TimeZone: "Pacific/Chatham" },
  { TimeZone: "<+1459>-14:59" },
  { DateStyle: "SQL, DMY" },
  { DateStyle: "German" },
  { IntervalStyle: "sql_standard" },
  { IntervalStyle: "iso_8601" },
  { standard_conforming_strings: "off" },
  { bytea_output: "escape" },
  { extra_float_digits: "-15" },
  { default_transaction_isolation: "repeatable read" },
  { default_transaction_isolation: "serializable" },
  { default_transaction_deferrable: "on" },
  { search_path: "" },
  { array_nulls: "off" },
  { quote_all_identifiers: "on" },
  { client_min_messages: "debug1" },
  { plan_cache_mode: "force_generic_plan" },
  { transform_null_equals: "on" },
];

describe("CLOCK-04: session settings change nothing", () => {
  it.each(SETTINGS.map((setting) => [JSON.stringify(setting), setting] as const))(
    "%s",
    async (_name, setting) => {
      const space = await migrated({ connection: setting });
      await lifecycle(space);
    },
  );

  it.each(SETTINGS.map((setting) => [JSON.stringify(setting), setting] as const))(
    "SCHEMA-06: migrate and checkSchema under %s",
    async (_name, setting) => {
      const { other, schema } = await migrated();
      await other.unsafe(`drop schema ${schema} cascade`);
      const dovecote = postgres(connect({ connection: setting }), { schema });
      expect(await dovecote.migrate()).toEqual({ applied: [1, 2], version: 2 });
      expect(await dovecote.checkSchema()).toEqual({ status: "ok", version: 2, findings: [] });
      expect(await postgres(other, { schema }).checkSchema()).toMatchObject({ status: "ok" });
    },
  );

  it("a search_path that leads to decoys of the same names", async () => {
    const decoy = await migrated();
    const space = await migrated({ connection: { search_path: decoy.schema } });
    await lifecycle(space);
    expect((await written(decoy.other, decoy.schema)).events).toEqual([]);
    expect(await space.dovecote.checkSchema()).toMatchObject({ status: "ok" });
  });

  it.each(["on", "off"])(
    "SCHEMA-02: a schema name with quotes and backslashes, standard_conforming_strings %s",
    async (setting) => {
      const { other, schema: base } = await migrated();
      const schema = `${base.slice(0, 40)} '\\"$&`;
      const sql = connect({ connection: { standard_conforming_strings: setting } });
      const dovecote = postgres(sql, { schema });
      await dovecote.migrate();
      await other`create table ${other(schema)}.business (id text primary key)`;
      try {
        await lifecycle({ sql, other, schema, dovecote });
        expect(await dovecote.checkSchema()).toMatchObject({ status: "ok" });
      } finally {
        await other`drop schema ${other(schema)} cascade`;
      }
    },
  );
});

describe("ERR-02: default_transaction_isolation above READ COMMITTED, under concurrency", () => {
  it.each(["repeatable read", "serializable"] as const)(
    "%s: every event is delivered once",
    async (isolation) => {
      const { schema, other, sql } = await migrated({
        connection: { default_transaction_isolation: isolation },
      });
      const workers = Array.from({ length: 4 }, () =>
        postgres(connect({ max: 1, connection: { default_transaction_isolation: isolation } }), { schema }),
      );
      const plain = postgres(other, { schema });
      const names = Array.from({ length: 60 }, (_, n) => event(`event-${n}`));
      await plain.transaction((tx) => plain.enqueueMany(tx, names));
      const delivered = (
        await Promise.all(
          workers.map(async (dovecote, n) => {
            const mine: number[] = [];
            for (;;) {
              const claims = await dovecote.claim({ worker: `w${n}`, limit: 5 });
              if (claims.length === 0) return mine;
              await dovecote.renew(claims);
              const outcomes = await dovecote.ack(claims);
              expect(outcomes.every(({ outcome }) => outcome === "applied")).toBe(true);
              mine.push(...claims.map(({ rowId }) => rowId));
            }
          }),
        )
      ).flat();
      expect([...delivered].sort((a, b) => a - b)).toEqual(names.map((_, n) => n + 1));
      const [row] =
        await sql`select count(*)::int as count from ${sql(schema)}.dovecote_deliveries where state = 'delivered'`;
      expect(row?.count).toBe(60);
    },
  );
});

it("ERR-01: default_transaction_read_only is STORE_READ_ONLY, and reads work", async () => {
  const { schema, other, sql, dovecote } = await migrated({
    connection: { default_transaction_read_only: true },
  });
  const plain = postgres(other, { schema });
  const { rowId } = await plain.transaction((tx) => plain.enqueue(tx, event("one")));
  const [claim] = await plain.claim({ worker: "w" });
  if (claim === undefined) throw new Error("nothing to claim");
  const before = await other`select * from ${other(schema)}.dovecote_deliveries`;
  const writes: readonly (() => Promise<unknown>)[] = [
    () => dovecote.transaction((tx) => dovecote.enqueue(tx, event("two"))),
    () => sql.begin((tx) => dovecote.enqueue(tx, event("two"))),
    () => dovecote.claim({ worker: "w" }),
    () => dovecote.renew(claim),
    () => dovecote.ack(claim),
    () => dovecote.retry(claim, { failure: { code: "c", detail: "d" } }),
    () => dovecote.quarantine(rowId, { reason: "r" }),
    () => dovecote.redrive(rowId),
    () => dovecote.redrive({}),
    () => dovecote.prune({ olderThanMs: 1 }),
    () => dovecote.admin().reconcile(rowId),
  ];
  for (const write of writes) expect((await refused("STORE_READ_ONLY", write)).retryable).toBe(false);
  expect(await other`select * from ${other(schema)}.dovecote_deliveries`).toEqual(before);
  expect((await dovecote.page()).entries).toHaveLength(1);
  expect(await dovecote.stats()).toMatchObject({ claimed: { count: 1 } });
  expect(await dovecote.inspect(rowId)).toMatchObject({ outcome: "found" });
  expect(await dovecote.checkSchema()).toMatchObject({ status: "ok" });
  // A transaction that says otherwise may write.
  await sql.begin("read write", (tx) => dovecote.enqueue(tx, event("three")));
  expect((await written(other, schema)).events).toEqual(["one", "three"]);
});

describe("ID-09: the options of the client change nothing", () => {
  const hijacked = (to: number, from: readonly number[]): postgresClient.PostgresType => ({
    to,
    from: [...from],
    serialize: (value: unknown) => `hijacked ${String(value)}`,
    parse: (value: unknown) => `hijacked ${String(value)}`,
  });
  const CLIENTS: readonly (readonly [string, object])[] = [
    ["transform: camel", { transform: postgresClient.camel }],
    ["transform: every value", { transform: { value: () => "hijacked", undefined: null } }],
    ["transform: rows into other objects", { transform: { row: (row: object) => ({ ...row }) } }],
    ["types: bigint", { types: { bigint: postgresClient.BigInt } }],
    [
      "types: everything",
      {
        types: {
          string: hijacked(25, [25, 1043]),
          number: hijacked(0, [20, 21, 23]),
          boolean: hijacked(16, [16]),
          bytea: hijacked(17, [17]),
          json: hijacked(114, [114, 3802]),
          date: hijacked(1184, [1082, 1114, 1184]),
        },
      },
    ],
    ["prepare: false", { prepare: false }],
    ["fetch_types: false", { fetch_types: false }],
    ["max: 1", { max: 1 }],
    ["max_pipeline: 1", { max_pipeline: 1 }],
    ["TCP", { host: "127.0.0.1" }],
    ["a unix socket", { host: tmpdir(), port: Number(new URL(serverUrl()).port) }],
  ];
  it.each(CLIENTS)("%s", async (_name, options) => {
    await lifecycle(await migrated(options));
  });

  it.each([
    ["0.45", (sql: postgresClient.Sql) => drizzle(sql)],
    ["1.0 rc", (sql: postgresClient.Sql) => drizzleRc({ client: sql })],
  ])("after drizzle %s changed the parsers of the client", async (_version, over) => {
    const space = await migrated();
    over(space.sql);
    await lifecycle(space);
  });

  it("LIFE-04: the client's own options are as they were", async () => {
    const { sql, dovecote } = await migrated({ transform: postgresClient.camel });
    await sql`select 1`; // what the client learns of the server
    const before = JSON.stringify([sql.options, sql.parameters]);
    await dovecote.transaction((tx) => dovecote.enqueue(tx, event("one")));
    await dovecote.claim({ worker: "w" });
    await dovecote.close();
    expect(JSON.stringify([sql.options, sql.parameters])).toBe(before);
    expect(await sql`select 1 as the_one`).toEqual([{ theOne: 1 }]);
  });
});

describe("ID-08: row ids", () => {
  const next = (other: postgresClient.Sql, schema: string, value: string) =>
    other`select setval(pg_get_serial_sequence(${`${schema}.dovecote_events`}, 'row_id'), ${value}::text::bigint, false)`;

  it("2^53 - 1 is exact everywhere", async () => {
    const space = await migrated();
    await next(space.other, space.schema, "9007199254740991");
    await lifecycle(space);
    const { dovecote, other, schema } = space;
    await next(other, schema, "9007199254740989");
    const sent = await dovecote.transaction((tx) =>
      dovecote.enqueueMany(tx, [event("a"), event("b"), event("c")]),
    );
    expect(sent).toMatchObject([0, 1, 2].map((n) => ({ rowId: 9_007_199_254_740_989 + n })));
    const claims = await dovecote.claim({ worker: "w" });
    expect(claims.map(({ rowId }) => rowId)).toEqual([0, 1, 2].map((n) => 9_007_199_254_740_989 + n));
    expect(await dovecote.ack(claims.slice(1))).toEqual([{ outcome: "applied" }, { outcome: "applied" }]);
    const states =
      await other`select event_row_id::text as id, state from ${other(schema)}.dovecote_deliveries order by 1`;
    expect(states.map(({ id, state }) => [id, state])).toEqual([
      ["9007199254740989", "claimed"],
      ["9007199254740990", "delivered"],
      ["9007199254740991", "delivered"],
    ]);
    expect((await dovecote.page()).cursor).toBe(Number.MAX_SAFE_INTEGER);
  });

  it.each(["9007199254740992", "9007199254740993", "9223372036854775807"])(
    "%s is a typed error",
    async (rowId) => {
      const { sql, schema, other, dovecote } = await migrated();
      await next(other, schema, rowId);
      await refused("COUNTER_OVERFLOW", () =>
        dovecote.transaction((tx) => dovecote.enqueue(tx, event("one"))),
      );
      expect((await written(other, schema)).events).toEqual([]);
      // Committed all the same, by a caller who ignored the error.
      await next(other, schema, rowId);
      await sql.begin(async (tx) => {
        await refused("COUNTER_OVERFLOW", () => dovecote.enqueue(tx, event("one")));
      });
      await refused("COUNTER_OVERFLOW", () => dovecote.page());
      await refused("COUNTER_OVERFLOW", () => dovecote.claim({ worker: "w" }));
      await refused("COUNTER_OVERFLOW", () => dovecote.snapshot());
      await refused("COUNTER_OVERFLOW", () => sql.begin((tx) => dovecote.enqueue(tx, event("one"))));
      expect((await written(other, schema)).events).toEqual(["one"]);
    },
  );
});
