/** ID-09: what is stored comes back as it was given. */
import assert from "node:assert/strict";
import { type DataKind, type Extension, isDecoded, type NewEvent, type OutboxEvent } from "@dovecote/core";
import type { Case, CaseContext } from "../case.ts";
import { enqueued, event } from "./given.ts";
import { eventOf } from "./written.ts";

const text = new TextEncoder();
const NOTHING = new Uint8Array(0);
const EVERY_BYTE = Uint8Array.from({ length: 256 }, (_, i) => i);

interface Data {
  readonly what: string;
  readonly given: Partial<NewEvent>;
  readonly kind: DataKind;
  readonly data: unknown;
  readonly bytes: Uint8Array;
}

const DATA: readonly Data[] = [
  { what: "absent", given: { data: undefined }, kind: "absent", data: undefined, bytes: NOTHING },
  json("null", null, "null"),
  json("an empty string", "", '""'),
  json("an empty object", {}, "{}"),
  json("an empty array", [], "[]"),
  json("zero", 0, "0"),
  json("false", false, "false"),
  json("a string that looks like JSON", "null", '"null"'),
  json("an object", { b: [1, "zwei", null], a: { c: true } }, '{"b":[1,"zwei",null],"a":{"c":true}}'),
  {
    what: "JSON bytes in their own layout",
    given: { data: { json: text.encode(' {"a" : 1.0, "a": 1e2}\n') } },
    kind: "json",
    data: { a: 100 },
    bytes: text.encode(' {"a" : 1.0, "a": 1e2}\n'),
  },
  binary("empty bytes", NOTHING),
  binary("every byte", EVERY_BYTE),
  binary("bytes that are no UTF-8", Uint8Array.of(0xff, 0xfe, 0x00, 0xc3)),
  binary("bytes that are JSON", text.encode("null")),
  { ...binary("bytes under a JSON media type", text.encode("{}")), given: jsonTyped(text.encode("{}")) },
  plain("empty text", ""),
  plain("text", "line one\r\nline two\t✓"),
  plain("text that is JSON", "null"),
];

const OPTIONAL = {
  subject: "orders/17",
  time: "2024-02-29T23:59:59Z",
  dataschema: "https://example.com/schema",
  partitionkey: "customer-9",
} as const;

const TIMES: readonly string[] = [
  "2024-02-29T23:59:59.123456789+05:30",
  "1969-12-31t23:59:59.000z",
  "2016-12-31T23:59:60Z",
  "0001-01-01T00:00:00-00:00",
  "9999-12-31T23:59:59.999999999999Z",
];

const EXTENSIONS: Readonly<Record<string, Extension>> = {
  aboolean: { type: "boolean", value: false },
  aninteger: { type: "integer", value: -2_147_483_648 },
  astring: { type: "string", value: "3" },
  emptystring: { type: "string", value: "" },
  unicode: { type: "string", value: 'é "quoted" \\ 🕊' },
  abinary: { type: "binary", value: EVERY_BYTE },
  emptybinary: { type: "binary", value: NOTHING },
  auri: { type: "uri", value: "https://example.com/a?b=c" },
  areference: { type: "uri-reference", value: "../a#b" },
  atimestamp: { type: "timestamp", value: "2024-02-29T23:59:59.120+05:30" },
  constructor: { type: "string", value: "a legal name" } as const,
};

