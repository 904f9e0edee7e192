import { describe, expect, it } from "vitest";
import { uuidv7 } from "../../src/event/uuid.ts";

const V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

describe("uuidv7", () => {
  it("has the layout of RFC 9562: the time of its example, version 7, variant 10", () => {
    // appendix A.6: 22 February 2022, 14:22:22 GMT-05:00
    expect(uuidv7(0x017f22e279b0)).toMatch(/^017f22e2-79b0-7/);
    for (let i = 0; i < 200; i++) expect(uuidv7()).toMatch(V7);
  });

  it("takes the host's clock by default", () => {
    const before = Date.now();
    const ms = Number.parseInt(uuidv7().replace("-", "").slice(0, 12), 16);
    expect(ms).toBeGreaterThanOrEqual(before);
    expect(ms).toBeLessThanOrEqual(Date.now());
  });

  it("sorts by millisecond", () => {
    const ids = [0, 1, 0xffff, 0x10000, 0x100000000, 1.7e12, 2 ** 48 - 1].map(uuidv7);
    expect(ids.toSorted()).toEqual(ids);
  });

  it("never repeats within a millisecond", () => {
    expect(new Set(Array.from({ length: 10_000 }, () => uuidv7(1))).size).toBe(10_000);
  });

  it.each([
    [-1, "00000000-0000"],
    [Number.NaN, "00000000-0000"],
    [Number.POSITIVE_INFINITY, "ffffffff-ffff"],
    [2 ** 48, "ffffffff-ffff"],
    [1.9, "00000000-0001"],
  ])("survives a clock that says %d", (now, start) => {
    expect(uuidv7(now).startsWith(start)).toBe(true);
    expect(uuidv7(now)).toMatch(V7);
  });
});
