import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Extension } from "../../src/event/event.ts";
import { decodeExtensions, encodeExtensions } from "../../src/event/extensions.ts";
import { codeAndPath, refusalOf } from "./errors.ts";

const PATH = "event.extensions";
const encode = (input: unknown): string | null => encodeExtensions(input, PATH);
const encodeOne = (value: unknown): unknown => JSON.parse(encode({ x: value }) ?? "null").x;

describe("encodeExtensions", () => {
  it("is null when there are none", () => {
    expect(encode(undefined)).toBeNull();
    expect(encode({})).toBeNull();
    expect(encode({ absent: undefined })).toBeNull();
  });

  it("writes one canonical text, whatever the order of the members", () => {
    const text =
      '{"0":{"type":"integer","value":1},"10":{"type":"boolean","value":true},' +
      '"9":{"type":"string","value":"ä\\"\\\\"},"a":{"type":"binary","value":"AP8="},"aa":{"type":"uri","value":"a:b"}}';
    const aa = { type: "uri", value: "a:b" };
    expect(encode({ aa, a: new Uint8Array([0, 255]), 9: 'ä"\\', 10: true, 0: 1 })).toBe(text);
    expect(
      encode({ 0: 1, 10: { value: true, type: "boolean" }, 9: 'ä"\\', a: Buffer.from([0, 255]), aa }),
    ).toBe(text);
  });

  it.each<[string, unknown, Extension["type"], unknown]>([
    ["true", true, "boolean", true],
    ["false", false, "boolean", false],
    ["zero", 0, "integer", 0],
    ["the lowest integer", -2_147_483_648, "integer", -2_147_483_648],
    ["the highest integer", 2_147_483_647, "integer", 2_147_483_647],
    ["a string", "1.5", "string", "1.5"],
    ["an empty string", "", "string", ""],
    ["bytes", new Uint8Array([1]), "binary", "AQ=="],
    ["no bytes", new Uint8Array(0), "binary", ""],
    ["a Buffer", Buffer.from([1]), "binary", "AQ=="],
    ["a URL", new URL("HTTPS://Example.com/a?b"), "uri", "https://example.com/a?b"],
    ["a Date", new Date(0), "timestamp", "1970-01-01T00:00:00.000Z"],
    ["an explicit boolean", { type: "boolean", value: false }, "boolean", false],
    ["an explicit integer", { type: "integer", value: -1 }, "integer", -1],
    ["an explicit string", { type: "string", value: "2020" }, "string", "2020"],
    ["explicit bytes", { type: "binary", value: new Uint8Array([1, 2]) }, "binary", "AQI="],
    ["an explicit uri", { type: "uri", value: "urn:x" }, "uri", "urn:x"],
    ["an explicit uri-reference", { type: "uri-reference", value: "../x#y" }, "uri-reference", "../x#y"],
    [
      "an explicit timestamp",
      { type: "timestamp", value: "2020-01-01t00:00:00.123456789z" },
      "timestamp",
      "2020-01-01t00:00:00.123456789z",
    ],
  ])("maps %s to its type", (_, given, type, value) => {
    expect(encodeOne(given)).toEqual({ type, value });
  });

  it.each<[string, unknown, string]>([
    ["a fraction", 1.5, ""],
    ["NaN", Number.NaN, ""],
    ["infinity", Number.POSITIVE_INFINITY, ""],
    ["minus zero", -0, ""],
    ["one above 32 bits", 2_147_483_648, ""],
    ["one below 32 bits", -2_147_483_649, ""],
    ["null", null, ""],
    ["a BigInt", 1n, ""],
    ["a symbol", Symbol("x"), ""],
    ["a function", () => 1, ""],
    ["an array", [1], ""],
    ["a Map", new Map(), ""],
    ["other views", new Uint16Array(1), ""],
    ["an ArrayBuffer", new ArrayBuffer(1), ""],
    ["a revoked proxy", revoked(), ""],
    ["an invalid Date", new Date(Number.NaN), ""],
    ["a Date after year 9999", new Date("+010000-01-01T00:00:00Z"), ""],
    ["a Date before year 0", new Date("-000001-12-31T00:00:00Z"), ""],
    ["a URL with a fragment", new URL("https://example.com/#a"), ""],
    ["a URL that RFC 3986 does not know", new URL("https://example.com/?a=|"), ""],
    ["a line break", "a\nb", ""],
    ["NUL", "\0", ""],
    ["a lone surrogate", "\ud800", ""],
    ["a noncharacter", "\uffff", ""],
    ["an empty object", {}, ""],
    ["a form without value", { type: "string" }, ""],
    ["a form without type", { value: "x" }, ""],
    ["a form with more", { type: "string", value: "x", unit: "s" }, ""],
    ["an unknown type", { type: "String", value: "x" }, ".type"],
    ["a type that is no string", { type: 1, value: "x" }, ".type"],
    ["a type of Object.prototype", { type: "constructor", value: "x" }, ".type"],
    ["a boolean in text", { type: "boolean", value: "true" }, ".value"],
    ["an integer in text", { type: "integer", value: "1" }, ".value"],
    ["an explicit fraction", { type: "integer", value: 0.5 }, ".value"],
    ["an explicit minus zero", { type: "integer", value: -0 }, ".value"],
    ["a number as string", { type: "string", value: 1 }, ".value"],
    ["an illegal explicit string", { type: "string", value: "\u0085" }, ".value"],
    ["base64 as binary", { type: "binary", value: "AQ==" }, ".value"],
    ["a relative uri", { type: "uri", value: "/x" }, ".value"],
    ["a uri with a fragment", { type: "uri", value: "a:b#c" }, ".value"],
    ["a URL in explicit form", { type: "uri", value: new URL("a:b") }, ".value"],
    ["a broken uri-reference", { type: "uri-reference", value: "a b" }, ".value"],
    ["a broken timestamp", { type: "timestamp", value: "2020-01-01" }, ".value"],
    ["a Date in explicit form", { type: "timestamp", value: new Date() }, ".value"],
    ["a value that is undefined", { type: "string", value: undefined }, ".value"],
  ])("refuses %s", (_, given, below) => {
    expect(codeAndPath(() => encode({ x: given }))).toEqual({
      code: "INVALID_EVENT",
      path: `${PATH}.x${below}`,
    });
  });

  it.each([1.5, -0, 2 ** 31])("says to give %d as a string", (value) => {
    expect(refusalOf(() => encode({ ratio: value })).message).toMatch(
      /event\.extensions\.ratio .*give it as a string/,
    );
  });

  it.each(["a", "0", "abcdefghij0123456789", "constructor", "valueof", "json", "stream", "value"])(
    "accepts the name %s",
    (name) => {
      expect(encode({ [name]: 1 })).toBe(`{"${name}":{"type":"integer","value":1}}`);
    },
  );

  it.each([
    ["", '[""]'],
    ["abcdefghij01234567890", ".abcdefghij01234567890"],
    ["A", ".A"],
    ["traceParent", ".traceParent"],
    ["a_b", ".a_b"],
    ["a-b", '["a-b"]'],
    ["a.b", '["a.b"]'],
    ["ä", '["ä"]'],
    ["a\n", '["a\\n"]'],
    ["toString", ".toString"],
    ["__proto__", ".__proto__"],
    ...[
      "id",
      "source",
      "specversion",
      "type",
      "datacontenttype",
      "dataschema",
      "subject",
      "time",
      "data",
    ].map((name): [string, string] => [name, `.${name}`]),
    ["data_base64", ".data_base64"],
    ["partitionkey", ".partitionkey"],
  ])("refuses the name %j, even without a value", (name, below) => {
    for (const value of ["x", undefined]) {
      const input = Object.fromEntries([[name, value]]);
      expect(codeAndPath(() => encode(input))).toEqual({ code: "INVALID_EVENT", path: `${PATH}${below}` });
    }
  });

  it("says where the partition key belongs", () => {
    expect(refusalOf(() => encode({ partitionkey: "k" })).message).toContain("`partitionkey` of the event");
  });

  it.each([
    ["null", null],
    ["a string", "x"],
    ["an array", [1]],
    ["a Map", new Map([["a", 1]])],
    ["a Date", new Date()],
  ])("refuses %s instead of an object", (_, input) => {
    expect(codeAndPath(() => encode(input))).toEqual({ code: "INVALID_EVENT", path: PATH });
  });

  it("reads each member once, so that a second answer cannot pass unchecked", () => {
    let reads = 0;
    const explicit = {
      type: "string",
      get value(): string {
        return reads++ === 0 ? "good" : "\0";
      },
    };
    const input = {
      get x(): unknown {
        return reads++ === 0 ? 7 : "\0";
      },
    };
    expect(encode(input)).toBe('{"x":{"type":"integer","value":7}}');
    reads = 0;
    expect(encode({ x: explicit })).toBe('{"x":{"type":"string","value":"good"}}');
  });

  it("names the member whose getter throws", () => {
    const input = Object.defineProperty({ a: 1 }, "bad", {
      enumerable: true,
      get() {
        throw new TypeError("boom");
      },
    });
    const refusal = refusalOf(() => encode(input));
    expect(refusal).toMatchObject({ code: "INVALID_EVENT", path: `${PATH}.bad`, cause: { message: "boom" } });
  });
});

