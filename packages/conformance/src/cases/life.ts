import assert from "node:assert/strict";
import type { ClaimRef, Handle, Snapshot } from "@dovecote/core";
import type { Case, Peer } from "../case.ts";
import { refused, unchanged } from "./expect.ts";
import { claimed, enqueued, enqueuedAndClaimed, event } from "./given.ts";
import { FAILURE } from "./settling.ts";
import { eventually, promptly, turns } from "./waiting.ts";
import { accepted } from "./written.ts";

export const lifeCases: readonly Case[] = [
  {
    id: "LIFE-01",
    level: 1,
    intent: "every method of a closed store rejects CLOSED, and does nothing",
    async run(t) {
      const { session } = t;
      const claim = await enqueuedAndClaimed(t);
      await enqueued(t);
      const closing = await t.connect();
      const { outbox } = closing;
      await outbox.stats();
      const tenant = outbox.tenant("default");
      const admin = outbox.admin();
      await outbox.close();
      const events = await session.probe.events();
      const handles = [
        ["the store", () => outbox],
        ["a tenant's handle", () => tenant],
        ["the admin handle", () => admin],
        ["a tenant's handle taken after the close", () => outbox.tenant("default")],
        ["the admin handle taken after the close", () => outbox.admin()],
      ] as const;
      for (const [name, handle] of handles) {
        for (const [method, call] of callsOf(claim)) {
          const what = `${method} of ${name} after the close`;
          await unchanged(what, session, () =>
            refused(what, ["CLOSED"], () => promptly(session, what, async () => call(handle()))),
          );
        }
      }
      for (const [method, call] of callsOfStore(closing, claim.rowId)) {
        const what = `${method} after the close`;
        await unchanged(what, session, () => refused(what, ["CLOSED"], call));
      }
      assert.deepEqual(await session.probe.events(), events, "a closed store must write no event");
      await t.outbox.ack(claim);
    },
  },
  {
    id: "LIFE-02",
    level: 1,
    intent: "close is idempotent: again, at the same time, and by dispose",
    async run(t) {
      const { outbox } = await t.connect();
      await outbox.claim({ worker: "w1" });
      await accepted("a close at the same time as another", () =>
        Promise.all([outbox.close(), outbox.close()]),
      );
      await accepted("a close after another", () => outbox.close());
      await accepted("a dispose after a close", () => outbox[Symbol.asyncDispose]());
      const unused = await t.connect();
      await unused.outbox[Symbol.asyncDispose]();
      await unused.outbox.close();
      await refused("a claim after dispose", ["CLOSED"], () => unused.outbox.claim({ worker: "w1" }));
      await t.outbox.ack(await enqueuedAndClaimed(t));
    },
  },
  {
    id: "LIFE-04",
    level: 1,
    intent: "the application's own client works on after close, and its open transaction is not ended",
    async run(t) {
      const { session, outbox } = await t.connect();
      await enqueued({ session, outbox });
      const open = await session.begin();
      await open.writeBusinessRow("begun before the close");
      const closing = outbox.close();
      await turns(t.session);
      await accepted("the commit of what was open when the store was closed", () => open.commit());
      await promptly(t.session, "close", () => closing);
      await accepted("the application's own transaction after the close", async () => {
        await session.transaction((tx) => tx.writeBusinessRow("written after the close"));
        const again = await session.begin();
        await again.writeBusinessRow("rolled back after the close");
        await again.rollback();
      });
      assert.deepEqual(
        await t.session.probe.businessRows(),
        ["begun before the close", "written after the close"],
        "the application's own transactions must work as before after the store was closed",
      );
      await t.outbox.ack(await claimed(t.outbox));
    },
  },
  {
    id: "LIFE-04",
    level: 1,
    intent: "the application's own client keeps its settings, whatever is called, and whether it succeeds",
    async run(t) {
      const peer = await t.connect();
      const { session, outbox } = peer;
      const before = await session.settings();
      const claim = await enqueuedAndClaimed(peer);
      const kept = async (what: string): Promise<void> =>
        assert.deepEqual(await session.settings(), before, `${what} must leave the client its settings`);
      const calls = [
        ...callsOf(claim)
          .filter(([name]) => name !== "tail")
          .map(([name, call]) => [name, () => call(outbox)] as const),
        ...callsOfStore(peer, claim.rowId),
      ];
      for (const [name, call] of calls) {
        const answer: unknown = await (async () => call())().catch(() => undefined);
        if (answer instanceof Object && "close" in answer) await (answer as Snapshot).close();
        await kept(name);
      }
      await outbox.close();
      await kept("close");
    },
  },
  {
    id: "LIFE-05",
    level: 2,
    intent: "after close nothing of the store keeps the process alive: no timer, no watcher",
    async run(t) {
      const { session } = t;
      await session.probe.now(); // the observer's own connection is there from here on
      const before = resources();
      const peers = [await t.connect(), await t.connect(), await t.connect()];
      for (const peer of peers) {
        const { outbox } = peer;
        if (t.capabilities.notify) await outbox.subscribe(() => {});
        await enqueued(peer);
        await outbox.ack(await claimed(outbox));
        const snapshot = await outbox.snapshot();
        await snapshot.close();
        await outbox.stats();
      }
      for (const { outbox } of peers)
        await promptly(session, "close with an open subscription", () => outbox.close());
      // What the application's own clients hold does not count.
      for (const peer of peers) await peer.session.close();
      await eventually(
        session,
        `timers and watchers must be gone after close, were ${describe(before)}`,
        () => {
          const now = resources();
          return KEEPING_ALIVE.every((kind) => (now.get(kind) ?? 0) <= (before.get(kind) ?? 0));
        },
      );
    },
  },
];

