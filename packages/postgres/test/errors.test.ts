import { createServer } from "node:net";
import { inspect } from "node:util";
import type { Claim, DovecoteError } from "@dovecote/core";
import type postgresClient from "postgres";
import { assert, describe, expect, it, onTestFinished } from "vitest";
import { postgres } from "../src/index.ts";
import {
  connect,
  event,
  killBackend,
  type Migrated,
  migrated,
  ROLE_PASSWORD,
  refused,
  role,
  serverUrl,
  until,
} from "./support.ts";

/** A store with one claimed row, and the claim. */
async function claimed(
  options?: postgresClient.Options<Record<string, never>>,
): Promise<Migrated & { readonly claim: Claim }> {
  const store = await migrated(options);
  const elsewhere = postgres(store.other, { schema: store.schema });
  await elsewhere.transaction((tx) => elsewhere.enqueue(tx, event("1")));
  const [claim] = await elsewhere.claim({ worker: "w" });
  assert(claim);
  return { ...store, claim };
}

/** Holds a table or rows by a statement in an open transaction until the answer is called, or the test ends. */
async function holding(statement: string): Promise<() => Promise<void>> {
  const holder = await connect({ max: 1 }).reserve();
  await holder.unsafe("begin");
  await holder.unsafe(statement);
  return async () => {
    await holder.unsafe("rollback");
    holder.release();
  };
}

/** The backend that waits for a lock on this schema's tables. */
async function waitingBackend(other: postgresClient.Sql, schema: string): Promise<number> {
  let pid: number | undefined;
  await until(async () => {
    const [row] = await other`select pid from pg_stat_activity
      where wait_event_type = 'Lock' and position(${schema} in query) > 0 and pid <> pg_backend_pid()`;
    pid = row?.pid as number | undefined;
    return pid !== undefined;
  });
  assert(pid !== undefined);
  return pid;
}

function judged(
  { retryable, ambiguous }: DovecoteError,
  expected: { readonly retryable: boolean; readonly ambiguous?: boolean },
): void {
  expect({ retryable, ambiguous }).toEqual({ ambiguous: false, ...expected });
}

/** Everything that people and programs make of an error, also what is not enumerable, and down its causes. */
function shown(error: DovecoteError): string {
  const { message, stack, cause } = error;
  const inside = cause instanceof Error ? [cause.message, cause.stack, JSON.stringify(cause)] : [];
  const inspected = inspect(error, { showHidden: true, depth: Number.POSITIVE_INFINITY });
  const own = JSON.stringify(Object.getOwnPropertyDescriptors(error));
  return [message, stack, JSON.stringify(error), String(error), own, inspected, ...inside].join("\n");
}

const as = (username: string, password = ROLE_PASSWORD): postgresClient.Options<Record<string, never>> => ({
  username,
  password,
  connection: {},
});

async function closedPort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve) => probe.listen(0, "127.0.0.1", resolve));
  const address = probe.address();
  assert(address !== null && typeof address === "object");
  await new Promise((resolve) => probe.close(resolve));
  return address.port;
}

describe("conflicts", () => {
  it("ERR-02: two transactions of the caller's that wait for each other: one is told, retryable", async () => {
    const { sql, dovecote, other, schema } = await migrated({
      connection: { deadlock_timeout: 20 } as never,
    });
    const both = Promise.withResolvers<void>();
    let started = 0;
    const enqueueBoth = (first: string, second: string): Promise<unknown> =>
      sql.begin(async (tx) => {
        await dovecote.enqueue(tx, event(first));
        if (++started === 2) both.resolve();
        await both.promise;
        await dovecote.enqueue(tx, event(second));
      });
    const results = await Promise.allSettled([enqueueBoth("a", "b"), enqueueBoth("b", "a")]);
    const [failed, ...more] = results.filter((result) => result.status === "rejected");
    assert(failed && more.length === 0, "exactly one of the two must be the victim");
    const error = await refused("SERIALIZATION_FAILURE", () => Promise.reject(failed.reason));
    judged(error, { retryable: true });
    expect(error.cause).toMatchObject({ code: "40P01" });
    expect(await other`select event_id from ${other(schema)}.dovecote_events`).toHaveLength(2);
  });

  it("ERR-02: a rival's commit that the caller's transaction may not see is retryable", async () => {
    const { sql, dovecote } = await migrated();
    const call = sql.begin("isolation level repeatable read", async (tx) => {
      await tx`select 1`;
      await dovecote.transaction((rival) => dovecote.enqueue(rival, event("1")));
      await dovecote.enqueue(tx, event("1"));
    });
    const error = await refused("SERIALIZATION_FAILURE", () => call);
    judged(error, { retryable: true });
    expect(error.cause).toMatchObject({ code: "40001" });
  });
});

