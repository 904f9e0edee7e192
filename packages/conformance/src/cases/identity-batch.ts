/** ID-06 and ID-07: batches, and identities of the greatest size. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { BOUNDS, type EnqueueManyOutcome, type NewEvent } from "@dovecote/core";
import type { Case, Peer } from "../case.ts";
import { refused } from "./expect.ts";
import { enqueued, event } from "./given.ts";
import { accepted, assertStored, eventOf, nothingWritten } from "./written.ts";

const SOURCES = ["/b", "/a", "/c"] as const;

export const identityBatchCases: readonly Case[] = [
  {
    id: "ID-06",
    level: 1,
    intent: "a batch answers per item, in input order, as if sent one by one",
    async run(t) {
      const { session, outbox } = t;
      const stored = event({ id: "stored", data: 1 });
      const other = { ...stored, data: 2 };
      const twice = event({ id: "twice", source: "/b", data: 1 });
      const batch: readonly NewEvent[] = [
        event({ id: "z", source: "/z" }),
        stored,
        other,
        twice,
        event({ id: "a", source: "/a" }),
        twice,
        { ...twice, type: "other", data: 2 },
        other,
        event({ id: "m", source: "/m" }),
      ];
      await enqueuedIn(t, "batch", [stored]);
      await enqueuedIn(t, "singly", [stored]);
      const before = (await session.probe.events()).map(({ rowId }) => rowId);

      const batched = await enqueuedIn(t, "batch", batch);
      assert.deepEqual(
        batched.map(({ id }) => id),
        batch.map(({ id }) => id),
        "every answer must stand where its item stood",
      );
      assert.deepEqual(
        batched.map(withoutRow),
        [
          { outcome: "enqueued", id: "z" },
          { outcome: "alreadyEnqueued", id: "stored" },
          { outcome: "identityConflict", id: "stored", fields: ["data"] },
          { outcome: "enqueued", id: "twice" },
          { outcome: "enqueued", id: "a" },
          { outcome: "alreadyEnqueued", id: "twice" },
          { outcome: "identityConflict", id: "twice", fields: ["data", "type"] },
          { outcome: "identityConflict", id: "stored", fields: ["data"] },
          { outcome: "enqueued", id: "m" },
        ],
        "every item must be judged as if it were sent after those before it",
      );
      for (const { rowId, id } of batched) {
        const row = await eventOf(session, rowId);
        assert.deepEqual(
          [row.tenant, row.id],
          ["batch", id],
          "every answer must name the row of its identity",
        );
      }

      const singly: EnqueueManyOutcome[] = [];
      for (const each of batch) singly.push(...(await enqueuedIn(t, "singly", [each])));
      assert.deepEqual(batched.map(withoutRow), singly.map(withoutRow), "single calls must answer the same");
      const rows = (await session.probe.events()).filter(({ rowId }) => !before.includes(rowId));
      const content = (tenant: string) =>
        rows
          .filter((row) => row.tenant === tenant)
          .map(({ id, source, type, data }) => [source, id, type, data]);
      assert.deepEqual(
        content("batch").sort(),
        content("singly").sort(),
        "a batch must store what single calls store",
      );
      assert.deepEqual(
        content("batch").map(([source]) => source),
        ["/a", "/b", "/m", "/z"],
        "rows must be inserted in identity order",
      );
      assert.equal(
        (await session.probe.deliveries()).length,
        before.length + rows.length,
        "each has its delivery",
      );
      const pending = await outbox.tenant("batch").stats();
      assert.equal(pending.due.count, 5, "every stored event of the batch must be due");
    },
  },
  {
    id: "ID-06",
    level: 1,
    intent: "rows of a batch are inserted in identity order: by source, then by id",
    async run(t) {
      const batch = Array.from({ length: 30 }, (_, n) =>
        event({
          source: SOURCES[n % SOURCES.length] ?? "/a",
          id: `id-${String((n * 7) % 30).padStart(2, "0")}`,
        }),
      );
      await enqueuedIn(t, "default", batch);
      const rows = (await t.session.probe.events()).map(({ source, id }) => `${source} ${id}`);
      assert.deepEqual(rows, rows.toSorted(), "row ids must rise in identity order");
    },
  },
  {
    id: "ID-06",
    level: 1,
    intent: "a batch of 1,000 lands whole, 1,001 are refused",
    async run(t) {
      const { session, outbox } = t;
      const batch = Array.from({ length: BOUNDS.limit.max }, (_, n) => event({ id: `bulk-${n}` }));
      const outcomes = await enqueuedIn(t, "default", batch);
      assert.deepEqual(
        outcomes.map(({ outcome, id }) => `${outcome} ${id}`),
        batch.map(({ id }) => `enqueued ${id}`),
        "every event must be enqueued, and answered in input order",
      );
      await assertStored(
        session,
        "after the batch",
        batch.map(({ id }) => String(id)),
      );
      await nothingWritten("the batch once more", session, async () => {
        const again = await enqueuedIn(t, "default", batch);
        assert.deepEqual(
          again.map(({ outcome, rowId }) => `${outcome} ${rowId}`),
          outcomes.map(({ rowId }) => `alreadyEnqueued ${rowId}`),
          "every event must be recognised",
        );
      });
      for (const size of [0, BOUNDS.limit.max + 1]) {
        const wrong = Array.from({ length: size }, () => event());
        await nothingWritten(`a batch of ${size}`, session, () =>
          refused(`a batch of ${size}`, ["INVALID_ARGUMENT"], () =>
            session.transaction((tx) => outbox.enqueueMany(tx.handle, wrong)),
          ),
        );
      }
    },
  },
  {
    id: "ID-06",
    level: 1,
    intent: "a batch with one illegal event is refused whole, before anything is written",
    async run(t) {
      const { session, outbox } = t;
      const open = await session.begin();
      for (const at of [0, 1, 2]) {
        const batch = [event(), event(), event()].toSpliced(at, 1, event({ type: "" }));
        const error = await refused("a batch with an illegal event", ["INVALID_EVENT"], () =>
          outbox.enqueueMany(open.handle, batch),
        );
        assert.ok(error.path?.includes(String(at)), `the refusal must name item ${at}, got ${error.path}`);
      }
      await accepted("an enqueue after refused ones", () =>
        outbox.enqueue(open.handle, event({ id: "good" })),
      );
      await open.commit();
      await assertStored(session, "after the refusals", ["good"]);
    },
  },
  {
    id: "ID-07",
    level: 1,
    intent: "an identity of 2,048 bytes of random text works",
    async run(t) {
      const { session, outbox } = t;
      // The longest tenant too: whatever is indexed together has to fit together.
      const tenant = randomText(BOUNDS.tenantBytes, 3);
      for (const [source, id] of [
        [randomSource(1024), randomText(1024, 3)],
        [randomSource(1024), randomText(1024, 4)],
        [randomSource(2047), randomText(1, 1)],
        [randomSource(1025), randomText(1023, 1)],
      ] as const) {
        assert.equal(
          Buffer.byteLength(source + id),
          BOUNDS.identityBytes,
          "the identity must be of the greatest size",
        );
        const given = event({ source, id });
        const [first] = await enqueuedIn(t, tenant, [given]);
        assert.equal(first?.outcome, "enqueued", "an identity of 2,048 bytes must be enqueued");
        const [again] = await enqueuedIn(t, tenant, [given]);
        assert.deepEqual(
          [again?.outcome, again?.rowId],
          ["alreadyEnqueued", first?.rowId],
          "an identity of 2,048 bytes must be recognised",
        );
        // Only the last byte differs: no part of an identity may be cut off.
        const [sibling] = await enqueuedIn(t, tenant, [{ ...given, source: otherEnd(source) }]);
        assert.equal(sibling?.outcome, "enqueued", "an identity that differs at its end must be another one");
      }
      const rows = await session.probe.events();
      const { entries } = await outbox.tenant(tenant).page();
      assert.deepEqual(
        entries.map(({ event }) => ("id" in event ? [event.source, event.id] : event)),
        rows.map(({ source, id }) => [source, id]),
        "identities must come back as they were given",
      );
    },
  },
  {
    id: "ID-07",
    level: 1,
    intent: "an identity of 2,049 bytes is refused before SQL",
    async run(t) {
      const { session, outbox } = t;
      await enqueued(t, event({ id: "before" }));
      const open = await session.begin();
      for (const [what, source, id] of [
        ["2,049 bytes together", randomSource(1025), randomText(1024, 3)],
        ["an id of 1,025 bytes", "/s", randomText(1025, 1)],
        ["an id of 342 characters and 1,026 bytes", "/s", randomText(1026, 3)],
        ["a source of 2,049 bytes", randomSource(2049), "i"],
      ] as const) {
        await refused(what, ["INVALID_EVENT"], () => outbox.enqueue(open.handle, event({ source, id })));
        await refused(`${what}, in a batch`, ["INVALID_EVENT"], () =>
          outbox.enqueueMany(open.handle, [event(), event({ source, id })]),
        );
      }
      // A statement that failed could have ended the transaction: there was none.
      await accepted("an enqueue after refused ones", () =>
        outbox.enqueue(open.handle, event({ id: "after" })),
      );
      await open.commit();
      await assertStored(session, "after the refusals", ["before", "after"]);
    },
  },
];

async function enqueuedIn(
  { session, outbox }: Peer,
  tenant: string,
  events: readonly NewEvent[],
): Promise<readonly EnqueueManyOutcome[]> {
  return accepted("a batch", () =>
    session.transaction((tx) => outbox.tenant(tenant).enqueueMany(tx.handle, events)),
  );
}

function withoutRow(outcome: EnqueueManyOutcome): object {
  const { outcome: answer, id } = outcome;
  return "fields" in outcome
    ? { outcome: answer, id, fields: [...outcome.fields].sort() }
    : { outcome: answer, id };
}

/** A relative reference of `bytes` random characters: nothing that an index could compress. */
function randomSource(bytes: number): string {
  return `/${randomBytes(bytes).toString("base64url")}`.slice(0, bytes);
}

/** Random text of `bytes` bytes, in characters of 1, 3 or 4 bytes; what they leave over is filled with letters. */
function randomText(bytes: number, width: 1 | 3 | 4): string {
  if (width === 1) return randomBytes(bytes).toString("base64url").slice(0, bytes);
  const start = width === 3 ? 0x4e00 : 0x20000; // CJK, and its extension B: 20,000 code points without a gap
  const count = Math.floor(bytes / width);
  const random = randomBytes(count * 2);
  const points = Array.from({ length: count }, (_, i) => start + (random.readUInt16LE(i * 2) % 20_000));
  return String.fromCodePoint(...points) + "x".repeat(bytes - count * width);
}

function otherEnd(text: string): string {
  return text.slice(0, -1) + (text.endsWith("A") ? "B" : "A");
}
