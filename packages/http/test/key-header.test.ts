import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readKeyHeader } from "../src/key-header.ts";

const compat = { strict: false };
const strict = { strict: true };
const key = (text: string) => ({ outcome: "key", key: text });
const malformed = (reason: RegExp) => ({ outcome: "malformed", reason: expect.stringMatching(reason) });

describe("a key", () => {
  it.each([
    ['"8e03978e-40d5-43dd-bc93-6894a57f9324"', "8e03978e-40d5-43dd-bc93-6894a57f9324"],
    [String.raw`"with \"quotes\" and \\"`, String.raw`with "quotes" and \ `.trim()],
    ['" spaces count "', " spaces count "],
    ['"a";retry=1', "a"],
    ['\t "a" \t', "a"],
    [`"${"k".repeat(255)}"`, "k".repeat(255)],
  ])("is a String: %s", (line, text) => {
    expect(readKeyHeader([line], strict)).toEqual(key(text));
    expect(readKeyHeader([line], compat)).toEqual(key(text));
  });

  it.each(["8e03978e-40d5-43dd-bc93-6894a57f9324", "123", "?1", ":YWJj:", "a=b", "a/b+c", "k".repeat(255)])(
    "without its quotes is the same key, unless strict: %s",
    (line) => {
      expect(readKeyHeader([line], compat)).toEqual(readKeyHeader([`"${line}"`], strict));
      expect(readKeyHeader([line], strict)).toEqual(malformed(/not one quoted string/));
    },
  );

  it("comes out as any client may have written it", () => {
    const printable = fc.string({
      unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)),
      minLength: 1,
      maxLength: 255,
    });
    fc.assert(
      fc.property(printable, (text) => {
        const line = `"${text.replaceAll(/["\\]/g, String.raw`\$&`)}"`;
        expect(readKeyHeader([line], strict)).toEqual(key(text));
      }),
    );
  });
});

describe("no key", () => {
  it("is missing where there is no line", () => {
    expect(readKeyHeader([], compat)).toEqual({ outcome: "missing" });
  });

  it.each<[string, readonly string[], RegExp]>([
    ["two lines", ['"a"', '"b"'], /more than once/],
    ["the same line twice", ['"a"', '"a"'], /more than once/],
    ["two lines that were joined", ['"a", "b"'], /neither/],
    ["two bare words that were joined", ["a, b"], /neither/],
    ["an empty line", [""], /is empty/],
    ["spaces", [" \t"], /is empty/],
    ["an empty string", ['""'], /the key is empty/],
    ["an open quote", ['"a'], /neither/],
    ["a quote in a word", ['a"b'], /neither/],
    ["a word with parameters", ["a;b=c"], /neither/],
    ["an illegal escape", [String.raw`"\n"`], /neither/],
    ["a control character", ['"a\u0001"'], /neither/],
    ["DEL", ["a\u007f"], /neither/],
    ["text beyond ASCII", ['"schlüssel"'], /neither/],
    ["a word beyond ASCII", ["schlüssel"], /neither/],
    ["a no-break space", ["\u00a0a"], /neither/],
    ["256 bytes", [`"${"k".repeat(256)}"`], /longer than 255 bytes/],
    ["256 bytes without quotes", ["k".repeat(256)], /longer than 255 bytes/],
  ])("is malformed: %s", (_, lines, reason) => {
    expect(readKeyHeader(lines, compat)).toEqual(malformed(reason));
    expect(readKeyHeader(lines, strict).outcome).toBe("malformed");
  });

  it("is never quoted", () => {
    const { reason } = readKeyHeader(["secret,key"], compat) as { reason: string };
    expect(reason).not.toContain("secret");
  });
});