/** What a library may hold on its own account; sockets belong to the application's client. */
const KEEPING_ALIVE: readonly string[] = ["Timeout", "FSEventWrap", "StatWatcher", "Worker", "MessagePort"];

function resources(): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const kind of process.getActiveResourcesInfo()) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return counts;
}

function describe(counts: ReadonlyMap<string, number>): string {
  return JSON.stringify(Object.fromEntries(KEEPING_ALIVE.map((kind) => [kind, counts.get(kind) ?? 0])));
}

function callsOf(claim: ClaimRef): readonly (readonly [string, (handle: Handle) => Promise<unknown>])[] {
  return [
    ["claim", (handle) => handle.claim({ worker: "w2" })],
    ["renew", (handle) => handle.renew(claim)],
    ["renew with a list", (handle) => handle.renew([claim])],
    ["ack", (handle) => handle.ack(claim)],
    ["ack with a list", (handle) => handle.ack([claim])],
    ["retry", (handle) => handle.retry(claim, { failure: FAILURE })],
    ["release", (handle) => handle.release(claim)],
    ["quarantine", (handle) => handle.quarantine(claim, { reason: "gave up" })],
    ["quarantine of a row", (handle) => handle.quarantine(claim.rowId, { reason: "gave up" })],
    ["settle", (handle) => handle.settle([{ action: "ack", claim }])],
    ["page", (handle) => handle.page()],
    ["snapshot", (handle) => handle.snapshot()],
    ["stats", (handle) => handle.stats()],
    ["inspect", (handle) => handle.inspect(claim.rowId)],
    ["subscribe", (handle) => handle.subscribe(() => {})],
    ["redrive", (handle) => handle.redrive(claim.rowId)],
    [
      "tail",
      async (handle) => {
        for await (const { rowId } of handle.tail())
          assert.fail(`the tail of a closed store yielded row ${rowId}`);
      },
    ],
  ];
}

function callsOfStore(
  { session, outbox }: Peer,
  rowId: number,
): readonly (readonly [string, () => unknown])[] {
  const admin = outbox.admin.bind(outbox);
  const olderThanMs = 1000;
  const inTransaction = (call: (tx: unknown) => unknown) => () =>
    session.transaction((tx) => call(tx.handle));
  return [
    ["migrate", () => outbox.migrate()],
    ["checkSchema", () => outbox.checkSchema()],
    [
      "transaction",
      () => outbox.transaction(() => assert.fail("a closed store must not begin a transaction")),
    ],
    ["enqueue", inTransaction((tx) => outbox.enqueue(tx, event()))],
    ["enqueueMany", inTransaction((tx) => outbox.enqueueMany(tx, [event()]))],
    ["enqueue by admin", inTransaction((tx) => admin().enqueue(tx, event(), { tenant: "acme" }))],
    ["redriveIn", inTransaction((tx) => outbox.redriveIn(tx, rowId))],
    ["redriveIn by filter", inTransaction((tx) => outbox.redriveIn(tx, {}))],
    ["redrive by filter", () => outbox.redrive({})],
    ["redrive by filter by admin", () => admin().redrive({ all: true })],
    ["prune", () => outbox.prune({ olderThanMs })],
    ["prune by admin", () => admin().prune({ olderThanMs, all: true })],
    ["list", () => outbox.list({ state: "pending" })],
    ["list by admin", () => admin().list({ state: "pending", all: true })],
    ["reconcile", () => admin().reconcile(rowId)],
  ];
}
