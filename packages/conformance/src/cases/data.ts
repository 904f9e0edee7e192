import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { isDecoded, type NewEvent, type OutboxEvent } from "@dovecote/core";
import type { Case, Outbox } from "../case.ts";
import { refused } from "./expect.ts";
import { claimed, enqueued, event } from "./given.ts";
import { accepted, assertStored, everything, nothingWritten } from "./written.ts";

const MIB = 1024 * 1024;
const DEPTH = 500;
const text = new TextEncoder();

/** What does not survive a driver that stores strings: each as a whole string, and inside of one. */
const UNSTORABLE: readonly (readonly [what: string, text: string])[] = [
  ["NUL", "\0"],
  ["NUL in the middle", "a\0b"],
  ["a lone high surrogate", "a\uD83D"],
  ["a lone low surrogate", "\uDD4Ab"],
  ["surrogates in the wrong order", "\uDD4A\uD83D"],
];

export const dataCases: readonly Case[] = [
  {
    id: "DATA-01",
    level: 1,
    intent: "1 MiB round-trips where the limit is raised, and is refused where it is not",
    async run(t) {
      const { session, outbox, connect } = t;
      const raised = await connect({ maxEventBytes: 2 * MIB });
      const bytes = new Uint8Array(randomBytes(MIB));
      const letters = randomBytes(MIB / 2).toString("hex");
      const emoji = "🕊".repeat(MIB / 4);
      for (const [what, given] of [
        ["1 MiB of bytes", event({ data: bytes })],
        ["1 MiB of text", event({ data: letters, datacontenttype: "text/plain" })],
        ["a JSON string of 1 MiB", event({ data: emoji })],
      ] as const) {
        await nothingWritten(`${what} under the default limit`, session, () =>
          refused(`${what} under the default limit`, ["EVENT_TOO_LARGE"], () => enqueued(t, given)),
        );
        const { rowId } = await accepted(`${what} under a raised limit`, () => enqueued(raised, given));
        // The limit is one of writing: whoever has a lower one can still read.
        for (const read of await readBoth(outbox, rowId)) {
          assert.ok(equal(read.data, given.data), `${what} must come back as it was given`);
          const expected = what === "a JSON string of 1 MiB" ? MIB + 2 : MIB;
          assert.equal(read.dataBytes.length, expected, `${what} must come back whole`);
        }
        const again = await accepted(`${what} once more`, () => enqueued(raised, given));
        assert.equal(again.outcome, "alreadyEnqueued", `${what} must be recognised`);
      }
    },
  },
  {
    id: "DATA-01",
    level: 1,
    intent: "empty, deep and hostile data round-trips",
    async run(t) {
      const deepText = `${"[".repeat(DEPTH)}${"]".repeat(DEPTH)}`;
      const samples: readonly (readonly [what: string, data: unknown, json: string])[] = [
        ["an empty object", {}, "{}"],
        ["deep data", JSON.parse(deepText), deepText],
        ["a __proto__ key", JSON.parse('{"__proto__":{"x":1},"a":2}'), '{"__proto__":{"x":1},"a":2}'],
        ["a nested __proto__ key", JSON.parse('[{"__proto__":null}]'), '[{"__proto__":null}]'],
        [
          "names of built-ins",
          { constructor: 1, toString: 2, length: 3 },
          '{"constructor":1,"toString":2,"length":3}',
        ],
        ["emoji", { "👩‍👩‍👧": "🕊\u0301 é e\u0301" }, '{"👩‍👩‍👧":"🕊\u0301 é e\u0301"}'],
        [
          "control characters",
          "\u0001\b\t\n\f\r\u001f\u007f\u2028",
          '"\\u0001\\b\\t\\n\\f\\r\\u001f\u007f\u2028"',
        ],
        ["noncharacters and the last code point", "\uFFFE\uFFFF\u{10FFFF}", '"\uFFFE\uFFFF\u{10FFFF}"'],
        ["quotes and placeholders", "'; -- \" \\ $1 ? :a %s {x}", '"\'; -- \\" \\\\ $1 ? :a %s {x}"'],
        ["numbers", [0.1, -1e-7, 2 ** 53, 1.7e308], "[0.1,-1e-7,9007199254740992,1.7e+308]"],
      ];
      for (const [what, data, json] of samples) {
        const { rowId } = await enqueued(t, event({ data }));
        for (const read of await readBoth(t.outbox, rowId)) {
          assert.equal(
            Buffer.from(read.dataBytes).toString(),
            json,
            `${what} must be stored as its JSON text`,
          );
          assert.equal(JSON.stringify(read.data), json, `${what} must come back as it was given`);
        }
      }
      assert.equal(Object.hasOwn(Object.prototype, "x"), false, "no prototype may be touched");
      const empty = await enqueued(t, event({ data: new Uint8Array(0) }));
      for (const read of await readBoth(t.outbox, empty.rowId)) {
        assert.deepEqual(
          [read.dataKind, read.data],
          ["binary", new Uint8Array(0)],
          "empty bytes must come back",
        );
      }
    },
  },
  {
    id: "DATA-01",
    level: 1,
    intent: "integers beyond 2^53 come back in the raw bytes they were given in",
    async run(t) {
      const written =
        '{"id":9007199254740993, "big":123456789012345678901234567890,"exact":0.10000000000000000001}';
      const { rowId } = await enqueued(t, event({ data: { json: text.encode(written) } }));
      for (const read of await readBoth(t.outbox, rowId)) {
        assert.equal(read.dataKind, "json", "raw JSON bytes must come back as JSON");
        assert.equal(
          Buffer.from(read.dataBytes).toString(),
          written,
          "raw JSON must come back byte for byte",
        );
        assert.deepEqual(
          read.data,
          JSON.parse(written),
          "raw JSON must be decoded by the rules of JSON.parse",
        );
      }
    },
  },
  {
    id: "DATA-02",
    level: 1,
    intent: "NUL and lone surrogates in the strings of an event are refused",
    async run({ session, outbox }) {
      const open = await session.begin();
      for (const [what, bad] of UNSTORABLE) {
        const places: readonly (readonly [where: string, given: NewEvent])[] = [
          ["the id", event({ id: bad })],
          ["the source", event({ source: `/${bad}` })],
          ["the type", event({ type: bad })],
          ["the subject", event({ subject: bad })],
          ["the time", event({ time: `2024-02-29T23:59:59Z${bad}` })],
          ["the media type", event({ datacontenttype: `application/json${bad}` })],
          ["the schema", event({ dataschema: `https://example.com/${bad}` })],
          ["the partition key", event({ partitionkey: bad })],
          ["the stream", event({ stream: `orders${bad}` })],
          ["an extension", event({ extensions: { region: bad } })],
          ["an extension's uri", event({ extensions: { link: { type: "uri", value: `https://a/${bad}` } } })],
          ["an extension's name", event({ extensions: { [`a${bad}`]: 1 } })],
          ["a JSON string", event({ data: bad })],
          ["a nested JSON string", event({ data: { list: [1, { text: bad }] } })],
          ["the name of a JSON member", event({ data: { [bad]: 1 } })],
          ["text", event({ data: bad, datacontenttype: "text/plain" })],
          ["raw JSON, as an escape", event({ data: { json: text.encode(`{"a":"${escaped(bad)}"}`) } })],
        ];
        for (const [where, given] of places) {
          await refused(`${what} in ${where}`, ["INVALID_EVENT"], () => outbox.enqueue(open.handle, given));
          await refused(`${what} in ${where} of a batch`, ["INVALID_EVENT"], () =>
            outbox.enqueueMany(open.handle, [event(), given]),
          );
        }
      }
      // No statement was sent that could have failed: the transaction is as good as new.
      await accepted("an enqueue after refused ones", () =>
        outbox.enqueue(open.handle, event({ id: "good" })),
      );
      await open.commit();
      await assertStored(session, "after the refusals", ["good"]);
    },
  },
  {
    id: "DATA-02",
    level: 1,
    intent: "NUL and lone surrogates in names are refused, and in binary data they are bytes",
    async run(t) {
      const { session, outbox } = t;
      await enqueued(t, event({ data: "due" }));
      for (const [what, bad] of UNSTORABLE) {
        await nothingWritten(`${what} in a name`, session, async () => {
          await refused(`${what} in a worker`, ["INVALID_ARGUMENT"], () => outbox.claim({ worker: bad }));
          await refused(`${what} in a stream`, ["INVALID_ARGUMENT"], () =>
            outbox.claim({ worker: "w1", stream: `orders${bad}` }),
          );
          await refused(`${what} in a tenant`, ["INVALID_ARGUMENT"], () =>
            session.transaction((tx) => outbox.tenant(`acme${bad}`).enqueue(tx.handle, event())),
          );
        });
      }
      await outbox.ack(await claimed(outbox));
      for (const [what, bytes] of [
        ["NUL", Uint8Array.of(0)],
        ["NUL in the middle", Uint8Array.of(0x61, 0, 0x62)],
        ["NUL at the end", Uint8Array.of(0x61, 0, 0)],
        ["an encoded surrogate", Uint8Array.of(0xed, 0xa0, 0xbd)],
      ] as const) {
        for (const datacontenttype of [undefined, "application/octet-stream", "text/plain"]) {
          const { rowId } = await enqueued(t, event({ data: bytes, datacontenttype }));
          for (const read of await readBoth(outbox, rowId)) {
            assert.deepEqual(read.data, bytes, `${what} in binary data must come back as bytes`);
          }
        }
      }
    },
  },
  {
    id: "DATA-03",
    level: 1,
    intent: "changing the caller's objects after enqueue changes nothing stored",
    async run({ session, outbox }) {
      const json = text.encode('{"raw":1}');
      const list = [1, 2, 3];
      const object = { list, nested: { value: "before" } };
      const bytes = Uint8Array.of(1, 2, 3);
      const binary = Uint8Array.of(4, 5, 6);
      const time = new Date("2024-02-29T00:00:00.000Z");
      const extensions = { signature: binary, region: "before" };
      const first = { ...event({ id: "object", data: object, extensions, time }) };
      const batch = [event({ id: "bytes", data: bytes }), event({ id: "raw", data: { json } })];

      const open = await session.begin();
      // Changed while the call may still be under way, before it is awaited.
      const single = outbox.enqueue(open.handle, first);
      first.type = "after";
      first.subject = "after";
      list.push(4);
      object.nested.value = "after";
      extensions.region = "after";
      binary.fill(9);
      time.setTime(0);
      await single;
      const many = outbox.enqueueMany(open.handle, batch);
      bytes.fill(9);
      json.fill(0x20);
      batch.length = 0;
      const outcomes = await many;
      await open.commit();

      assert.deepEqual(
        outcomes.map(({ id }) => id),
        ["bytes", "raw"],
        "the answers must be those of the batch that was given",
      );
      const read = new Map<string, OutboxEvent>();
      for (const { event } of (await outbox.page()).entries) if (isDecoded(event)) read.set(event.id, event);
      const stored = read.get("object");
      assert.deepEqual(
        [stored?.type, stored?.subject, stored?.time],
        ["test", undefined, "2024-02-29T00:00:00.000Z"],
        "attributes must be stored as they were at the call",
      );
      const data = { list: [1, 2, 3], nested: { value: "before" } };
      assert.deepEqual(stored?.data, data, "data must be stored as it was at the call");
      assert.deepEqual(
        { ...stored?.extensions },
        {
          signature: { type: "binary", value: Uint8Array.of(4, 5, 6) },
          region: { type: "string", value: "before" },
        },
        "extensions must be stored as they were at the call",
      );
      assert.deepEqual(
        read.get("bytes")?.data,
        Uint8Array.of(1, 2, 3),
        "bytes must be stored as they were at the call",
      );
      assert.deepEqual(read.get("raw")?.data, { raw: 1 }, "raw JSON must be stored as it was at the call");
    },
  },
  {
    id: "DATA-03",
    level: 1,
    intent: "changing a returned object changes nothing stored, and no later answer",
    async run(t) {
      const { session, outbox } = t;
      const given = { data: Uint8Array.of(1, 2, 3), extensions: { signature: Uint8Array.of(4, 5, 6) } };
      const { rowId } = await enqueued(t, event(given));
      const claim = await claimed(outbox);
      const before = await everything(session);
      const returned = [claim.event, ...(await readBoth(outbox, rowId))].filter(isDecoded);
      assert.equal(returned.length, 3, "every answer must carry the decoded event");
      for (const read of returned) {
        if (read.data instanceof Uint8Array) read.data.fill(9);
        read.dataBytes.fill(9);
        for (const extension of Object.values(read.extensions)) {
          if (extension.type === "binary") extension.value.fill(9);
        }
      }
      assert.deepEqual(await everything(session), before, "a changed answer must change nothing stored");
      for (const read of await readBoth(outbox, rowId)) {
        assert.deepEqual(read.data, given.data, "a later answer must not share memory with an earlier one");
        const expected = { signature: { type: "binary", value: given.extensions.signature } };
        assert.deepEqual({ ...read.extensions }, expected, "extensions must not be shared between answers");
      }
    },
  },
];

/** The event of a row as two different calls read it; claims it first if nobody has. */
async function readBoth(outbox: Outbox, rowId: number): Promise<readonly OutboxEvent[]> {
  const [claim] = await outbox.claim({ worker: "reader", limit: 1 });
  const { entries } = await outbox.page({ after: rowId - 1, limit: 1 });
  const found = await outbox.inspect(rowId);
  const events = [
    ...(claim?.rowId === rowId ? [claim.event] : []),
    entries[0]?.rowId === rowId ? entries[0].event : undefined,
    found.outcome === "found" ? found.entry.event : undefined,
  ];
  return events.map((read) => {
    assert.ok(read !== undefined && isDecoded(read), `row ${rowId} must be readable`);
    return read;
  });
}

function equal(read: unknown, given: unknown): boolean {
  if (given instanceof Uint8Array) return read instanceof Uint8Array && Buffer.compare(read, given) === 0;
  return read === given;
}

/** Every code unit as an escape of JSON. */
function escaped(bad: string): string {
  return Array.from(
    { length: bad.length },
    (_, i) => `\\u${bad.charCodeAt(i).toString(16).padStart(4, "0")}`,
  ).join("");
}