describe("waiting", () => {
  it.each([
    ["lock_timeout", "55P03"],
    ["statement_timeout", "57014"],
  ])("ERR-02: longer than %s is STORE_BUSY, retryable, and nothing happened", async (setting, code) => {
    const { dovecote, other, schema, claim } = await claimed({ connection: { [setting]: 500 } as never });
    await dovecote.stats();
    const release = await holding(`select from "${schema}".dovecote_deliveries for update`);
    const error = await refused("STORE_BUSY", () => dovecote.ack(claim));
    judged(error, { retryable: true });
    expect(error.cause).toMatchObject({ code });
    expect(await other`select state from ${other(schema)}.dovecote_deliveries`).toEqual([
      { state: "claimed" },
    ]);
    await release();
    await dovecote.ack(claim);
  });

  it("ERR-02: a statement that an operator cancels is STORE_BUSY", async () => {
    const { dovecote, other, schema } = await claimed();
    await dovecote.stats();
    const release = await holding(`lock table "${schema}".dovecote_deliveries in access exclusive mode`);
    const call = refused("STORE_BUSY", () => dovecote.claim({ worker: "w" }));
    await other`select pg_cancel_backend(${await waitingBackend(other, schema)})`;
    judged(await call, { retryable: true });
    await release();
  });
});

describe("connections", () => {
  it.each(["claim", "ack"] as const)(
    "FENCE-13: the backend ends during %s: retryable, ambiguous",
    async (name) => {
      const { dovecote, other, schema, claim } = await claimed();
      await dovecote.stats();
      const release = await holding(`lock table "${schema}".dovecote_deliveries in access exclusive mode`);
      const calls = { claim: () => dovecote.claim({ worker: "w" }), ack: () => dovecote.ack(claim) };
      const call = refused("CONNECTION_LOST", calls[name]);
      await killBackend(other, await waitingBackend(other, schema));
      judged(await call, { retryable: true, ambiguous: true });
      await release();
      await dovecote.ack(claim); // the pool has recovered
    },
  );

  it("ERR-02: none is left for the role: STORE_UNAVAILABLE, retryable", async () => {
    const { schema, other } = await migrated();
    const name = await role("connection limit 1");
    await other.unsafe(`grant usage on schema "${schema}" to ${name};
      grant select, update on all tables in schema "${schema}" to ${name}`);
    const first = connect({ ...as(name), max: 1 });
    await first`select 1`;
    const second = postgres(connect(as(name)), { schema });
    const error = await refused("STORE_UNAVAILABLE", () => second.claim({ worker: "w" }));
    judged(error, { retryable: true });
    expect(error.cause).toMatchObject({ code: "53300" });
    await first.end();
    await until(async () => (await other`select from pg_stat_activity where usename = ${name}`).length === 0);
    expect(await second.claim({ worker: "w" })).toEqual([]);
  });

  it("ERR-02: nobody listens: STORE_UNAVAILABLE, retryable", async () => {
    const url = `postgres://postgres:${ROLE_PASSWORD}@127.0.0.1:${await closedPort()}/postgres`;
    const dovecote = postgres(url);
    onTestFinished(() => dovecote.close());
    for (const call of [
      () => dovecote.claim({ worker: "w" }),
      () => dovecote.migrate(),
      () => dovecote.checkSchema(),
      () => dovecote.transaction(() => 1),
    ]) {
      const error = await refused("STORE_UNAVAILABLE", call);
      judged(error, { retryable: true });
      expect(error.cause).toMatchObject({ code: "ECONNREFUSED" });
      expect(shown(error)).not.toContain(ROLE_PASSWORD);
    }
  });

  it("ERR-01: a wrong password is PERMISSION_DENIED, and is nowhere in the error", async () => {
    const name = await role("");
    const dovecote = postgres(connect(as(name, "a wrong one")));
    const error = await refused("PERMISSION_DENIED", () => dovecote.claim({ worker: "w" }));
    judged(error, { retryable: false });
    expect(error.cause).toMatchObject({ code: "28P01" });
    expect(shown(error)).not.toContain("a wrong one");
  });

  it("ERR-01: a database that does not exist is STORE_UNAVAILABLE", async () => {
    const url = new URL(serverUrl());
    url.username = await role("");
    url.password = ROLE_PASSWORD;
    url.pathname = "/nowhere";
    const dovecote = postgres(url.href);
    onTestFinished(() => dovecote.close());
    const error = await refused("STORE_UNAVAILABLE", () => dovecote.claim({ worker: "w" }));
    judged(error, { retryable: false });
    expect(error.cause).toMatchObject({ code: "3D000" });
    expect(shown(error)).not.toContain(ROLE_PASSWORD);
  });

  it("LIFE-01: a client that the application has ended is CLOSED", async () => {
    const { sql, dovecote } = await migrated();
    await sql.end();
    judged(await refused("CLOSED", () => dovecote.claim({ worker: "w" })), { retryable: false });
  });
});

