import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeHeaderValue, encodeHeaderValue } from "../../src/event/http-headers.ts";

const text = (value: string): string => {
  const decoded = decodeHeaderValue(value);
  if ("fault" in decoded) throw new Error(decoded.fault);
  return decoded.text;
};

describe("header values", () => {
  it.each([
    ["the example of section 3.1.3.2", "Euro € 😀", "Euro%20%E2%82%AC%20%F0%9F%98%80"],
    [
      "printable ASCII stays",
      "!#$&'()*+,-./09:;<=>?@AZ[\\]^_`az{|}~",
      "!#$&'()*+,-./09:;<=>?@AZ[\\]^_`az{|}~",
    ],
    ["double quote and percent", '"100%"', "%22100%25%22"],
    ["what looks encoded is encoded once more", "%20", "%2520"],
    ["control characters", "a\r\nb\u007f", "a%0D%0Ab%7F"],
    ["Latin-1", "é", "%C3%A9"],
    ["nothing", "", ""],
  ])("%s", (_, plain, encoded) => {
    expect(encodeHeaderValue(plain)).toBe(encoded);
    expect(text(encoded)).toBe(plain);
  });

  it.each([
    ["lower-case hex", "%e2%82%ac", "€"],
    ["what need not have been encoded", "%41%2f", "A/"],
    ["a single round only", "%2541", "%41"],
    ["a quoted string", '"Euro %E2%82%AC"', "Euro €"],
    ["backslashes in a quoted string", '"say \\"hi\\" \\\\"', 'say "hi" \\'],
    ["quotes that are not around all of it", 'say "hi"', 'say "hi"'],
    ["a backslash outside of quotes", "a\\b", "a\\b"],
    ["raw spaces", "a b", "a b"],
  ])("accepts %s", (_, value, plain) => {
    expect(text(value)).toBe(plain);
  });

  it.each([
    ["an overlong encoding", "%C0%A0"],
    ["a surrogate", "%ED%A0%80"],
    ["half a character", "%E2%82"],
    ["a stray percent sign", "100%"],
    ["a percent sign before no hex", "%zz"],
    ["what is beyond ASCII", "é"],
    ["a line break", "a\nb"],
  ])("refuses %s", (_, value) => {
    expect(decodeHeaderValue(value)).toHaveProperty("fault");
  });

  it("any text comes back, through nothing but printable ASCII without spaces and quotes", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (plain) => {
        const encoded = encodeHeaderValue(plain);
        expect(encoded).toMatch(/^[\u0021\u0023-\u007e]*$/);
        expect(text(encoded)).toBe(plain);
      }),
    );
  });
});
