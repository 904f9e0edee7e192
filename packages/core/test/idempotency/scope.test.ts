import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { type KeyScope, keyDigests, principalDigest } from "../../src/idempotency/scope.ts";

const SCOPE: KeyScope = { principal: "user-1", method: "POST", path: "/payments" };
const hex = (bytes: Uint8Array | null): string =>
  bytes === null ? "null" : Buffer.from(bytes).toString("hex");
const both = (scope: unknown, key: unknown = "k", tenant = "acme", secret?: Uint8Array): string => {
  const digests = keyDigests(tenant, scope, key, secret);
  return `${hex(digests.scope)} ${hex(digests.key)}`;
};

describe("KEY-05: scopes and keys do not collide", () => {
  it("whatever differs, and wherever a separator could be forged", () => {
    const all = [
      both(SCOPE),
      both(SCOPE, "l"),
      both(SCOPE, "k", "other"),
      both({ ...SCOPE, principal: "user-2" }),
      both({ ...SCOPE, principal: null }),
      both({ ...SCOPE, principal: "null" }),
      both({ ...SCOPE, method: "post" }),
      both({ ...SCOPE, path: "/payments/" }),
      both({ ...SCOPE, path: "/Payments" }),
      both({ principal: "user-1P", method: "OST", path: "/payments" }),
      both({ principal: "user-1\0POST", method: "/", path: "/payments" }),
      both({ principal: "user-1", method: "POST/payments", path: "k" }, "k"),
      both({ ...SCOPE, path: "/paymentsk" }, "k"),
      both({ ...SCOPE, path: "/payments" }, "kk"),
      both(SCOPE, "k", "acme", randomBytes(32)),
    ];
    expect(new Set(all).size).toBe(all.length);
    for (const [first] of all.map((each) => each.split(" "))) expect(first).toHaveLength(64);
  });

  it("also with paths of 4 KiB of random bytes, and of as many as there may be", () => {
    const path = `/${randomBytes(2048).toString("hex")}`;
    expect(both({ ...SCOPE, path })).toBe(both({ ...SCOPE, path }));
    expect(both({ ...SCOPE, path })).not.toBe(both({ ...SCOPE, path: `${path.slice(0, -1)}~` }));
    both(
      { ...SCOPE, path: "é".repeat(4096), principal: "p".repeat(1024), method: "m".repeat(32) },
      "k".repeat(255),
    );
  });

  it("are the same everywhere: they are stored", () => {
    expect(both(SCOPE)).toMatchInlineSnapshot(
      `"08b5e8986e9ab8bf29d6b37e34c1981c80b3939e7789c77bb7c06c2056bde699 a824f1edc2d7ca33c2c63153b7224886a48b18288e78dd955cb619c50564b370"`,
    );
    expect(hex(principalDigest("acme", "user-1", undefined))).toMatchInlineSnapshot(
      `"77cca15237886f069f008e193a7e747b9b015e607f03dd43d7b7d2578f1dc308"`,
    );
  });

  it("a principal is one per tenant, and the one of its scopes", () => {
    const digest = hex(principalDigest("acme", "user-1", undefined));
    expect(hex(keyDigests("acme", SCOPE, "k", undefined).principal)).toBe(digest);
    expect(hex(keyDigests("acme", { ...SCOPE, principal: null }, "k", undefined).principal)).toBe("null");
    expect(hex(principalDigest("other", "user-1", undefined))).not.toBe(digest);
  });
});

describe("bad scopes and keys are refused", () => {
  it.each([
    ["no scope", undefined],
    ["null", null],
    ["a text", "POST /"],
    ["no principal", { method: "POST", path: "/" }],
    ["an empty principal", { ...SCOPE, principal: "" }],
    ["a principal of 1025 bytes", { ...SCOPE, principal: "p".repeat(1025) }],
    ["no method", { principal: null, path: "/" }],
    ["a method of 33 bytes", { ...SCOPE, method: "m".repeat(33) }],
    ["no path", { principal: null, method: "POST" }],
    ["a path of 8193 bytes", { ...SCOPE, path: `${"é".repeat(4096)}x` }],
    ["a path with a lone surrogate", { ...SCOPE, path: "/\ud800" }],
    ["a member too many", { ...SCOPE, tenant: "x" }],
  ])("%s", (_what, scope) => {
    expect(() => both(scope)).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT" }));
  });

  it.each([[""], ["k".repeat(256)], ["schlüssel"], ["a\nb"], ["a\x7f"], [1], [null]])(
    "the key %j, which no message shows",
    (key) => {
      let message = "";
      try {
        both(SCOPE, key);
      } catch (error) {
        expect(error).toMatchObject({ code: "INVALID_ARGUMENT" });
        message = String(error);
      }
      expect(message).toMatch(/key must be/);
      if (typeof key === "string" && key.length > 1) expect(message).not.toContain(key);
    },
  );
});
