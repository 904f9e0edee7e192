/** Wake-ups on Postgres: what is sent, over which connection, and what becomes of it when that is not to be had (WAKE-01). */
import { createServer } from "node:net";
import type { DovecoteError } from "@dovecote/core";
import type postgresClient from "postgres";
import { describe, expect, it, onTestFinished } from "vitest";
import { startProxy } from "../conformance/silent-proxy.ts";
import { type NotifyOptions, type PostgresDovecote, postgres } from "../src/index.ts";
import { channelOf } from "../src/listener.ts";
import { connect, event, freshSchema, refused, runChild, serverUrl, until } from "./support.ts";
import type { WakeReport } from "./wake-child.ts";

type Store = PostgresDovecote<postgresClient.Sql>;

async function store(notify: boolean | NotifyOptions = true): Promise<{
  readonly sql: postgresClient.Sql;
  readonly schema: string;
  readonly dovecote: Store;
}> {
  const { sql, schema } = await freshSchema();
  await postgres(connect(), { schema }).migrate();
  const dovecote = postgres(sql, { schema, notify });
  onTestFinished(() => dovecote.close());
  return { sql, schema, dovecote };
}

/** What anybody hears who listens on the channel; the last thing heard is the answer's own. */
async function heard(schema: string, during: () => Promise<void>): Promise<readonly string[]> {
  const payloads: string[] = [];
  const ended = Promise.withResolvers<void>();
  const sql = connect({ max: 1 });
  const channel = channelOf(schema);
  await sql.listen(channel, (payload) => {
    if (payload === "end") ended.resolve();
    else payloads.push(payload);
  });
  await during();
  await connect()`select pg_notify(${channel}, 'end')`;
  await ended.promise;
  return payloads;
}

/** Until the store's subscribers were woken after this call. */
async function woken(dovecote: Store): Promise<{ next(): Promise<void>; readonly count: () => number }> {
  let count = 0;
  let resolve: () => void = () => {};
  const subscription = await dovecote.subscribe(() => {
    count += 1;
    resolve();
  });
  onTestFinished(() => subscription.close());
  return {
    count: () => count,
    next: () =>
      new Promise((done) => {
        resolve = done;
      }),
  };
}

describe("what is sent", () => {
  it("is one notification per transaction, with nothing in it", async () => {
    const { sql, schema, dovecote } = await store();
    const payloads = await heard(schema, async () => {
      await sql.begin(async (tx) => {
        await dovecote.enqueueMany(tx, [event("1"), event("2")]);
        await dovecote.enqueue(tx, event("3"));
        await tx.savepoint((nested) => dovecote.enqueue(nested, event("4")));
        await dovecote.enqueue(tx, event("5"));
      });
    });
    expect(payloads).toEqual([""]);
  });

  it("is nothing for a rollback, for an event that is there already, and where the option is off", async () => {
    const { sql, schema, dovecote } = await store();
    await dovecote.transaction((tx) => dovecote.enqueue(tx, event("1")));
    const silent = postgres(sql, { schema });
    const payloads = await heard(schema, async () => {
      await dovecote.transaction((tx) => dovecote.enqueue(tx, event("1")));
      await sql
        .begin(async (tx) => {
          await dovecote.enqueue(tx, event("2"));
          throw new Error("changed my mind");
        })
        .catch(() => {});
      await silent.transaction((tx) => silent.enqueue(tx, event("3")));
    });
    expect(payloads).toEqual([]);
    await refused("UNSUPPORTED", () => silent.subscribe(() => {}));
    expect(silent.capabilities.notify).toBe(false);
    expect(dovecote.capabilities.notify).toBe(true);
  });
});

