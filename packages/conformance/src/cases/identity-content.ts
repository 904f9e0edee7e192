/** ID-03: what makes two events of one identity different. */
import assert from "node:assert/strict";
import type { NewEvent } from "@dovecote/core";
import type { Case } from "../case.ts";
import { refused } from "./expect.ts";
import { claimed, enqueued, event } from "./given.ts";
import { accepted, assertStored, nothingWritten } from "./written.ts";

const text = new TextEncoder();
const JSON_TEXT = '{"order":17,"total":"99.90"}';
const IDENTITY = { source: "/shop", id: "order-17" } as const;

const STORED: NewEvent = {
  ...IDENTITY,
  stream: "orders",
  type: "order.placed",
  subject: "orders/17",
  time: "2026-02-03T04:05:06Z",
  datacontenttype: "application/json",
  dataschema: "https://example.com/order",
  partitionkey: "customer-9",
  extensions: { priority: 3, region: "eu" },
  data: { json: text.encode(JSON_TEXT) },
};

/** The field that differs, how, and the members that make it so. */
const DIFFERENCES: readonly (readonly [field: string, how: string, changed: Partial<NewEvent>])[] = [
  ["stream", "other", { stream: "invoices" }],
  ["stream", "in case only", { stream: "Orders" }],
  ["type", "other", { type: "order.cancelled" }],
  ["type", "in case only", { type: "Order.placed" }],
  ["subject", "other", { subject: "orders/18" }],
  ["subject", "by a trailing space", { subject: "orders/17 " }],
  ["subject", "absent", { subject: undefined }],
  ["time", "other", { time: "2026-02-03T04:05:07Z" }],
  ["time", "the same moment in another notation", { time: "2026-02-03T04:05:06+00:00" }],
  ["time", "with a fraction of zero", { time: "2026-02-03T04:05:06.000Z" }],
  ["time", "below a microsecond", { time: "2026-02-03T04:05:06.0000001Z" }],
  ["time", "absent", { time: undefined }],
  ["datacontenttype", "other", { datacontenttype: "application/vnd.order+json" }],
  ["datacontenttype", "absent", { datacontenttype: undefined }],
  ["dataschema", "other", { dataschema: "https://example.com/order/2" }],
  ["dataschema", "absent", { dataschema: undefined }],
  ["partitionkey", "other", { partitionkey: "customer-10" }],
  ["partitionkey", "absent", { partitionkey: undefined }],
  ["extensions", "with another value", { extensions: { priority: 4, region: "eu" } }],
  ["extensions", "with another type", { extensions: { priority: "3", region: "eu" } }],
  ["extensions", "with one less", { extensions: { priority: 3 } }],
  ["extensions", "with one more", { extensions: { priority: 3, region: "eu", zone: "b" } }],
  ["extensions", "absent", { extensions: undefined }],
  ["data", "other", { data: { json: text.encode(JSON_TEXT.replace("17", "18")) } }],
  ["data", "in member order only", { data: { total: "99.90", order: 17 } }],
  ["data", "in white space only", { data: { json: text.encode(`${JSON_TEXT} `) } }],
  ["data", "in kind only", { data: text.encode(JSON_TEXT) }],
  ["data", "null", { data: null }],
  ["data", "absent", { data: undefined }],
];

