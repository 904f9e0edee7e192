import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { safeText, storageFault, textFault, utf8Bytes } from "../../src/event/text.ts";

const LONE = /\p{Surrogate}/u;
const anyText: fc.Arbitrary<string> = fc.string({ unit: "binary", maxLength: 200 });
/** Code units without any care for pairs: full of lone surrogates. */
const brokenText: fc.Arbitrary<string> = fc
  .array(
    fc.oneof(fc.nat(0xffff), fc.integer({ min: 0xd800, max: 0xdfff }), fc.constantFrom(0, 0x41, 0xfffd)),
    { maxLength: 100 },
  )
  .map((units) => String.fromCharCode(...units));

describe("utf8Bytes", () => {
  it("agrees with an encoder on every text, lone surrogates included", () => {
    fc.assert(
      fc.property(fc.oneof(anyText, brokenText), (text) => {
        expect(utf8Bytes(text)).toBe(new TextEncoder().encode(text).length);
      }),
    );
  });

  it.each([
    ["", 0],
    ["\u007f", 1],
    ["\u0080", 2],
    ["\u07ff", 2],
    ["\u0800", 3],
    ["\uffff", 3],
    ["\u{10000}", 4],
    ["\ud800", 3],
    ["\udc00\ud800", 6],
    ["\ud800x", 4],
  ])("counts %j as %i bytes", (text, bytes) => {
    expect(utf8Bytes(text)).toBe(bytes);
  });
});

describe("textFault", () => {
  it.each([
    "",
    " ",
    "~",
    "\u00a0",
    "\ud7ff",
    "\ue000",
    "\ufdcf",
    "\ufdf0",
    "\ufffd",
    "😀",
    "\u{1fffd}",
    "\u{10fffd}",
  ])("accepts %j", (text) => {
    expect(textFault(text)).toBeUndefined();
  });

  it.each([
    ["\u0000", "U+0000"],
    ["\u001f", "U+001F"],
    ["\n", "U+000A"],
    ["\u007f", "U+007F"],
    ["\u0080", "U+0080"],
    ["\u009f", "U+009F"],
    ["\ud800", "U+D800"],
    ["\udbff", "U+DBFF"],
    ["\udc00", "U+DC00"],
    ["\udfff", "U+DFFF"],
    ["\udc00\ud800", "U+DC00"],
    ["\ufdd0", "U+FDD0"],
    ["\ufdef", "U+FDEF"],
    ["\ufffe", "U+FFFE"],
    ["\uffff", "U+FFFF"],
    ["\u{1fffe}", "U+1FFFE"],
    ["\u{10ffff}", "U+10FFFF"],
  ])("DATA-02 refuses %j and names %s with its place", (text, name) => {
    expect(textFault(text)).toContain(name);
    expect(textFault(`😀b${text}`)).toContain(`${name} at index 3`);
  });

  it("never quotes the text", () => {
    expect(textFault("secret\n")).not.toContain("secret");
  });
});

describe("storageFault", () => {
  it("DATA-02 refuses NUL and lone surrogates, and nothing else", () => {
    expect(storageFault("a\0")).toContain("U+0000 at index 1");
    expect(storageFault("😀\ud83d")).toContain("U+D83D at index 2");
    expect(storageFault("😀\r\n\u0001\u009f\uffff\ufeff")).toBeUndefined();
  });
});

describe("safeText", () => {
  it("never exceeds its bytes and is always well-formed and free of NUL", () => {
    fc.assert(
      fc.property(fc.oneof(anyText, brokenText), fc.nat(120), (text, maxBytes) => {
        const safe = safeText(text, maxBytes);
        expect(utf8Bytes(safe)).toBeLessThanOrEqual(maxBytes);
        expect(LONE.test(safe)).toBe(false);
        expect(safe).not.toContain("\0");
      }),
    );
  });

  it("keeps every character that fits: one more would be too long", () => {
    fc.assert(
      fc.property(brokenText, fc.nat(120), (text, maxBytes) => {
        const whole = [...text].map((c) => (c === "\0" || LONE.test(c) ? "\uFFFD" : c));
        const kept = [...safeText(text, maxBytes)];
        expect(kept).toEqual(whole.slice(0, kept.length));
        if (kept.length < whole.length) {
          expect(utf8Bytes(whole.slice(0, kept.length + 1).join(""))).toBeGreaterThan(maxBytes);
        }
      }),
    );
  });

  it.each([
    ["abc", 3, "abc"],
    ["abc", 2, "ab"],
    ["abc", 0, ""],
    ["a\0b", 10, "a\uFFFDb"],
    ["a\0b", 3, "a"],
    ["😀", 4, "😀"],
    ["😀", 3, ""],
    ["a\ud83d", 4, "a\uFFFD"],
    ["äö", 3, "ä"],
  ])("cuts %j to %i bytes as %j", (text, maxBytes, expected) => {
    expect(safeText(text, maxBytes)).toBe(expected);
  });

  it("looks at no more than it needs of a text of megabytes", () => {
    const huge = "\0\ud800x".repeat(8_000_000);
    // Reading all 24 million characters this often takes half an hour, the first 2048 take a moment.
    for (let i = 0; i < 2000; i++) expect(safeText(huge, 2048).length).toBeLessThanOrEqual(2048);
  });
});
