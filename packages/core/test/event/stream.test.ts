import { describe, expect, it } from "vitest";
import { checkStream } from "../../src/event/validate.ts";
import { codeAndPath, refusalOf } from "./errors.ts";

describe("checkStream", () => {
  it.each(["a", "0", "A.b_c-9", "a..", `a${"-".repeat(254)}`])("accepts %j", (stream) => {
    expect(checkStream(stream, "stream")).toBe(stream);
  });

  it.each([
    "",
    ".",
    "-a",
    "_a",
    "a b",
    "a/b",
    "a:b",
    "ä",
    "a\n",
    "\0",
    `a${"-".repeat(255)}`,
    undefined,
    null,
    1,
    ["a"],
  ])("refuses %j", (stream) => {
    expect(codeAndPath(() => checkStream(stream, "scope.stream"))).toEqual({
      code: "INVALID_ARGUMENT",
      path: "scope.stream",
    });
    expect(refusalOf(() => checkStream(stream, "event.stream", "INVALID_EVENT")).code).toBe("INVALID_EVENT");
  });
});
