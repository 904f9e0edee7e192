import assert from "node:assert/strict";
import type { NewEvent } from "@dovecote/core";
import type { Case } from "../case.ts";
import { deliveryOf } from "./expect.ts";
import { claimed, enqueued, event } from "./given.ts";
import { identityBatchCases } from "./identity-batch.ts";
import { identityContentCases } from "./identity-content.ts";
import { identityLifeCases } from "./identity-life.ts";
import { identityRaceCases } from "./identity-race.ts";
import { accepted, assertStored, deliveredLongAgo, eventOf, nothingWritten } from "./written.ts";

/** An event with everything a caller can give. */
const COMPLETE: NewEvent = {
  stream: "orders",
  source: "/shop?branch=7",
  id: "order-17",
  type: "com.example.order.placed",
  subject: "orders/17",
  time: "2026-02-03T04:05:06.789Z",
  datacontenttype: "application/json",
  dataschema: "https://example.com/schemas/order",
  partitionkey: "customer-9",
  extensions: { priority: 3, region: "eu" },
  data: { order: 17, total: "99.90" },
};

export const identityCases: readonly Case[] = [
  {
    id: "ID-01",
    level: 1,
    intent: "a new identity is enqueued, and the answer carries its row id",
    async run(t) {
      const { session } = t;
      const { outcome, rowId, id } = await enqueued(t, COMPLETE);
      assert.deepEqual(
        [outcome, id],
        ["enqueued", "order-17"],
        "a new identity must be enqueued under its id",
      );
      const stored = await eventOf(session, rowId);
      assert.deepEqual(
        [stored.tenant, stored.stream, stored.source, stored.id],
        ["default", "orders", "/shop?branch=7", "order-17"],
        "the row must be that of the identity",
      );
      const { availableAt: _availableAt, ...delivery } = await deliveryOf(session, rowId);
      assert.deepEqual(
        delivery,
        {
          rowId,
          tenant: "default",
          state: "pending",
          attempts: 0,
          forgiven: 0,
          token: null,
          worker: null,
          shared: null,
          expiresAt: null,
          failureCode: null,
          failureDetail: null,
          failedAt: null,
          deliveredAt: null,
          quarantinedAt: null,
          quarantineReason: null,
        },
        "a new event must have a pending delivery without any past",
      );

      const { id: _id, ...anonymous } = COMPLETE;
      const drawn = [await enqueued(t, anonymous), await enqueued(t, anonymous)];
      for (const each of drawn) {
        assert.equal(each.outcome, "enqueued", "an event without an id must be given a new one");
        assert.equal(
          (await eventOf(session, each.rowId)).id,
          each.id,
          "the answer must carry the id that was drawn",
        );
      }
      assert.notEqual(drawn[0]?.id, drawn[1]?.id, "every drawn id must be another one");
    },
  },
  {
    id: "ID-01",
    level: 1,
    intent: "identities that differ only in case, accents, normal form or a space are different events",
    async run(t) {
      const ids = ["key", "KEY", "kéy", "ke\u0301y", "key ", " key", "ｋｅｙ", "1", "01", "1.0", "ß", "ss"];
      const rows: number[] = [];
      for (const id of ids) {
        const { outcome, rowId } = await enqueued(t, event({ id, data: "same" }));
        assert.equal(outcome, "enqueued", `the id ${JSON.stringify(id)} must be an identity of its own`);
        rows.push(rowId);
      }
      for (const source of ["/conformance/", "/Conformance", "/%63onformance"]) {
        const { outcome } = await enqueued(t, event({ id: "key", source, data: "same" }));
        assert.equal(outcome, "enqueued", `the source ${source} must be an identity of its own`);
      }
      for (const [index, id] of ids.entries()) {
        const again = await enqueued(t, event({ id, data: "same" }));
        assert.deepEqual(
          [again.outcome, again.rowId],
          ["alreadyEnqueued", rows[index]],
          `the id ${JSON.stringify(id)} must be found as its own row`,
        );
      }
    },
  },
  {
    id: "ID-02",
    level: 1,
    intent:
      "the same identity with the same content is already enqueued, in every state, and nothing changes",
    async run(t) {
      const { session, outbox } = t;
      const { rowId } = await enqueued(t, COMPLETE);
      const again = (state: string) =>
        nothingWritten(`the same event while it is ${state}`, session, async () => {
          const call = () => enqueued(t, { ...COMPLETE });
          const { outcome, rowId: found, id } = await accepted(`the same event while ${state}`, call);
          const expected = ["alreadyEnqueued", rowId, "order-17"];
          assert.deepEqual(
            [outcome, found, id],
            expected,
            `the event must be recognised while it is ${state}`,
          );
          const [batched] = await session.transaction((tx) => outbox.enqueueMany(tx.handle, [COMPLETE]));
          assert.deepEqual(
            batched,
            { outcome: "alreadyEnqueued", rowId, id: "order-17" },
            `the event must be recognised in a batch while it is ${state}`,
          );
        });

      await again("pending");
      await claimed(outbox);
      await again("claimed");
      await session.faults.expireLeases([rowId]);
      await again("claimed, with its lease expired");
      await outbox.quarantine(await claimed(outbox, { worker: "w2" }), { reason: "for this case" });
      await again("quarantined");
      await outbox.redrive(rowId);
      await again("pending again");
      await outbox.ack(await claimed(outbox));
      await again("delivered");
      await assertStored(session, "throughout", ["order-17"]);
    },
  },
  {
    id: "ID-02",
    level: 1,
    intent: "the same event twice in one transaction is one event",
    async run({ session, outbox }) {
      const open = await session.begin();
      const first = await outbox.enqueue(open.handle, COMPLETE);
      const second = await accepted("the second", () => outbox.enqueue(open.handle, COMPLETE));
      await open.commit();
      assert.equal(first.outcome, "enqueued", "the first must be enqueued");
      assert.deepEqual(
        second,
        { outcome: "alreadyEnqueued", rowId: first.rowId, id: "order-17" },
        "the second must be recognised before the commit",
      );
      await assertStored(session, "after the commit", ["order-17"]);
    },
  },
  ...identityContentCases,
  ...identityRaceCases,
  {
    id: "ID-05",
    level: 1,
    intent: "the same identity in two tenants is two events",
    async run(t) {
      const { session, outbox } = t;
      const enqueue = (tenant: string, given: NewEvent) =>
        accepted(`an event of tenant ${tenant}`, () =>
          session.transaction((tx) => outbox.tenant(tenant).enqueue(tx.handle, given)),
        );
      const tenants = ["acme", "ACME", "default", "zeta"];
      const rows = new Map<string, number>();
      for (const tenant of tenants) {
        // Content of its own: whatever is compared across tenants would be a conflict.
        const { outcome, rowId } = await enqueue(tenant, event({ id: "shared", data: { tenant } }));
        assert.equal(outcome, "enqueued", `tenant ${tenant} must get an event of its own`);
        rows.set(tenant, rowId);
      }
      assert.equal(new Set(rows.values()).size, tenants.length, "every tenant must have its own row");
      await nothingWritten("the same events once more", session, async () => {
        for (const tenant of tenants) {
          const again = await enqueue(tenant, event({ id: "shared", data: { tenant } }));
          assert.deepEqual(
            [again.outcome, again.rowId],
            ["alreadyEnqueued", rows.get(tenant)],
            `tenant ${tenant} must find its own row`,
          );
        }
      });
      const stored = (await session.probe.events()).map(({ tenant, rowId }) => [tenant, rowId]);
      assert.deepEqual(stored, [...rows], "every row must be that of its tenant");

      const kept = event({ id: "pruned", data: "kept" });
      const { rowId } = await enqueue("acme", kept);
      await deliveredLongAgo(t, event({ id: "pruned" }));
      await outbox.prune({ olderThanMs: 60_000 });
      const again = await enqueue("acme", kept);
      assert.deepEqual(
        [again.outcome, again.rowId],
        ["alreadyEnqueued", rowId],
        "a tenant's identity must not end with another tenant's row",
      );
    },
  },
  ...identityBatchCases,
  ...identityLifeCases,
];
