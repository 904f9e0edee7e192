import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeData, encodeData } from "../../src/event/data.ts";
import type { DataKind } from "../../src/event/event.ts";
import { codeAndPath, refusalOf } from "./errors.ts";

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);

describe("encodeData", () => {
  it.each<[string, unknown, string | undefined, DataKind, string | null]>([
    ["undefined", undefined, undefined, "absent", null],
    ["undefined under a media type", undefined, "application/xml", "absent", null],
    ["null", null, undefined, "json", "null"],
    ["zero", 0, undefined, "json", "0"],
    ["false", false, undefined, "json", "false"],
    ["an empty string", "", undefined, "json", '""'],
    ["a string without a media type", "x", undefined, "json", '"x"'],
    ["a string under a JSON media type", '{"a":1}', "application/json", "json", '"{\\"a\\":1}"'],
    ["a string under text/json", "x", "text/json", "json", '"x"'],
    ["an object", { a: [1, "ä"] }, undefined, "json", '{"a":[1,"ä"]}'],
    ["an object under +json", { a: 1 }, "application/vnd.x+json; v=1", "json", '{"a":1}'],
    ["text", "a\r\nä😀\u0001", "text/plain", "text", "a\r\nä😀\u0001"],
    ["empty text", "", "text/plain", "text", ""],
    ["text with a byte order mark", "\ufeffa", "text/csv", "text", "\ufeffa"],
    ["text in UTF-8", "ä", 'Text/Plain; Charset="UTF-8"', "text", "ä"],
    ["ASCII text", "a", "text/plain; charset=us-ascii", "text", "a"],
  ])("ID-09 stores %s", (_, data, type, kind, text) => {
    expect(encodeData(data, type)).toEqual({ kind, bytes: text === null ? null : utf8(text) });
  });

  it.each([undefined, "application/octet-stream", "application/json", "text/plain; charset=latin1"])(
    "ID-09 stores bytes as bytes under %s",
    (type) => {
      for (const bytes of [new Uint8Array(0), new Uint8Array([0, 0xd8, 0xff]), Buffer.from([1])]) {
        const encoded = encodeData(bytes, type);
        expect(encoded).toEqual({ kind: "binary", bytes: new Uint8Array(bytes) });
        expect(Object.getPrototypeOf(encoded.bytes)).toBe(Uint8Array.prototype);
      }
    },
  );

  it("DATA-03 copies bytes, and of a view only what it shows", () => {
    const memory = new Uint8Array([1, 2, 3, 4]);
    const binary = encodeData(memory.subarray(1, 3), undefined);
    const exact = encodeData({ json: utf8("[1]") }, undefined);
    const source = utf8("[2]");
    const json = encodeData({ json: source }, undefined);
    memory.fill(9);
    source.fill(9);
    expect(binary.bytes).toEqual(new Uint8Array([2, 3]));
    expect(binary.bytes?.buffer.byteLength).toBe(2);
    expect(json.bytes).toEqual(utf8("[2]"));
    expect(exact.bytes).toEqual(utf8("[1]"));
  });

  it("takes bytes of another realm, as test runners make them", async () => {
    const { runInNewContext } = await import("node:vm");
    expect(encodeData(runInNewContext("new Uint8Array([1, 2])"), undefined)).toEqual({
      kind: "binary",
      bytes: new Uint8Array([1, 2]),
    });
    expect(encodeData(runInNewContext("({ a: [1, new Date(0)] })"), undefined).bytes).toEqual(
      utf8('{"a":[1,"1970-01-01T00:00:00.000Z"]}'),
    );
    expect(refusalOf(() => encodeData(runInNewContext("new Map()"), undefined)).code).toBe("INVALID_EVENT");
  });

  it.each([
    '{"n":12345678901234567890, "a":1,"a":2}',
    " [1.0]\n",
    '"x"',
    "1e999",
    '{"__proto__":1}',
    '"\\n"',
  ])("DATA-01 keeps exact JSON bytes: %s", (text) => {
    for (const type of [undefined, "application/json"]) {
      expect(encodeData({ json: utf8(text) }, type)).toEqual({ kind: "json", bytes: utf8(text) });
    }
    expect(encodeData({ json: Buffer.from(text) }, undefined).bytes).toEqual(utf8(text));
  });

  it.each<[string, Uint8Array, string]>([
    ["nothing", utf8(""), ".json"],
    ["no JSON", utf8("{a:1}"), ".json"],
    ["two values", utf8("1 2"), ".json"],
    ["NaN", utf8("NaN"), ".json"],
    ["a byte order mark", utf8("\ufeff1"), ".json"],
    ["no UTF-8", new Uint8Array([0x22, 0xff, 0x22]), ".json"],
    ["overlong UTF-8", new Uint8Array([0x22, 0xc0, 0x80, 0x22]), ".json"],
    ["an encoded surrogate", new Uint8Array([0x22, 0xed, 0xa0, 0x80, 0x22]), ".json"],
    ["UTF-16", new Uint8Array([0x22, 0, 0x22, 0]), ".json"],
    ["an escaped NUL", utf8('{"a":"\\u0000"}'), ".a"],
    ["an escaped lone surrogate", utf8('[1,"\\ud83d"]'), "[1]"],
    ["too many levels", utf8("[".repeat(1001) + "]".repeat(1001)), `${"[0]".repeat(32)}…`],
  ])("DATA-02 refuses exact JSON bytes that are %s", (_, json, below) => {
    expect(codeAndPath(() => encodeData({ json }, undefined))).toEqual({
      code: "INVALID_EVENT",
      path: `event.data${below}`,
    });
  });

  it("takes { json } with anything but bytes, or with more members, as ordinary JSON", () => {
    expect(encodeData({ json: "1" }, undefined).bytes).toEqual(utf8('{"json":"1"}'));
    expect(encodeData({ json: undefined }, undefined).bytes).toEqual(utf8("{}"));
    expect(codeAndPath(() => encodeData({ json: utf8("1"), more: 1 }, undefined)).path).toBe(
      "event.data.json",
    );
    expect(codeAndPath(() => encodeData({ json: new Uint16Array(1) }, undefined)).path).toBe(
      "event.data.json",
    );
  });

  it("DATA-02 reads { json } once, so that a second answer cannot pass unchecked", () => {
    let reads = 0;
    const turns = (first: unknown): unknown => ({
      get json() {
        return reads++ === 0 ? first : "\0";
      },
    });
    expect(encodeData(turns(utf8("[1]")), undefined).bytes).toEqual(utf8("[1]"));
    reads = 0;
    expect(encodeData(turns("good"), undefined).bytes).toEqual(utf8('{"json":"good"}'));
  });

  it("names { json } whose getter throws", () => {
    const data = {
      get json(): never {
        throw new Error("boom");
      },
    };
    expect(codeAndPath(() => encodeData(data, undefined))).toEqual({
      code: "INVALID_EVENT",
      path: "event.data.json",
    });
  });

  it.each<[string, unknown, string | undefined]>([
    ["a string under application/xml", "<a/>", "application/xml"],
    ["an object under text/plain", { a: 1 }, "text/plain"],
    ["null under application/xml", null, "application/xml"],
    ["exact JSON under text/plain", { json: utf8("1") }, "text/plain"],
    ["text in another charset", "a", "text/plain; charset=iso-8859-1"],
    ["text in UTF-16", "a", "text/plain; charset=utf-16"],
    ["text outside of its ASCII", "ä", "text/plain; charset=US-ASCII"],
    ["text with NUL", "a\0", "text/plain"],
    ["text with a lone surrogate", "\udfff", "text/plain"],
    ["an ArrayBuffer", new ArrayBuffer(1), undefined],
    ["a DataView", new DataView(new ArrayBuffer(1)), undefined],
    ["other views", new Uint8ClampedArray(1), undefined],
    ["a function", () => 1, undefined],
    ["a symbol", Symbol("x"), undefined],
    ["a BigInt", 1n, undefined],
  ])("DATA-02 refuses %s", (_, data, type) => {
    expect(codeAndPath(() => encodeData(data, type))).toEqual({ code: "INVALID_EVENT", path: "event.data" });
  });

  it("says what to do", () => {
    const message = (data: unknown, type?: string): string => refusalOf(() => encodeData(data, type)).message;
    expect(message("<a/>", "application/xml")).toMatch(/Uint8Array.*"application\/xml"/);
    expect(message(new ArrayBuffer(1))).toMatch(/ArrayBuffer.*give a Uint8Array/);
    expect(message(1n)).toMatch(/give a string, or \{ json: bytes \}/);
    expect(message("a", "text/plain; charset=latin1")).toMatch(/"latin1".*give bytes/);
  });

  it("refuses a detached buffer", () => {
    const bytes = new Uint8Array(4);
    structuredClone(bytes, { transfer: [bytes.buffer] });
    expect(refusalOf(() => encodeData(bytes, undefined)).code).toBe("INVALID_EVENT");
  });
});

