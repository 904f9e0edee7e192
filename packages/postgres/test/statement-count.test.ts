import type { Claim } from "@dovecote/core";
import { describe, expect, it } from "vitest";
import { postgres } from "../src/index.ts";
import { event, type Migrated, migrated } from "./support.ts";

type Counted = Migrated & {
  /** The statements that a call sends, by what they begin with. */
  readonly sent: (call: () => Promise<unknown>) => Promise<readonly string[]>;
};

/** A store whose client counts what it sends, past the first look at the schema. */
async function counted(): Promise<Counted> {
  const statements: string[] = [];
  const store = await migrated({
    fetch_types: false,
    debug: (_connection, statement) => void statements.push(statement),
  });
  await store.dovecote.stats();
  return {
    ...store,
    async sent(call) {
      statements.length = 0;
      await call();
      return statements.map((statement) => /^\w+( set_config)?/.exec(statement.trim())?.[0] ?? statement);
    },
  };
}

const events = (count: number): ReturnType<typeof event>[] =>
  Array.from({ length: count }, (_, index) => event(String(index)));

/** Claims of another client's, of as many new events. */
async function claims({ other, schema }: Migrated, count: number): Promise<readonly Claim[]> {
  const elsewhere = postgres(other, { schema });
  await elsewhere.transaction((tx) => elsewhere.enqueueMany(tx, events(count)));
  return elsewhere.claim({ worker: "w", limit: count });
}

describe("a statement for whatever applies", () => {
  it("claim: one, of any scope, also when there is nothing", async () => {
    const { dovecote, sent, other, schema } = await counted();
    const elsewhere = postgres(other, { schema });
    await elsewhere.transaction((tx) => elsewhere.enqueueMany(tx, events(20)));
    for (const [handle, stream] of [
      [dovecote, undefined],
      [dovecote, "orders"],
      [dovecote.admin(), undefined],
      [dovecote.admin(), "orders"],
      [dovecote.tenant("nobody"), undefined],
    ] as const) {
      const options = { worker: "w", limit: 5, ...(stream !== undefined && { stream }) };
      expect(await sent(() => handle.claim(options))).toEqual(["with"]);
    }
  });

  it("settle of N: one", async () => {
    const store = await counted();
    const [first, second, third, fourth, ...rest] = await claims(store, 100);
    const { dovecote, sent } = store;
    expect(await sent(() => dovecote.ack(rest))).toEqual(["with"]);
    const batch = [
      { action: "ack", claim: first as Claim },
      { action: "retry", claim: second as Claim, failure: { code: "c", detail: "d" }, delayMs: 1 },
      { action: "release", claim: third as Claim },
      { action: "quarantine", claim: fourth as Claim, reason: "r" },
    ] as const;
    expect(await sent(() => dovecote.settle(batch))).toEqual(["with"]);
  });

  it("renew of N: one", async () => {
    const store = await counted();
    const held = await claims(store, 100);
    expect(await store.sent(() => store.dovecote.renew(held))).toEqual(["with"]);
  });

  it("settle and renew of N of which some do not apply: two", async () => {
    const store = await counted();
    const { dovecote, sent } = store;
    const [settled, ...held] = await claims(store, 100);
    await dovecote.ack([settled as Claim]);
    const all = [settled as Claim, ...held];
    expect(await sent(() => dovecote.renew(all))).toEqual(["with", "select"]);
    expect(await sent(() => dovecote.ack(all))).toEqual(["with", "select"]);
    expect(await sent(() => dovecote.release(all))).toEqual(["with", "select"]);
  });
});

describe("enqueue", () => {
  it("of N in our own transaction: one, with the guard armed by BEGIN", async () => {
    const { dovecote, sent } = await counted();
    const call = (): Promise<unknown> =>
      dovecote.transaction(async (tx) => {
        await dovecote.enqueueMany(tx, events(50));
        await dovecote.enqueue(tx, event("another"));
      });
    expect(await sent(call)).toEqual(["begin", "with", "with", "commit"]);
  });

  it("of N of which some are there already: two", async () => {
    const { dovecote, sent } = await counted();
    await dovecote.transaction((tx) => dovecote.enqueueMany(tx, events(10)));
    const call = (): Promise<unknown> => dovecote.transaction((tx) => dovecote.enqueueMany(tx, events(50)));
    expect(await sent(call)).toEqual(["begin", "with", "select", "commit"]);
  });

  it("in the caller's transaction: the first one arms the guard, the others are one each", async () => {
    const { sql, dovecote, sent } = await counted();
    const call = (): Promise<unknown> =>
      sql.begin(async (tx) => {
        await dovecote.enqueueMany(tx, events(50));
        await dovecote.enqueue(tx, event("another"));
        await dovecote.enqueue(tx, event("a third"));
      });
    const statements = await sent(call);
    // What arms it goes out in one round trip, behind BEGIN.
    const first = statements.indexOf("with");
    expect(statements.slice(first)).toEqual(["with", "with", "with", "commit"]);
    expect(statements.slice(0, first)).toEqual(["begin", "select set_config", "select"]);
  });

  it("the schema is looked at once, by the first call", async () => {
    const { sql, schema, sent } = await counted();
    const fresh = postgres(sql, { schema });
    expect(await sent(() => fresh.claim({ worker: "w" }))).toEqual(["select", "select", "with"]);
    expect(await sent(() => fresh.claim({ worker: "w" }))).toEqual(["with"]);
  });
});
