import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isRfc3339 } from "../../src/event/time.ts";

describe("isRfc3339", () => {
  it.each([
    // the examples of RFC 3339 section 5.8
    "1985-04-12T23:20:50.52Z",
    "1996-12-19T16:39:57-08:00",
    "1990-12-31T23:59:60Z",
    "1990-12-31T15:59:60-08:00",
    "1937-01-01T12:00:27.87+00:20",
    // calendar
    "2024-02-29T00:00:00Z",
    "2000-02-29T00:00:00Z",
    "0000-02-29T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "2023-02-28T00:00:00Z",
    "2023-04-30T00:00:00Z",
    "2023-12-31T00:00:00Z",
    // syntax
    "2023-01-01t00:00:00z",
    "2023-01-01T00:00:00.0Z",
    "2023-01-01T00:00:00.123456789012345678901234567890Z",
    "2023-01-01T00:00:00-00:00",
    "2023-01-01T00:00:00+23:59",
    "2023-01-01T00:00:00-23:59",
    // leap seconds, everywhere on earth
    "2015-06-30T23:59:60Z",
    "2015-06-30T23:59:60.999Z",
    "2015-07-01T00:59:60+01:00",
    "2017-01-01T05:29:60+05:30",
    "2017-01-01T23:58:60+23:59",
    "2015-06-30T00:00:60-23:59",
    "2015-06-30T23:59:60-00:00",
  ])("accepts %s", (text) => {
    expect(isRfc3339(text)).toBe(true);
  });

  it.each([
    "",
    "2023-01-01",
    "00:00:00Z",
    "2023-01-01T00:00:00",
    "2023-01-01 00:00:00Z",
    "2023-01-01_00:00:00Z",
    " 2023-01-01T00:00:00Z",
    "2023-01-01T00:00:00Z\n",
    "2023-01-01T00:00Z",
    "2023-1-01T00:00:00Z",
    "23-01-01T00:00:00Z",
    "+002023-01-01T00:00:00Z",
    "-2023-01-01T00:00:00Z",
    "12023-01-01T00:00:00Z",
    "2023-01-01T00:00:00.Z",
    "2023-01-01T00:00:00,5Z",
    "2023-01-01T00:00:00+0000",
    "2023-01-01T00:00:00+00",
    "2023-01-01T00:00:00+00:00Z",
    "2023-01-01T00:00:00\u221200:00",
    "٢٠٢٣-01-01T00:00:00Z",
    "2023-00-01T00:00:00Z",
    "2023-13-01T00:00:00Z",
    "2023-01-00T00:00:00Z",
    "2023-01-32T00:00:00Z",
    "2023-04-31T00:00:00Z",
    "2023-02-29T00:00:00Z",
    "2024-02-30T00:00:00Z",
    "1900-02-29T00:00:00Z",
    "2100-02-29T00:00:00Z",
    "2023-01-01T24:00:00Z",
    "2023-01-01T00:60:00Z",
    "2023-01-01T00:00:61Z",
    "2023-01-01T00:00:00+24:00",
    "2023-01-01T00:00:00+00:60",
    // leap seconds where there are none
    "2023-01-01T00:00:60Z",
    "2015-06-30T23:58:60Z",
    "2015-06-29T23:59:60Z",
    "2015-03-31T23:59:60Z",
    "2015-12-30T23:59:60Z",
    "2015-06-30T23:59:60+01:00",
    "2015-07-01T23:59:60Z",
    "2015-07-01T00:00:60+01:00",
    "2015-07-02T00:59:60+01:00",
    "2015-08-01T00:59:60+01:00",
    "2015-06-30T00:59:60+01:00",
    "1990-12-31T15:59:60+08:00",
  ])("refuses %j", (text) => {
    expect(isRfc3339(text)).toBe(false);
  });

  it("accepts every time that Date writes with a year of four digits", () => {
    const four = { min: new Date("0000-01-01T00:00:00Z"), max: new Date("9999-12-31T23:59:59.999Z") };
    fc.assert(
      fc.property(fc.date({ ...four, noInvalidDate: true }), (date) => {
        expect(isRfc3339(date.toISOString())).toBe(true);
      }),
    );
  });

  it("agrees with the calendar of Date on every day of 400 years, and one past each month", () => {
    for (let year = 1900; year < 2300; year++) {
      for (let month = 1; month <= 12; month++) {
        const days = new Date(Date.UTC(year, month, 0)).getUTCDate();
        const at = (day: number): string => `${year}-${String(month).padStart(2, "0")}-${day}T00:00:00Z`;
        expect(isRfc3339(at(days))).toBe(true);
        expect(isRfc3339(at(days + 1))).toBe(false);
      }
    }
  });

  it("takes linear time on a megabyte of fraction", () => {
    const started = performance.now();
    expect(isRfc3339(`2023-01-01T00:00:00.${"1".repeat(1_000_000)}Z`)).toBe(true);
    expect(isRfc3339(`2023-01-01T00:00:00.${"1".repeat(1_000_000)}`)).toBe(false);
    expect(performance.now() - started).toBeLessThan(2000);
  });
});
