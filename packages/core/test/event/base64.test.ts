import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeBase64, encodeBase64 } from "../../src/event/base64.ts";

describe("base64", () => {
  it("agrees with Buffer in both directions", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => {
        const text = Buffer.from(bytes).toString("base64");
        expect(encodeBase64(bytes)).toBe(text);
        expect(decodeBase64(text)).toEqual(bytes);
      }),
    );
  });

  it.each([24_575, 24_576, 24_577, 100_000])("agrees with Buffer across chunks: %i bytes", (length) => {
    const bytes = Uint8Array.from({ length }, (_, i) => (i * 31) & 0xff);
    expect(encodeBase64(bytes)).toBe(Buffer.from(bytes).toString("base64"));
  });

  it.each([
    "A",
    "AA",
    "AAA",
    "AA=",
    "AB==",
    "AAB=",
    "AA==AA==",
    " AA==",
    "AA==\n",
    "A A==",
    "-_-_",
    "====",
    "ÄÄ==",
  ])("refuses %j", (text) => {
    expect(decodeBase64(text)).toBeUndefined();
  });
});