export const identityDataCases: readonly Case[] = [
  {
    id: "ID-09",
    level: 1,
    intent: "absent, empty, JSON, text and binary data stay distinct, and their bytes come back exactly",
    async run(t) {
      for (const { what, given, kind, data, bytes } of DATA) {
        for (const { by, read } of await readings(t, event(given))) {
          assert.equal(read.dataKind, kind, `${what}, read by ${by}, must come back as ${kind}`);
          assert.deepEqual(read.data, data, `${what}, read by ${by}, must come back as it was given`);
          assert.equal(
            hex(read.dataBytes),
            hex(bytes),
            `${what}, read by ${by}, must come back byte for byte`,
          );
          assert.equal(read.datacontenttype, given.datacontenttype, `${what} must keep its media type`);
        }
      }
      const stored = await t.session.probe.events();
      for (const [index, { what, kind, bytes }] of DATA.entries()) {
        const row = stored[index];
        assert.equal(row?.dataKind, kind, `${what} must be stored as ${kind}`);
        const expected = kind === "absent" ? null : hex(bytes);
        assert.equal(row?.data?.toLowerCase() ?? null, expected, `${what} must be stored byte for byte`);
      }
    },
  },
  {
    id: "ID-09",
    level: 1,
    intent: "attributes come back as they were given, and what was absent stays absent",
    async run(t) {
      for (const { by, read } of await readings(
        t,
        event({ ...OPTIONAL, datacontenttype: "application/json" }),
      )) {
        for (const [name, value] of Object.entries(OPTIONAL)) {
          const found = read[name as keyof typeof OPTIONAL];
          assert.equal(found, value, `${name}, read by ${by}, must come back as it was given`);
        }
      }
      for (const { by, read } of await readings(t, event())) {
        for (const name of [...Object.keys(OPTIONAL), "datacontenttype"]) {
          assert.ok(!(name in read), `an absent ${name}, read by ${by}, must stay absent`);
        }
        assert.deepEqual({ ...read.extensions }, {}, "there must be no extensions where none were given");
        assert.equal(read.specversion, "1.0", "every event must carry its specversion");
      }
    },
  },
  {
    id: "ID-09",
    level: 1,
    intent: "a time comes back in the very notation it was given in",
    async run(t) {
      for (const time of TIMES) {
        for (const { by, read } of await readings(t, event({ time }))) {
          assert.equal(read.time, time, `a time, read by ${by}, must come back as it was given`);
        }
      }
      const date = new Date("2024-02-29T23:59:59.120Z");
      for (const { read } of await readings(t, event({ time: date }))) {
        assert.equal(read.time, "2024-02-29T23:59:59.120Z", "a Date must come back as its RFC 3339 text");
      }
    },
  },
  {
    id: "ID-09",
    level: 1,
    intent: "extensions come back with their types",
    async run(t) {
      for (const { by, read } of await readings(t, event({ extensions: EXTENSIONS }))) {
        assert.deepEqual(
          { ...read.extensions },
          EXTENSIONS,
          `extensions, read by ${by}, must come back as given`,
        );
      }
      const date = new Date("2024-02-29T23:59:59.120Z");
      const short = {
        a: true,
        b: 7,
        c: "7",
        d: Uint8Array.of(7),
        e: new URL("https://example.com/"),
        f: date,
      };
      for (const { by, read } of await readings(t, event({ extensions: short }))) {
        assert.deepEqual(
          { ...read.extensions },
          {
            a: { type: "boolean", value: true },
            b: { type: "integer", value: 7 },
            c: { type: "string", value: "7" },
            d: { type: "binary", value: Uint8Array.of(7) },
            e: { type: "uri", value: "https://example.com/" },
            f: { type: "timestamp", value: "2024-02-29T23:59:59.120Z" },
          },
          `values that stand for a type, read by ${by}, must come back with that type`,
        );
      }
    },
  },
];

/** Commits an event and reads it back in every way that there is. */
async function readings(
  t: CaseContext,
  given: NewEvent,
): Promise<readonly { readonly by: string; readonly read: OutboxEvent }[]> {
  const { session, outbox } = t;
  const { rowId } = await enqueued(t, given);
  const [claim] = await outbox.claim({ worker: "reader", limit: 1 });
  assert.equal(claim?.rowId, rowId, "the event must be claimable");
  const found = await outbox.inspect(rowId);
  const { entries: paged } = await outbox.page({ after: rowId - 1, limit: 1 });
  const { entries: listed } = await outbox.list({ state: "claimed", limit: 1000 });
  const snapshot = [];
  for await (const entry of await outbox.snapshot()) snapshot.push(entry);
  assert.equal((await eventOf(session, rowId)).id, given.id, "the event must be stored under its id");

  const ways = [
    ["claim", claim?.event],
    ["inspect", found.outcome === "found" ? found.entry.event : undefined],
    ["page", paged[0]?.event],
    ["list", listed.find((entry) => entry.rowId === rowId)?.event],
    ["snapshot", snapshot.find((entry) => entry.rowId === rowId)?.event],
  ] as const;
  return ways.map(([by, read]) => {
    assert.ok(read !== undefined && isDecoded(read), `${by} must read the event`);
    return { by, read };
  });
}

function json(what: string, data: unknown, written: string): Data {
  return { what: `JSON: ${what}`, given: { data }, kind: "json", data, bytes: text.encode(written) };
}

function binary(what: string, bytes: Uint8Array): Data {
  const given = { data: bytes, datacontenttype: "application/octet-stream" };
  return { what, given, kind: "binary", data: bytes, bytes };
}

function jsonTyped(bytes: Uint8Array): Partial<NewEvent> {
  return { data: bytes, datacontenttype: "application/json" };
}

function plain(what: string, data: string): Data {
  return {
    what,
    given: { data, datacontenttype: "text/plain" },
    kind: "text",
    data,
    bytes: text.encode(data),
  };
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}
