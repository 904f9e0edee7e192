import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { DigestCheck, declaredDigest } from "../src/content-digest.ts";

const BODY = Buffer.from('{"hello": "world"}\n');
const SHA_256 = `sha-256=:${createHash("sha256").update(BODY).digest("base64")}:`;
const SHA_512 = `sha-512=:${createHash("sha512").update(BODY).digest("base64")}:`;

describe("Content-Digest", () => {
  it("is read as RFC 9530 writes it: its own example of sha-256", () => {
    const digest = "RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=";
    expect(Buffer.from(declaredDigest(`sha-256=:${digest}:`)?.digest ?? "").toString("base64")).toBe(digest);
    expect(SHA_256).toBe(`sha-256=:${digest}:`);
  });

  it("is the strongest one that is known, and none if none is", () => {
    expect(declaredDigest(`${SHA_256}, ${SHA_512}`)?.algorithm).toBe("sha-512");
    expect(declaredDigest(`md5=:AAAA:, ${SHA_256}`)?.algorithm).toBe("sha-256");
    expect(declaredDigest("md5=:AAAA:")).toBeUndefined();
    expect(declaredDigest(undefined)).toBeUndefined();
  });

  it.each(["sha-256", "sha-256=abc", "sha-256=:AAAA:", "sha-256=:%:", "="])("%s cannot be read", (header) => {
    expect(() => declaredDigest(header)).toThrow("cannot be read");
  });

  it.each([SHA_256, SHA_512])("%s is compared with what passes", (header) => {
    const verify = (pieces: readonly Uint8Array[]) => () => {
      const declared = declaredDigest(header);
      if (declared === undefined) throw new Error("there is a digest");
      const check = new DigestCheck(declared);
      for (const piece of pieces) check.update(piece);
      check.verify();
    };
    expect(verify([BODY.subarray(0, 5), BODY.subarray(5)])).not.toThrow();
    expect(verify([BODY.subarray(1)])).toThrow("nothing was kept");
    expect(verify([])).toThrow("nothing was kept");
  });
});
