import { isDovecoteError } from "@dovecote/core";
import { describe, expect, it } from "vitest";
import { recordedHeaders } from "../src/recorded-headers.ts";

describe("recorded headers", () => {
  it("are those that describe the answer, in order, with their repetitions", () => {
    const kept = [
      ["Content-Type", "text/plain"],
      ["content-encoding", "gzip"],
      ["Location", "/books/1"],
      ["Link", "</a>; rel=next"],
      ["ETag", '"1"'],
      ["Link", "</b>; rel=prev"],
      ["Last-Modified", "Tue, 01 Dec 2026 00:00:00 GMT"],
      ["Retry-After", "3"],
    ] as const;
    const others = [
      ["Set-Cookie", "session=1"],
      ["Authorization", "Bearer x"],
      ["Connection", "close"],
      ["Transfer-Encoding", "chunked"],
      ["Content-Length", "3"],
      ["Date", "Tue, 01 Dec 2026 00:00:00 GMT"],
      ["X-Request-Id", "1"],
      ["Access-Control-Allow-Origin", "https://a.example"],
    ] as const;
    const mixed = kept.flatMap((header, index) => [others[index] ?? header, header]);
    expect(recordedHeaders([])(mixed)).toEqual(kept);
  });

  it("and the named ones, whatever their case", () => {
    const headers = [["X-Cost", "1"]] as const;
    expect(recordedHeaders([])(headers)).toEqual([]);
    expect(recordedHeaders(["x-COST"])(headers)).toEqual(headers);
  });

  it.each([
    "set-cookie",
    "Set-Cookie",
    "authorization",
    "connection",
    "transfer-encoding",
    "content-length",
    "www-authenticate",
    "",
    "a b",
    "ä",
    7 as never,
  ])("cannot be %j", (name) => {
    let failure: unknown;
    try {
      recordedHeaders(["x-cost", name]);
    } catch (error) {
      failure = error;
    }
    expect(isDovecoteError(failure, "INVALID_ARGUMENT")).toBe(true);
    expect((failure as Error).message).toContain("options.recordHeaders[1]");
  });
});