describe("the listening connection", () => {
  it("is one, whoever listens, beside the pool and gone with the last of them", async () => {
    const { sql, schema, dovecote } = await store();
    const listening = (): Promise<number> =>
      connect()`select 1 from pg_stat_activity where query like ${`%${channelOf(schema)}%`}
        and query not like '%pg_stat_activity%'`.then(({ length }) => length);
    const subscriptions = [await dovecote.subscribe(() => {}), await dovecote.subscribe(() => {})];
    expect(await listening()).toBe(1);
    await sql`select 1`;
    await subscriptions[0]?.close();
    expect(await listening()).toBe(1);
    await subscriptions[1]?.close();
    await until(async () => (await listening()) === 0);
    const again = await woken(dovecote);
    const next = again.next();
    await dovecote.transaction((tx) => dovecote.enqueue(tx, event("1")));
    await next;
  });

  it("may lead elsewhere than the client, past a pooler", async () => {
    const proxy = await startProxy(serverUrl());
    onTestFinished(() => proxy.close());
    const errors: DovecoteError[] = [];
    const { dovecote, schema } = await store({
      listenUrl: proxy.url,
      onError: (error) => errors.push(error),
    });
    const bell = await woken(dovecote);
    let next = bell.next();
    await dovecote.transaction((tx) => dovecote.enqueue(tx, event("1")));
    await next;
    // Nobody listens at the address any more for a while: it is tried until somebody does.
    next = bell.next();
    await connect()`select pg_terminate_backend(pid) from pg_stat_activity where query = ${`listen ${channelOf(schema)}`}`;
    await next;
    expect(errors[0]).toMatchObject({ code: "CONNECTION_LOST", retryable: true });
  });

  it("that is refused fails the subscription with a typed error, without secrets, and a later one may succeed", async () => {
    const { schema } = await store();
    const { port, close } = await closedPort();
    await close();
    const secret = "s3cret-of-the-listener";
    const sql = connect();
    const unreachable = postgres(sql, {
      schema,
      notify: { listenUrl: `postgres://someone:${secret}@127.0.0.1:${port}/postgres` },
    });
    for (let attempt = 1; attempt <= 2; attempt++) {
      const error = await refused("STORE_UNAVAILABLE", () => unreachable.subscribe(() => {}));
      expect(error.retryable).toBe(true);
      expect(JSON.stringify(error) + String(error.stack) + String(error.cause)).not.toContain(secret);
    }
    // Polling works alone.
    await unreachable.transaction((tx) => unreachable.enqueue(tx, event("1")));
    expect(await unreachable.admin().claim({ worker: "w" })).toHaveLength(1);
  });

  it("that is silent from the start is given up, and holds neither close nor the process", {
    timeout: 20_000,
  }, async () => {
    const silent = createServer(() => {});
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void silent.close());
    const { port } = silent.address() as { port: number };
    const { schema } = await store();
    const { report, exit } = await runChild<WakeReport>(new URL("./wake-child.ts", import.meta.url), {
      schema,
      listenUrl: `postgres://postgres@127.0.0.1:${port}/postgres`,
    });
    expect(report).toEqual({ code: "CLOSED" });
    expect(exit).toBe(0);
  });

  it("is made at the next host if the first does not answer", async () => {
    const { port, close } = await closedPort();
    await close();
    const target = new URL(serverUrl());
    const listenUrl = serverUrl().replace(target.host, `127.0.0.1:${port},${target.host}`);
    const { dovecote } = await store({ listenUrl });
    const bell = await woken(dovecote);
    const next = bell.next();
    await dovecote.transaction((tx) => dovecote.enqueue(tx, event("1")));
    await next;
  });

  it("is no condition for a tail: where there is none it polls", async () => {
    const { port, close } = await closedPort();
    await close();
    const { dovecote } = await store({ listenUrl: `postgres://127.0.0.1:${port}/postgres` });
    await dovecote.transaction((tx) => dovecote.enqueue(tx, event("1")));
    for await (const entry of dovecote.tail({ pollMs: 5 })) {
      expect(entry.event).toMatchObject({ id: "1" });
      break;
    }
  });

  it("does not begin after the store was closed, whatever was under way", async () => {
    const { sql, schema } = await store();
    const dovecote = postgres(sql, { schema, notify: true });
    const subscribing = refused("CLOSED", () => dovecote.subscribe(() => {}));
    await dovecote.close();
    await subscribing;
    const left = await sql`select 1 from pg_stat_activity
      where query like ${`listen ${channelOf(schema)}`}`;
    expect(left).toEqual([]);
  });

  it("outlives listeners and watchers that fail, at once or later", async () => {
    const errors: string[] = [];
    const { dovecote, sql, schema } = await store({
      onError: async ({ code }) => {
        errors.push(code);
        throw new Error("the watcher fails");
      },
    });
    const failing = await dovecote.subscribe(async () => {
      throw new Error("the listener fails");
    });
    const bell = await woken(dovecote);
    for (const id of ["1", "2"]) {
      const next = bell.next();
      await dovecote.transaction((tx) => dovecote.enqueue(tx, event(id)));
      await next;
    }
    const next = bell.next();
    await sql`select pg_terminate_backend(pid) from pg_stat_activity where query = ${`listen ${channelOf(schema)}`}`;
    await next;
    expect(errors).toContain("CONNECTION_LOST");
    await failing.close();
  });
});

it("bad options are refused before anything is connected", async () => {
  const sql = connect();
  for (const notify of [
    1,
    "yes",
    null,
    [],
    { listen: "x" },
    { listenUrl: "http://x" },
    { listenUrl: 1 },
    { onError: 1 },
  ]) {
    await refused("INVALID_ARGUMENT", async () => postgres(sql, { notify: notify as never }));
  }
  const bare = { unsafe: sql.unsafe, reserve: sql.reserve, end: sql.end };
  await refused("INVALID_ARGUMENT", async () => postgres(bare, { notify: true }));
});

async function closedPort(): Promise<{ readonly port: number; close(): Promise<void> }> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  return {
    port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
      }),
  };
}
