import { describe, expect, it } from "vitest";
import { retryAfterMs } from "../src/retry-after.ts";

const NOW = Date.UTC(1994, 10, 6, 8, 49, 0);
const DAY = 24 * 3_600_000;

describe("retryAfterMs", () => {
  it.each<[string, string | null, number | undefined]>([
    ["seconds", "37", 37_000],
    ["seconds with white space", " 37 ", 37_000],
    ["nothing to wait for", "0", 0],
    ["leading zeros", "007", 7000],
    ["more than 30 days", "99999999999", 30 * DAY],
    ["the date of RFC 1123", "Sun, 06 Nov 1994 08:49:37 GMT", 37_000],
    ["the date of RFC 850", "Sunday, 06-Nov-94 08:49:37 GMT", 37_000],
    ["the date of asctime", "Sun Nov  6 08:49:37 1994", 37_000],
    ["a date that is over", "Sun, 06 Nov 1994 08:48:37 GMT", 0],
    ["a date in more than 30 days", "Wed, 06 Nov 2030 08:49:37 GMT", 30 * DAY],
    ["no header", null, undefined],
    ["an empty one", "", undefined],
    ["a negative number", "-1", undefined],
    ["a fraction", "1.5", undefined],
    ["another notation", "1e3", undefined],
    ["a date of another form", "1994-11-06T08:49:37Z", undefined],
    ["a year", "Sun 1994", undefined],
    ["no date at all", "Sun, 99 Foo 1994 08:49:37 GMT", undefined],
  ])("%s", (_, header, ms) => {
    expect(retryAfterMs(header, NOW)).toBe(ms);
  });
});