describe("decodeExtensions", () => {
  const extension: fc.Arbitrary<Extension> = fc.oneof(
    fc.boolean().map((value) => ({ type: "boolean", value }) as const),
    fc.integer().map((value) => ({ type: "integer", value }) as const),
    fc.uint8Array().map((value) => ({ type: "binary", value }) as const),
    fc.string().map((value) => ({ type: "string", value }) as const),
    fc.webUrl().map((value) => ({ type: "uri", value }) as const),
    fc.webPath().map((value) => ({ type: "uri-reference", value }) as const),
    fc
      .date({ min: new Date(0), max: new Date("9999-12-31"), noInvalidDate: true })
      .map((date) => ({ type: "timestamp", value: date.toISOString() }) as const),
  );
  const name = fc.oneof(fc.stringMatching(/^[a-z0-9]{1,20}$/), fc.constant("constructor"));
  const RESERVED = /^(id|source|specversion|type|datacontenttype|dataschema|subject|time|data|partitionkey)$/;
  const legalName = name.filter((text) => !RESERVED.test(text));

  it("ID-09 gives back every extension with its type", () => {
    fc.assert(
      fc.property(fc.dictionary(legalName, extension), (extensions) => {
        expect({ ...decodeExtensions(encode({ ...extensions })) }).toEqual({ ...extensions });
      }),
    );
  });

  it("finds nothing that is not there", () => {
    const decoded = decodeExtensions('{"constructor":{"type":"integer","value":1}}');
    expect(decoded.constructor).toEqual({ type: "integer", value: 1 });
    expect(decodeExtensions(null).constructor).toBeUndefined();
    expect(decodeExtensions(null).toString).toBeUndefined();
  });

  it("gives fresh bytes each time", () => {
    const text = encode({ b: new Uint8Array([1]) });
    (decodeExtensions(text).b?.value as Uint8Array)[0] = 9;
    expect(decodeExtensions(text).b?.value).toEqual(new Uint8Array([1]));
  });

  it.each([
    "",
    "{",
    "null",
    "1",
    "[]",
    "{}",
    '"x"',
    '{"x":1}',
    '{"x":null}',
    '{"x":[]}',
    '{"x":{}}',
    '{"x":{"type":"string"}}',
    '{"x":{"type":"string","value":1}}',
    '{"x":{"type":"string","value":"a","more":1}}',
    '{"x":{"value":"a","type":"string"}}',
    '{"x":{"type":"text","value":"a"}}',
    '{"x":{"type":"string","value":"\\u0000"}}',
    '{"x":{"type":"string","value":"\\ud800"}}',
    '{"x":{"type":"string","value":"\\u0061"}}',
    '{"x":{"type":"integer","value":1.5}}',
    '{"x":{"type":"integer","value":1.0}}',
    '{"x":{"type":"integer","value":2147483648}}',
    '{"x":{"type":"integer","value":-0}}',
    '{"x":{"type":"boolean","value":1}}',
    '{"x":{"type":"binary","value":"A"}}',
    '{"x":{"type":"binary","value":"AB=="}}',
    '{"x":{"type":"binary","value":[1]}}',
    '{"x":{"type":"uri","value":"/x"}}',
    '{"x":{"type":"timestamp","value":"now"}}',
    '{"X":{"type":"string","value":"a"}}',
    '{"id":{"type":"string","value":"a"}}',
    '{"partitionkey":{"type":"string","value":"a"}}',
    '{"__proto__":{"type":"string","value":"a"}}',
    '{"x":{"__proto__":{"type":"string"},"value":"a"}}',
    '{"x":{"type":"string","value":"a"},"x":{"type":"string","value":"a"}}',
    '{"y":{"type":"string","value":"a"},"x":{"type":"string","value":"a"}}',
    '{ "x":{"type":"string","value":"a"}}',
    '{"x":{"type":"string","value":"a"}}\n',
  ])("CLAIM-15 refuses the stored text %j with a reason", (text) => {
    expect(() => decodeExtensions(text)).toThrow(/^(?:an extension|a binary extension|extensions) /);
  });

  it("never quotes what is stored", () => {
    for (const text of [
      "secret",
      '{"x":"secret"}',
      '{"x":{"type":"uri","value":"secret"}}',
      '{"secret_":1}',
    ]) {
      expect(() => decodeExtensions(text)).toThrow(/^(?!.*secret)/s);
    }
  });
});

function revoked(): unknown {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}