export const identityContentCases: readonly Case[] = [
  {
    id: "ID-03",
    level: 1,
    intent: "any other content is a conflict that names the row and the field, and nothing changes",
    async run(t) {
      const { session, outbox } = t;
      await enqueued(t);
      const { rowId } = await enqueued(t, STORED);
      await enqueued(t);
      for (const [field, how, changed] of DIFFERENCES) {
        const what = `the same identity with ${field} ${how}`;
        await nothingWritten(what, session, async () => {
          const conflict = await refused(what, ["IDENTITY_CONFLICT"], () =>
            enqueued(t, { ...STORED, ...changed }),
          );
          assert.equal(conflict.rowId, rowId, `${what} must be refused by the name of the stored row`);
          assert.deepEqual(conflict.fields, [field], `${what} must be refused by the name of the field`);
          assert.equal(conflict.retryable, false, `${what} must not be called retryable`);
          const batch = [{ ...STORED, ...changed }];
          const [outcome] = await session.transaction((tx) => outbox.enqueueMany(tx.handle, batch));
          const expected = { outcome: "identityConflict", rowId, fields: [field], id: STORED.id };
          assert.deepEqual(outcome, expected, `${what} must be a conflict in a batch too`);
        });
      }
      const both = { ...STORED, type: "order.cancelled", data: undefined };
      const conflict = await refused("two other fields", ["IDENTITY_CONFLICT"], () => enqueued(t, both));
      assert.deepEqual(
        [...(conflict.fields ?? [])].sort(),
        ["data", "type"],
        "every differing field must be named",
      );
    },
  },
  {
    id: "ID-03",
    level: 1,
    intent: "defaults take no part: what was absent is compared as absent",
    async run(t) {
      const { session } = t;
      const bare: NewEvent = { ...IDENTITY, stream: "orders", type: "order.placed" };
      const { rowId } = await enqueued(t, bare);
      await nothingWritten("the bare event once more", session, async () => {
        const again = await accepted("the bare event once more", () =>
          enqueued(t, { ...bare, specversion: "1.0" }),
        );
        assert.deepEqual(
          [again.outcome, again.rowId],
          ["alreadyEnqueued", rowId],
          "it must be the same event",
        );
      });
      for (const field of ["subject", "time", "dataschema", "partitionkey", "datacontenttype"] as const) {
        const what = `a ${field} where none was stored`;
        await nothingWritten(what, session, async () => {
          const conflict = await refused(what, ["IDENTITY_CONFLICT"], () =>
            enqueued(t, { ...bare, [field]: STORED[field] }),
          );
          assert.deepEqual(conflict.fields, [field], `${what} must be refused by the name of the field`);
        });
      }
      for (const data of [null, "", {}, new Uint8Array(0)]) {
        const what = `data ${data === null ? "null" : JSON.stringify(data)} where none was stored`;
        await nothingWritten(what, session, () =>
          refused(what, ["IDENTITY_CONFLICT"], () => enqueued(t, { ...bare, data })),
        );
      }
    },
  },
  {
    id: "ID-03",
    level: 1,
    intent: "data is compared by its exact bytes, to the last one",
    async run(t) {
      const { session } = t;
      const bytes = new Uint8Array(60_000).fill(7);
      await enqueued(t, event({ ...IDENTITY, data: bytes }));
      for (const at of [0, 30_000, bytes.length - 1]) {
        const other = bytes.with(at, 8);
        await nothingWritten("data with one other byte", session, () =>
          refused(`data that differs at byte ${at}`, ["IDENTITY_CONFLICT"], () =>
            enqueued(t, event({ ...IDENTITY, data: other })),
          ),
        );
      }
      await nothingWritten("data with one byte less", session, () =>
        refused("data with one byte less", ["IDENTITY_CONFLICT"], () =>
          enqueued(t, event({ ...IDENTITY, data: bytes.subarray(1) })),
        ),
      );
      const again = await accepted("the same bytes", () => enqueued(t, event({ ...IDENTITY, data: bytes })));
      assert.equal(again.outcome, "alreadyEnqueued", "the same bytes must be the same event");
    },
  },
  {
    id: "ID-03",
    level: 1,
    intent: "a conflict is found in every state, and leaves the transaction usable",
    async run(t) {
      const { session, outbox } = t;
      const { rowId } = await enqueued(t, STORED);
      const other = { ...STORED, type: "order.cancelled" };
      const conflict = (state: string) =>
        nothingWritten(`a conflict with a ${state} row`, session, () =>
          refused(`a conflict with a ${state} row`, ["IDENTITY_CONFLICT"], () => enqueued(t, other)),
        );
      await conflict("pending");
      const claim = await claimed(outbox);
      await conflict("claimed");
      await outbox.quarantine(claim, { reason: "for this case" });
      await conflict("quarantined");
      await outbox.redrive(rowId);
      await outbox.ack(await claimed(outbox));
      await conflict("delivered");

      const open = await session.begin();
      await outbox.enqueue(open.handle, event({ id: "before" }));
      await refused("a conflict", ["IDENTITY_CONFLICT"], () => outbox.enqueue(open.handle, other));
      await accepted("an enqueue after a conflict", () =>
        outbox.enqueue(open.handle, event({ id: "after" })),
      );
      await open.commit();
      await assertStored(session, "after a conflict in the middle", ["order-17", "before", "after"]);
    },
  },
];
