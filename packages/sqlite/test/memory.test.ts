import Database from "better-sqlite3";
import { describe, expect, it, onTestFinished } from "vitest";
import { capabilities, sqlite } from "../src/index.ts";
import { event, ids, refused } from "./support.ts";

async function inMemory() {
  const db = new Database(":memory:");
  const dovecote = sqlite(db);
  onTestFinished(async () => {
    await dovecote.close();
    db.close();
  });
  await dovecote.migrate();
  return { db, dovecote };
}

describe("a database in memory", () => {
  it("declares what it cannot do", async () => {
    const { dovecote } = await inMemory();
    expect(dovecote.capabilities).toEqual({
      ...capabilities,
      durable: false,
      snapshotIsolation: "bounded",
      notify: true,
    });
    expect(Object.isFrozen(dovecote.capabilities)).toBe(true);
  });

  it("does everything on its one connection", async () => {
    const { db, dovecote } = await inMemory();
    db.transaction(() => {
      for (const id of ["a", "b", "c", "d", "e"]) dovecote.enqueue(db, event({ id }));
    }).immediate();
    await dovecote.transaction((tx) => dovecote.enqueue(tx, event({ id: "f" })));
    expect(ids(db)).toEqual(["a", "b", "c", "d", "e", "f"]);

    const claims = await dovecote.claim({ worker: "w" });
    expect(claims).toHaveLength(6);
    await dovecote.renew(claims);
    const [a, b, c, d] = claims;
    const failure = { code: "c", detail: "d" };
    const outcomes = await dovecote.settle([
      { action: "ack", claim: a as never },
      { action: "retry", claim: b as never, failure, delayMs: 60_000 },
      { action: "release", claim: c as never },
      { action: "quarantine", claim: d as never, reason: "r" },
    ]);
    expect(outcomes.every(({ outcome }) => outcome === "applied")).toBe(true);
    const { due, scheduled, claimed, quarantined } = await dovecote.stats();
    expect([due, scheduled, claimed, quarantined].map(({ count }) => count)).toEqual([1, 1, 2, 1]);
    expect((await dovecote.list({ state: "quarantined" })).entries).toHaveLength(1);
    expect((await dovecote.redrive({})).rowIds).toEqual([d?.rowId]);
    expect((await dovecote.page({ limit: 2 })).cursor).toBe(2);
    expect((await dovecote.checkSchema()).status).toBe("ok");
    expect(await dovecote.admin().reconcile(1)).toEqual({ outcome: "alreadyPresent" });

    db.exec("update dovecote_deliveries set delivered_at = 0 where state = 'delivered'");
    expect(await dovecote.prune({ olderThanMs: 1 })).toEqual({ pruned: 1, more: false });
  });

  it("PAGE-03: a snapshot ends at the row that was the last at its start", async () => {
    const { db, dovecote } = await inMemory();
    const enqueue = (id: string) => db.transaction(() => dovecote.enqueue(db, event({ id }))).immediate();
    enqueue("one");
    enqueue("two");
    await using snapshot = await dovecote.snapshot({ pageSize: 1 });
    expect(snapshot.cursor).toBe(2);
    const seen: number[] = [];
    for await (const entry of snapshot) {
      enqueue(`later-${entry.rowId}`); // the one connection is free in between
      seen.push(entry.rowId);
    }
    expect(seen).toEqual([1, 2]);
  });

  it("PAGE-06: a tail goes on where the snapshot ended", async () => {
    const { db, dovecote } = await inMemory();
    const stop = new AbortController();
    const snapshot = await dovecote.snapshot();
    await snapshot.close();
    db.transaction(() => dovecote.enqueueMany(db, [event(), event()])).immediate();
    const seen: number[] = [];
    for await (const { rowId } of dovecote.tail({ after: snapshot.cursor, signal: stop.signal })) {
      seen.push(rowId);
      if (seen.length === 2) stop.abort();
    }
    expect(seen).toEqual([1, 2]);
  });

  it("works from its path, with the store's own connection", async () => {
    const dovecote = sqlite(":memory:");
    await dovecote.migrate();
    const client = await dovecote.transaction((tx) => {
      dovecote.enqueue(tx, event({ id: "one" }));
      return tx.client;
    });
    expect(await dovecote.claim({ worker: "w" })).toHaveLength(1);
    await dovecote.close();
    expect(client.open).toBe(false);
  });

  it("two of them share nothing", async () => {
    const [one, two] = [await inMemory(), await inMemory()];
    one.db.transaction(() => one.dovecote.enqueue(one.db, event())).immediate();
    expect(await two.dovecote.claim({ worker: "w" })).toEqual([]);
    expect(await one.dovecote.claim({ worker: "w" })).toHaveLength(1);
  });

  it("LIFE-04: is left open, and its contents with it", async () => {
    const { db, dovecote } = await inMemory();
    db.transaction(() => dovecote.enqueue(db, event({ id: "one" }))).immediate();
    await dovecote.close();
    await refused("CLOSED", () => dovecote.page());
    expect(ids(db)).toEqual(["one"]);
  });
});
