import { describe, expect, it } from "vitest";
import { problemAnswer, retryAfterSeconds } from "../src/problem.ts";

describe("a problem", () => {
  it("is RFC 9457, and says its code in a header too", () => {
    const { status, headers, body } = problemAnswer({
      code: "unreplayable",
      detail: "The answer was a stream.",
      members: { answered: 200 },
    });
    expect(status).toBe(409);
    expect(headers).toEqual([
      ["content-type", "application/problem+json"],
      ["cache-control", "no-store"],
      ["idempotency-status", "unreplayable"],
    ]);
    expect(JSON.parse(new TextDecoder().decode(body))).toEqual({
      type: "urn:dovecote:problem:unreplayable",
      title: expect.stringContaining("was not kept"),
      status: 409,
      detail: "The answer was a stream.",
      code: "unreplayable",
      answered: 200,
    });
  });

  it("has the status that an option gave it, in its body too", () => {
    const { status, body } = problemAnswer({ code: "expired", detail: "", status: 410 });
    expect(status).toBe(410);
    expect(JSON.parse(new TextDecoder().decode(body))).toMatchObject({ status: 410 });
  });

  it("says when to ask again", () => {
    const { headers } = problemAnswer({ code: "in-flight", detail: "", retryAfterSeconds: 7 });
    expect(headers).toContainEqual(["retry-after", "7"]);
  });
});

describe("Retry-After", () => {
  const of = (remainingMs: number, random: number): number =>
    retryAfterSeconds(remainingMs, { maxSeconds: 30, random: () => random });

  it.each([
    [20_000, 0, 10],
    [20_000, 0.999, 20],
    [20_001, 0.999, 20],
    [9000, 0, 5],
  ])("of %d ms with %d is %d s: between half of the time left and all of it", (ms, random, seconds) => {
    expect(of(ms, random)).toBe(seconds);
  });

  it.each([0, 1, 999])("of %d ms is one second at least", (ms) => {
    expect(of(ms, 0)).toBe(1);
    expect(of(ms, 0.999)).toBe(1);
  });

  it("is capped", () => {
    expect(of(86_400_000, 0.999)).toBe(30);
    expect(of(86_400_000, 0)).toBe(15);
  });
});