describe("decodeData", () => {
  it("DATA-01 gives every JSON value back", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const { kind, bytes } = encodeData(value, undefined);
        expect(kind).toBe("json");
        expect(decodeData(kind, bytes)).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });

  it("DATA-01 gives every text and all bytes back", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), fc.uint8Array(), (text, binary) => {
        const whole = `\ufeff${text.replaceAll("\0", "")}`;
        expect(decodeData("text", encodeData(whole, "text/plain").bytes)).toBe(whole);
        expect(decodeData("binary", encodeData(binary, undefined).bytes)).toEqual(binary);
      }),
    );
  });

  it("DATA-01 gives __proto__ back as an own member", () => {
    const value = decodeData("json", utf8('{"__proto__":{"admin":true}}'));
    expect(Object.getOwnPropertyNames(value)).toEqual(["__proto__"]);
    expect((value as { admin?: boolean }).admin).toBeUndefined();
  });

  it("ID-09 keeps absent and empty apart", () => {
    expect(decodeData("absent", null)).toBeUndefined();
    expect(decodeData("text", new Uint8Array(0))).toBe("");
    expect(decodeData("binary", new Uint8Array(0))).toEqual(new Uint8Array(0));
    expect(decodeData("json", utf8("null"))).toBeNull();
  });

  it.each<[string, string, Uint8Array | null, string]>([
    ["absent data that is there", "absent", new Uint8Array(0), "data is present although its kind is absent"],
    ["JSON that is missing", "json", null, "data is missing"],
    ["text that is missing", "text", null, "data is missing"],
    ["bytes that are missing", "binary", null, "data is missing"],
    ["empty JSON", "json", new Uint8Array(0), "data is not JSON"],
    ["JSON that is none", "json", utf8("secret"), "data is not JSON"],
    ["JSON with a byte order mark", "json", utf8("\ufeff1"), "data is not JSON"],
    ["JSON that is not UTF-8", "json", new Uint8Array([0x22, 0xff, 0x22]), "data is not UTF-8"],
    ["text that is not UTF-8", "text", new Uint8Array([0xff]), "data is not UTF-8"],
    ["an unknown kind", "secret", new Uint8Array(0), "data is of an unknown kind"],
  ])("CLAIM-15 refuses %s with a reason and none of the data", (_, kind, bytes, reason) => {
    expect(() => decodeData(kind as DataKind, bytes)).toThrow(new Error(reason));
  });
});