describe("permissions", () => {
  it("ERR-01: a session that may only read is STORE_READ_ONLY", async () => {
    const { dovecote, claim } = await claimed({
      connection: { default_transaction_read_only: true } as never,
    });
    expect(await dovecote.stats()).toMatchObject({ claimed: { count: 1 } });
    for (const call of [() => dovecote.claim({ worker: "w" }), () => dovecote.ack(claim)]) {
      const error = await refused("STORE_READ_ONLY", call);
      judged(error, { retryable: false });
      expect(error.cause).toMatchObject({ code: "25006" });
    }
  });

  it("ERR-01: a read-only transaction of the caller's is STORE_READ_ONLY", async () => {
    const { sql, dovecote } = await migrated();
    const call = sql.begin("read only", (tx) => dovecote.enqueue(tx, event("1")));
    judged(await refused("STORE_READ_ONLY", () => call), { retryable: false });
  });

  it.each([
    ["on the tables", (name: string, schema: string) => `grant usage on schema "${schema}" to ${name}`],
    ["on the schema", () => "select 1"],
    [
      "to write",
      (name: string, schema: string) => `grant usage on schema "${schema}" to ${name};
        grant select on all tables in schema "${schema}" to ${name}`,
    ],
  ])("ERR-01: a role without rights %s is PERMISSION_DENIED", async (_what, grants) => {
    const { schema, other } = await migrated();
    const name = await role("");
    await other.unsafe(grants(name, schema));
    const dovecote = postgres(connect(as(name)), { schema });
    const error = await refused("PERMISSION_DENIED", () => dovecote.claim({ worker: "w" }));
    judged(error, { retryable: false });
    expect(error.cause).toMatchObject({ code: "42501" });
  });
});

