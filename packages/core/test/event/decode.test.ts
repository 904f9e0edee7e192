import { describe, expect, it } from "vitest";
import { decodeEvent } from "../../src/event/decode.ts";
import type { DataKind, EventRecord } from "../../src/event/event.ts";
import { normalizeEvent } from "../../src/event/validate.ts";

const MINIMAL = { stream: "orders", id: "1", source: "/shop", type: "order.placed" };
const record = (more: object = {}): EventRecord =>
  normalizeEvent({ ...MINIMAL, ...more }, { maxEventBytes: 65_536 });

describe("decodeEvent", () => {
  it("leaves out what was not given", () => {
    expect(decodeEvent(record())).toStrictEqual({
      specversion: "1.0",
      id: "1",
      source: "/shop",
      type: "order.placed",
      extensions: Object.create(null),
      dataKind: "absent",
      data: undefined,
      dataBytes: new Uint8Array(0),
    });
  });

  it("ID-09 gives back every attribute, extension and the exact bytes", () => {
    const given = {
      subject: "s",
      time: "2020-01-01T00:00:00.10+01:00",
      datacontenttype: "application/json",
      dataschema: "a:b",
      partitionkey: "k",
    };
    const json = new TextEncoder().encode(' {"n":12345678901234567890}');
    const event = decodeEvent(record({ ...given, extensions: { x: true }, data: { json } }));
    expect(event).toMatchObject({
      ...given,
      extensions: { x: { type: "boolean", value: true } },
      dataKind: "json",
    });
    expect(event.data).toEqual({ n: Number("12345678901234567890") });
    expect(event.dataBytes).toEqual(json);
  });

  it("DATA-03 gives copies: changing them changes neither the record nor each other", () => {
    const stored = record({ data: new Uint8Array([1, 2]), extensions: { b: new Uint8Array([3]) } });
    const event = decodeEvent(stored);
    (event.data as Uint8Array).fill(9);
    expect(event.dataBytes).toEqual(new Uint8Array([1, 2]));
    event.dataBytes.fill(8);
    const { b } = event.extensions as unknown as { b: { value: Uint8Array } };
    b.value.fill(7);
    expect(decodeEvent(stored)).toMatchObject({
      data: new Uint8Array([1, 2]),
      dataBytes: new Uint8Array([1, 2]),
      extensions: { b: { value: new Uint8Array([3]) } },
    });
  });

  it("DATA-03 gives plain bytes, whatever the driver read them into", () => {
    const event = decodeEvent({ ...record({ data: new Uint8Array([1]) }), data: Buffer.from([1]) });
    expect(Buffer.isBuffer(event.dataBytes)).toBe(false);
    expect(Buffer.isBuffer(event.data)).toBe(false);
  });

  const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
  it.each<[string, Partial<EventRecord>, string]>([
    ["an unknown kind", { dataKind: "xml" as DataKind, data: bytes("secret") }, "data is of an unknown kind"],
    [
      "data of kind absent",
      { dataKind: "absent", data: bytes("secret") },
      "data is present although its kind is absent",
    ],
    ["no data", { dataKind: "json", data: null }, "data is missing"],
    ["broken JSON", { dataKind: "json", data: bytes('{"secret') }, "data is not JSON"],
    ["broken text", { dataKind: "text", data: new Uint8Array([0xff]) }, "data is not UTF-8"],
    ["broken extensions", { extensions: "secret" }, "extensions are not JSON"],
    ["other extensions", { extensions: '{"x":"secret"}' }, "an extension is not an object"],
  ])("CLAIM-15 reports a record with %s at once, without its content", (_, broken, reason) => {
    expect(() => decodeEvent({ ...record(), ...broken })).toThrow(new Error(reason));
  });
});
