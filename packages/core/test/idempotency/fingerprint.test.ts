import { describe, expect, it } from "vitest";
import { fingerprint } from "../../src/idempotency/fingerprint.ts";

const hex = ({ algorithm, digest }: { algorithm: string; digest: Uint8Array }): string =>
  `${algorithm} ${Buffer.from(digest).toString("hex")}`;
const json = (text: string | Uint8Array): string => hex(fingerprint.json(text));
const fields = (given: Parameters<typeof fingerprint.fields>[0]): string => hex(fingerprint.fields(given));
const refused = (call: () => unknown): string => {
  try {
    call();
  } catch (error) {
    expect(error).toMatchObject({ code: "INVALID_ARGUMENT" });
    return String(error);
  }
  throw new Error("it must be refused");
};

describe("KEY-04: fingerprints of JSON", () => {
  it.each([
    ["the order of members", '{"a":1,"b":{"c":2,"d":3}}', '{"b":{"d":3,"c":2},"a":1}'],
    ["white space", '{"a":[1,2]}', ' {\n"a" : [ 1,\t2 ] }\r\n'],
    ["the spelling of a number", '{"a":100}', '{"a":1e2}'],
    ["trailing zeros", '{"a":1.5}', '{"a":1.50}'],
    ["the spelling of a character", '{"a":"é/"}', '{"a":"\\u00e9\\/"}'],
    ["minus zero, as RFC 8785 has it", "[0]", "[-0]"],
  ])("do not depend on %s", (_what, one, other) => {
    expect(json(one)).toBe(json(other));
    expect(json(new TextEncoder().encode(other))).toBe(json(one));
  });

  it.each([
    ["a value", '{"a":1}', '{"a":2}'],
    ["the type of a value", '{"a":1}', '{"a":"1"}'],
    ["the order of a list", "[1,2]", "[2,1]"],
    ["an absent member", '{"a":null}', "{}"],
    ["a member named __proto__", '{"__proto__":{"admin":true}}', "{}"],
    ["its value", '{"__proto__":1}', '{"__proto__":2}'],
    ["a member named constructor", '{"constructor":1}', "{}"],
    ["case", '{"A":1}', '{"a":1}'],
    ["the normal form of a character", '"\u00e9"', '"e\u0301"'],
    ["bracketing", '[["a"],"b"]', '[["a","b"]]'],
    ["nothing but the kind of nothing", "null", '""'],
  ])("depend on %s", (_what, one, other) => {
    expect(json(one)).not.toBe(json(other));
  });

  it("are the same everywhere: they are stored", () => {
    expect(json('{"b":[1,"x",null],"a":{"d":1.5,"c":true}}')).toMatchInlineSnapshot(
      `"json-1 9961041eb259e78a676caad78ae04ca21098b4d1068a39aa131094eaa5f44919"`,
    );
  });

  it.each([
    ["a member twice", '{"a":1,"b":2,"a":1}', /twice/],
    ["a nested member twice", '[{"x":{"a":1,"a":2}}]', /twice/],
    ["the same member in two spellings", '{"a":1,"\\u0061":2}', /twice/],
    ["an integer beyond doubles", '{"id":9007199254740993}', /exactly/],
    ["a number too large", "[1e400]", /exactly/],
    ["a number too small", "[1e-400]", /exactly/],
    ["more digits than a double has", "[0.1234567890123456789]", /exactly/],
    ["a comment", '{"a":1 /* x */}', /is not JSON/],
    ["a comma too many", "[1,]", /is not JSON/],
    ["two values", "1 2", /is not JSON/],
    ["nothing", "", /is not JSON/],
    ["NaN", "NaN", /is not JSON/],
    ["a lone surrogate", '"\\ud800"', /is not JSON/],
    ["a depth that no stack holds", "[".repeat(200_000) + "]".repeat(200_000), /nests too deeply/],
  ])("are refused of %s", (_what, text, reason) => {
    expect(refused(() => json(text))).toMatch(reason);
  });

  it("are refused of bytes that are no UTF-8, and of what is no text", () => {
    refused(() => json(Uint8Array.of(0x22, 0xff, 0x22)));
    for (const value of [undefined, null, 1, {}]) refused(() => json(value as never));
  });

  it("never show the text in a message", () => {
    expect(refused(() => json('{"password":"s3cret",}'))).not.toContain("s3cret");
  });
});

describe("fingerprints of declared fields", () => {
  it("depend on names, values and their order, and not on the order of names", () => {
    expect(fields({ a: "1", b: ["2", "3"] })).toBe(fields({ b: ["2", "3"], a: "1" }));
    expect(fields({ a: ["1"] })).toBe(fields({ a: "1" }));
    const all = [
      fields({}),
      fields({ a: [] }),
      fields({ a: "" }),
      fields({ a: "1" }),
      fields({ a: "1", b: "1" }),
      fields({ a: ["1", "1"] }),
      fields({ a: ["1", "2"] }),
      fields({ a: ["2", "1"] }),
      fields({ a: ["1", "b", "1", "1"] }),
      fields({ a: { filename: null, type: null } }),
      fields({ a: { filename: "", type: null } }),
      fields({ a: { filename: "x", type: null } }),
      fields({ a: { filename: "x", type: "text/plain" } }),
      fields({ a: ["file", "x", "text/plain"] }),
    ];
    expect(new Set(all).size).toBe(all.length);
  });

  it("are refused of anything else", () => {
    for (const value of [undefined, null, 1, "a", ["a"]]) refused(() => fields(value as never));
    for (const field of [
      undefined,
      null,
      1,
      [1],
      { filename: "x", type: null, size: 1 },
      { filename: 1, type: null },
    ]) {
      refused(() => fields({ a: field as never }));
    }
    refused(() => fields({ "\ud800": "x" }));
  });
});

describe("fingerprints of bytes, and given ones", () => {
  it("are of the bytes as they are", () => {
    expect(hex(fingerprint.bytes(Uint8Array.of(1)))).not.toBe(hex(fingerprint.bytes(Uint8Array.of(1, 0))));
    expect(hex(fingerprint.bytes(new Uint8Array()))).toBe(hex(fingerprint.bytes(Buffer.alloc(0))));
    expect(fingerprint.bytes(new TextEncoder().encode("1")).digest).not.toEqual(fingerprint.json("1").digest);
    refused(() => fingerprint.bytes("1" as never));
  });

  it("are copies", () => {
    const digest = new Uint8Array(32);
    const { digest: kept } = fingerprint.given("sha-256", digest);
    digest.fill(1);
    expect(kept).toEqual(new Uint8Array(32));
  });

  it.each([
    ["", new Uint8Array(32)],
    ["SHA-256", new Uint8Array(32)],
    ["a".repeat(65), new Uint8Array(32)],
    [1, new Uint8Array(32)],
    ["sha-256", new Uint8Array(15)],
    ["sha-256", new Uint8Array(65)],
    ["sha-256", "0".repeat(32)],
    ["sha-256", undefined],
  ])("are refused as %s of %s", (algorithm, digest) => {
    refused(() => fingerprint.given(algorithm as never, digest as never));
  });
});