describe("a schema that changes under a store in use", () => {
  it("SCHEMA-05: dropped: SCHEMA_MISSING, in autocommit and in the caller's transaction", async () => {
    const { sql, dovecote, schema, other } = await claimed();
    expect(await dovecote.claim({ worker: "w" })).toEqual([]);
    await other.unsafe(`drop schema "${schema}" cascade`);
    judged(await refused("SCHEMA_MISSING", () => dovecote.claim({ worker: "w" })), { retryable: false });
    const call = sql.begin((tx) => dovecote.enqueue(tx, event("2")));
    judged(await refused("SCHEMA_MISSING", () => call), { retryable: false });
  });

  it.each([
    ["column", "dovecote_deliveries drop column claimed_by"],
    ["table", "dovecote_deliveries rename to something_else"],
  ])(
    "SCHEMA-05: without a %s a claim is SCHEMA_MISMATCH, and checkSchema names it",
    async (_what, change) => {
      const { dovecote, schema, other } = await claimed();
      expect(await dovecote.claim({ worker: "w" })).toEqual([]);
      await other.unsafe(`alter table "${schema}".${change}`);
      judged(await refused("SCHEMA_MISMATCH", () => dovecote.claim({ worker: "w" })), { retryable: false });
      expect(await dovecote.checkSchema()).toMatchObject({ status: "changed" });
    },
  );

  it("SCHEMA-05: without the constraint of the identity an enqueue is SCHEMA_MISMATCH", async () => {
    const { sql, dovecote, schema, other } = await claimed();
    await other.unsafe(`alter table "${schema}".dovecote_events drop constraint dovecote_events_identity`);
    for (const call of [
      () => sql.begin((tx) => dovecote.enqueue(tx, event("2"))),
      () => dovecote.transaction((tx) => dovecote.enqueue(tx, event("2"))),
    ]) {
      const error = await refused("SCHEMA_MISMATCH", call);
      judged(error, { retryable: false });
      expect(error.cause).toMatchObject({ code: "42P10" });
    }
    const { findings } = await dovecote.checkSchema();
    expect(findings.map(({ name }) => name)).toEqual([
      "dovecote_events_identity",
      "dovecote_events.dovecote_events_identity",
    ]);
  });

  it("SCHEMA-06: without an index everything works, and checkSchema names it", async () => {
    const { dovecote, schema, other } = await claimed();
    await other.unsafe(`drop index "${schema}".dovecote_deliveries_pending`);
    await dovecote.transaction((tx) => dovecote.enqueue(tx, event("2")));
    expect(await dovecote.claim({ worker: "w" })).toHaveLength(1);
    const { status, findings } = await dovecote.checkSchema();
    expect([status, findings.map(({ name }) => name)]).toEqual(["changed", ["dovecote_deliveries_pending"]]);
  });

  it("SCHEMA-05: a violated CHECK is SCHEMA_MISMATCH, and the row is as it was", async () => {
    const { dovecote, schema, other, claim } = await claimed();
    await other.unsafe(`alter table "${schema}".dovecote_deliveries
      add constraint nothing_is_delivered check (state <> 'delivered')`);
    const rows = (): Promise<unknown> => other`select * from ${other(schema)}.dovecote_deliveries`;
    const before = await rows();
    const error = await refused("SCHEMA_MISMATCH", () => dovecote.ack(claim));
    judged(error, { retryable: false });
    expect(error.cause).toMatchObject({ code: "23514", constraint_name: "nothing_is_delivered" });
    expect(await rows()).toEqual(before);
  });
});

describe("secrets", () => {
  // The detail of a violated CHECK prints the row as it would have been, and a renewed claim keeps its token.
  const VIOLATED = "constraint only_shared check (claim_shared) not valid";

  it.each([false, true])(
    "ERR-04: a violated CHECK does not show the token, with debug: %s",
    async (debug) => {
      const name = await role("superuser");
      const options = { ...as(name), ...(debug && { debug: () => {} }) };
      const { dovecote, schema, other, claim } = await claimed(options);
      const token = claim.token.reveal();
      await other.unsafe(`alter table "${schema}".dovecote_deliveries add ${VIOLATED}`);
      const native: unknown = await other
        .unsafe(`update "${schema}".dovecote_deliveries set claim_expires_at = clock_timestamp()`)
        .catch((error: unknown) => error);
      expect(native).toMatchObject({ code: "23514", detail: expect.stringContaining(token) });

      const error = await refused("SCHEMA_MISMATCH", () => dovecote.renew(claim, { leaseMs: 54_321 }));
      expect(error.cause).toMatchObject({ code: "23514" });
      const text = shown(error);
      const bytes = [...Buffer.from(token, "hex")];
      for (const secret of [
        token,
        bytes.join(","),
        bytes.join(", "),
        ROLE_PASSWORD,
        name,
        "54321",
        "54_321",
      ]) {
        expect(text).not.toContain(secret);
      }
      expect(text).not.toMatch(/with locked|claim_expires_at|Failing row|claim_token/);
      expect(Object.keys(error.cause as object).sort()).toEqual([
        "code",
        "constraint_name",
        "name",
        "table_name",
      ]);
    },
  );

  it("ERR-04: the data of an event is not shown by what refuses it", async () => {
    const { dovecote, schema, other } = await migrated();
    await other.unsafe(`alter table "${schema}".dovecote_events
      add constraint no_events check (stream <> 'orders') not valid`);
    const call = (): Promise<unknown> =>
      dovecote.transaction((tx) => dovecote.enqueue(tx, event("1", { data: { card: "4111-1111" } })));
    const text = shown(await refused("SCHEMA_MISMATCH", call));
    expect(text).not.toContain("4111");
    expect(text).not.toContain(Buffer.from("4111-1111").toString("hex"));
  });
});
