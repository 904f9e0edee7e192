import { inspect } from "node:util";
import { describe, expect, it } from "vitest";
import { createDovecote, DovecoteError, isDovecoteError, redactCause } from "../src/index.ts";
import { fakeDriver } from "./fake-driver.ts";

const TOKEN = "0123456789abcdef0123456789abcdef";
const claim = { rowId: 1, attempt: 1, token: TOKEN };

describe("failure texts", () => {
  const settled = async (detail: string, redact?: (text: string) => string): Promise<unknown> => {
    const { driver, calls } = fakeDriver();
    await createDovecote(driver, redact === undefined ? {} : { redact }).retry(claim, {
      failure: { code: "E\0\ud800", detail },
    });
    const [item] = (calls[0]?.arguments[1] ?? []) as { failure: unknown }[];
    return item?.failure;
  };

  it("SETTLE-02: whatever they hold, they are cut and cleaned instead of refused", async () => {
    expect(await settled(`${"é".repeat(1024)}x`)).toEqual({
      code: "E\ufffd\ufffd",
      detail: "é".repeat(1024),
    });
    expect(await settled(`a\0b\udc00`)).toEqual({ code: "E\ufffd\ufffd", detail: "a\ufffdb\ufffd" });
  });

  it("ERR-04: the redaction hook sees the whole text before it is cut", async () => {
    const long = `${"x".repeat(3000)}secret`;
    expect(await settled(long, (text) => (text.includes("secret") ? "gone" : text))).toMatchObject({
      detail: "gone",
    });
  });

  it.each([
    [
      "throws",
      () => {
        throw new Error("secret");
      },
    ],
    ["answers a number", () => 5 as never],
    ["answers an empty text", () => ""],
  ])("ERR-04: a hook that %s lets nothing through", async (_what, redact) => {
    expect(await settled("secret", redact)).toMatchObject({ detail: "[redaction failed]" });
  });
});

describe("claims", () => {
  it("ERR-04: a token shows itself in no string, JSON or inspection, and can be revealed", async () => {
    const bytes = Uint8Array.from({ length: 16 }, (_, index) => index * 16 + index);
    const store = createDovecote(fakeDriver().driver, { randomBytes: () => bytes });
    const [held] = await store.claim({ worker: "w", limit: 1 });
    const hex = "00112233445566778899aabbccddeeff";
    expect(held?.token.reveal()).toBe(hex);
    const shown = [
      String(held?.token),
      `${held?.token}`,
      JSON.stringify(held),
      inspect(held, { showHidden: true, depth: Number.POSITIVE_INFINITY, getters: true }),
    ].join("\n");
    expect(shown).not.toContain(hex);
    expect(shown).not.toContain(Buffer.from(bytes).toString("base64"));
    expect(shown).toContain("[claim token]");
  });

  it("CLAIM-10: entropy that throws, falls short or repeats itself is refused", async () => {
    const sources = [
      () => {
        throw new Error("no entropy");
      },
      (size: number) => new Uint8Array(size - 1),
      (size: number) => new Uint8Array(size),
    ];
    for (const randomBytes of sources) {
      const store = createDovecote(fakeDriver().driver, { randomBytes });
      await expect(store.claim({ worker: "w", limit: 2 })).rejects.toMatchObject({
        code: "ENTROPY_UNAVAILABLE",
      });
    }
  });

  it("takes the claim of another copy of the package", async () => {
    const { driver, calls } = fakeDriver();
    await createDovecote(driver).ack({ ...claim, token: { reveal: () => TOKEN } as never });
    expect(calls[0]?.arguments[1]).toMatchObject([{ token: Uint8Array.from(Buffer.from(TOKEN, "hex")) }]);
  });
});

describe("enqueueMany", () => {
  it("ID-06: rows reach the driver in identity order, repeated ones in input order, answers come in input order", () => {
    const { driver, calls } = fakeDriver();
    const event = (source: string, id: string, type: string) => ({ stream: "s", source, id, type });
    const given = [
      event("/b", "1", "first"),
      event("/a", "2", "x"),
      event("/b", "1", "second"),
      event("/a", "10", "y"),
    ];
    const outcomes = createDovecote(driver).enqueueMany({}, given);
    const rows = calls[0]?.arguments[1] as { event: { source: string; id: string; type: string } }[];
    expect(rows.map(({ event: { source, id, type } }) => `${source} ${id} ${type}`)).toEqual([
      "/a 10 y",
      "/a 2 x",
      "/b 1 first",
      "/b 1 second",
    ]);
    // The driver answered 1, 2, 3, 4 in the order of its rows.
    expect(outcomes.map(({ rowId, id }) => [rowId, id])).toEqual([
      [3, "1"],
      [2, "2"],
      [4, "1"],
      [1, "10"],
    ]);
  });
});

describe("a closed store", () => {
  it("LIFE-01, LIFE-02: closes its driver once, and refuses everything afterwards", async () => {
    const { driver, calls } = fakeDriver();
    const store = createDovecote(driver);
    await Promise.all([store.close(), store.close()]);
    await store.close();
    expect(calls).toEqual([{ method: "close", arguments: [] }]);
    const event = { stream: "s", source: "/s", type: "t" };
    expect(() => store.enqueue({}, event)).toThrow(expect.objectContaining({ code: "CLOSED" }));
    await expect(store.tenant("a").stats()).rejects.toMatchObject({ code: "CLOSED" });
    await expect(store.admin().reconcile(1)).rejects.toMatchObject({ code: "CLOSED" });
    await expect(store.migrate()).rejects.toMatchObject({ code: "CLOSED" });
  });
});

describe("DovecoteError", () => {
  it("ERR-01: is recognised by its brand and code, not by its class", () => {
    const foreign = Object.assign(new Error("x"), { code: "LOST_CLAIM" });
    expect(isDovecoteError(foreign)).toBe(false);
    Object.defineProperty(foreign, Symbol.for("dovecote.error"), { value: true });
    expect(isDovecoteError(foreign, "LOST_CLAIM")).toBe(true);
    expect(isDovecoteError(foreign, "CLOSED")).toBe(false);
  });

  it("ERR-01: keeps a redacted copy of its cause", () => {
    const native = Object.assign(new Error("failed at postgres://me:hunter2@db/x"), {
      code: "23514",
      constraint_name: "c",
      table_name: "t",
      detail: "Failing row contains (token)",
      where: "somewhere",
      query: "update",
      parameters: ["secret"],
    });
    const { cause } = new DovecoteError("DRIVER_FAILURE", "it failed", { cause: native });
    const shown = inspect(cause, { showHidden: true, depth: Number.POSITIVE_INFINITY });
    expect(cause).toMatchObject({ code: "23514", constraint_name: "c", table_name: "t" });
    expect(cause).toHaveProperty("message", "failed at postgres://[redacted]@db/x");
    for (const secret of ["hunter2", "Failing row", "somewhere", "update", "secret"])
      expect(shown).not.toContain(secret);
    expect(redactCause("text").message).not.toContain("text");
  });

  it("ERR-02: what may succeed if simply repeated is retryable, nothing else", () => {
    expect(new DovecoteError("STORE_BUSY", "x").retryable).toBe(true);
    expect(new DovecoteError("LOST_CLAIM", "x").retryable).toBe(false);
    expect(new DovecoteError("DRIVER_FAILURE", "x", { retryable: true }).retryable).toBe(true);
  });
});
