import assert from "node:assert/strict";
import type { MigrateReport } from "@dovecote/core";
import type { Case, Peer } from "../case.ts";
import { refused, unchanged } from "./expect.ts";
import { claimed, enqueued, enqueuedAndClaimed } from "./given.ts";
import { schemaMarkerCases } from "./schema-marker.ts";
import { assertSchema, withoutSchema } from "./schema-report.ts";
import { schemaStateCases } from "./schema-states.ts";
import { accepted } from "./written.ts";

export const schemaCases: readonly Case[] = [
  {
    id: "SCHEMA-01",
    level: 1,
    migrate: false,
    intent: "migrate makes an empty place a store; again is a no-op",
    async run(t) {
      const { session, outbox } = t;
      if (!t.capabilities.durable) return withoutSchema(t);
      const first = await outbox.migrate();
      assert.ok(first.applied.length > 0, "migrate on an empty place must say which versions it applied");
      assert.equal(
        first.version,
        Math.max(...first.applied),
        "migrate must answer the version that it reached",
      );
      await assertSchema("after migrate", t, { status: "ok", version: first.version });
      const claim = await enqueuedAndClaimed(t);
      const events = await session.probe.events();
      for (const { outbox: again } of [t, await t.connect()]) {
        const report = await unchanged("a second migrate", session, () => again.migrate());
        assert.deepEqual(
          report,
          { applied: [], version: first.version } satisfies MigrateReport,
          "a second migrate must be a no-op",
        );
      }
      assert.deepEqual(
        await session.probe.events(),
        events,
        "a second migrate must leave the events as they are",
      );
      await assertSchema("after a second migrate", t, { status: "ok", version: first.version });
      await outbox.ack(claim);
    },
  },
  {
    id: "SCHEMA-02",
    level: 1,
    migrate: false,
    intent: "the place that the harness names is used as it is, whatever it is called",
    async run(t) {
      const { session, outbox } = t;
      await outbox.migrate();
      await assertSchema("after migrate", t, { status: t.capabilities.durable ? "ok" : "none" });
      await outbox.ack(await enqueuedAndClaimed(t));
      const [row] = await accepted("a look in the place that its locator names", () =>
        session.probe.deliveries(),
      );
      assert.equal(row?.state, "delivered", "the store must be in the place that its locator names");
      const { outbox: other } = await t.connect();
      assert.equal(
        (await other.page()).entries.length,
        1,
        "another connection must find the store in the same place",
      );
    },
  },
  {
    id: "SCHEMA-03",
    level: 2,
    migrate: false,
    intent: "processes that migrate at once all succeed, and each version is applied once",
    async run(t) {
      const applied: number[] = [];
      await t.race({
        contenders: 6,
        rounds: 1,
        async prepare() {
          return Array.from({ length: 6 }, () => ({ actor: "migrate" as const, input: {} }));
        },
        async check(answers) {
          for (const answer of answers) {
            assert.ok(
              "ok" in answer,
              `every process that migrates must succeed, one got ${JSON.stringify(answer)}`,
            );
            applied.push(...answer.ok);
          }
        },
      });
      assert.equal(new Set(applied).size, applied.length, "every version must be applied once");
      assert.equal(applied.length > 0, t.capabilities.durable, "one of the processes must have migrated");
      const { applied: left } = await t.outbox.migrate();
      assert.deepEqual(left, [], "nothing must be left to apply");
      await assertSchema("after N migrations at once", t, { status: t.capabilities.durable ? "ok" : "none" });
      await t.outbox.ack(await enqueuedAndClaimed(t));
    },
  },
  {
    id: "SCHEMA-08",
    level: 1,
    migrate: false,
    intent: "connecting, constructing and calling create nothing: until migrate, there is no store",
    async run(t) {
      if (!t.capabilities.durable) return withoutSchema(t);
      const other = await t.connect();
      const missing = { status: "missing", version: null } as const;
      await assertSchema("before migrate", t, missing);
      for (const [what, call] of CALLS) {
        await refused(`${what} before migrate`, ["SCHEMA_MISSING"], () => call(other));
      }
      await assertSchema("after calls that were refused", t, missing);
      assert.ok((await t.outbox.migrate()).applied.length > 0, "until migrate, no version must be applied");
      // That there was no schema is not remembered.
      await enqueued(other);
      await other.outbox.ack(await claimed(other.outbox));
    },
  },
  ...schemaMarkerCases,
  ...schemaStateCases,
];

const REF = { rowId: 1, attempt: 1, token: "0".repeat(32) };

const CALLS: readonly (readonly [string, (peer: Peer) => unknown])[] = [
  ["enqueue", (peer) => enqueued(peer)],
  ["claim", ({ outbox }) => outbox.claim({ worker: "w1" })],
  ["ack", ({ outbox }) => outbox.ack(REF)],
  ["renew", ({ outbox }) => outbox.renew(REF)],
  ["redrive", ({ outbox }) => outbox.redrive(1)],
  ["redrive by filter", ({ outbox }) => outbox.redrive({})],
  ["prune", ({ outbox }) => outbox.prune({ olderThanMs: 1000 })],
  ["page", ({ outbox }) => outbox.page()],
  ["list", ({ outbox }) => outbox.list({ state: "pending" })],
  ["stats", ({ outbox }) => outbox.stats()],
  ["inspect", ({ outbox }) => outbox.inspect(1)],
  ["snapshot", ({ outbox }) => outbox.snapshot()],
  ["reconcile", ({ outbox }) => outbox.admin().reconcile(1)],
];
