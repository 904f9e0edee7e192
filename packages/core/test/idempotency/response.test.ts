import { describe, expect, it } from "vitest";
import type { KeptAnswer } from "../../src/idempotency/driver.ts";
import { toAnswer, toRecorded } from "../../src/idempotency/response.ts";

const MAX = 1000;
const roundTrip = (response: unknown) => toRecorded(toAnswer(response, MAX) as KeptAnswer);

describe("KEY-02, KEY-10: answers come back as they were given", () => {
  it("status, repeated headers in order, and bytes", () => {
    const body = Uint8Array.of(0, 255, 10, 13);
    const headers = [
      ["Link", "<a>; rel=next"],
      ["link", "<b>"],
      ["X-Empty", ""],
      ["X-Latin", "caf\u00e9"],
    ] as const;
    expect(roundTrip({ status: 201, headers, body })).toEqual({ status: 201, headers, body });
  });

  it("a text as its bytes, and nothing as none", () => {
    expect(roundTrip({ status: 200, body: "é" }).body).toEqual(Uint8Array.of(0xc3, 0xa9));
    expect(roundTrip({ status: 204 })).toEqual({ status: 204, headers: [], body: new Uint8Array() });
  });

  it("as copies", () => {
    const body = new Uint8Array(4);
    const answer = toAnswer({ status: 200, body }, MAX) as KeptAnswer;
    body.fill(1);
    expect(answer.body).toEqual(new Uint8Array(4));
    toRecorded(answer).body.fill(2);
    expect(answer.body).toEqual(new Uint8Array(4));
  });

  it("to the last byte that is kept; beyond it the fact that there was one", () => {
    const headers = [["a", "bc"]];
    expect(toAnswer({ status: 200, headers, body: new Uint8Array(MAX - 3) }, MAX)).toMatchObject({
      status: 200,
      headers: '[["a","bc"]]',
    });
    expect(toAnswer({ status: 200, headers, body: new Uint8Array(MAX - 2) }, MAX)).toEqual({
      status: 200,
      reason: `too large: ${MAX + 1} bytes of at most ${MAX}`,
    });
    expect(toAnswer({ status: 200, unreplayable: "a stream" }, MAX)).toEqual({
      status: 200,
      reason: "a stream",
    });
  });
});

describe("bad answers are refused", () => {
  it.each([
    ["nothing", undefined],
    ["null", null],
    ["a text", "ok"],
    ["no status", {}],
    ["a status of 199", { status: 199 }],
    ["a status of 600", { status: 600 }],
    ["a text for a status", { status: "200" }],
    ["NaN", { status: Number.NaN }],
    ["an object for headers", { status: 200, headers: { a: "b" } }],
    ["half a header", { status: 200, headers: [["a"]] }],
    ["an empty name", { status: 200, headers: [["", "b"]] }],
    ["a name with a space", { status: 200, headers: [["a b", "c"]] }],
    ["a name with a colon", { status: 200, headers: [["a:", "c"]] }],
    ["a line break in a value", { status: 200, headers: [["a", "b\r\nc: d"]] }],
    ["NUL in a value", { status: 200, headers: [["a", "b\0"]] }],
    ["space around a value", { status: 200, headers: [["a", " b"]] }],
    ["characters beyond a byte", { status: 200, headers: [["a", "\u20ac"]] }],
    ["a number for a value", { status: 200, headers: [["a", 1]] }],
    ["an object for a body", { status: 200, body: {} }],
    ["a lone surrogate in a body", { status: 200, body: "\ud800" }],
    ["a body of what cannot be given again", { status: 200, unreplayable: "a stream", body: "x" }],
    ["no reason", { status: 200, unreplayable: "" }],
    ["a reason of 256 bytes", { status: 200, unreplayable: "x".repeat(256) }],
    ["a member too many", { status: 200, statusText: "OK" }],
  ])("%s", (_what, response) => {
    expect(() => toAnswer(response, MAX)).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT" }));
  });

  it("without showing a value", () => {
    expect(() => toAnswer({ status: 200, headers: [["authorization", "s3cret\n"]] }, MAX)).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining("s3cret") }),
    );
  });
});
