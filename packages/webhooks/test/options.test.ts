import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { type HttpTransportOptions, httpTransport } from "../src/index.ts";

const url = "https://example.com/hooks";
const secretOf = (bytes: number): string => `whsec_${randomBytes(bytes).toString("base64")}`;

function refusal(options: unknown): {
  readonly code?: string;
  readonly path?: string;
  readonly message: string;
} {
  try {
    httpTransport(options as HttpTransportOptions);
  } catch (error) {
    return error as Error;
  }
  throw new Error("nothing was refused");
}

describe("httpTransport takes", () => {
  it.each<[string, HttpTransportOptions]>([
    ["a text", { url }],
    ["a URL", { url: new URL("http://localhost:3000/?a=b#c") }],
    [
      "everything",
      { url, mode: "binary", headers: { a: "b c" }, timeoutMs: 1, sign: { secrets: [secretOf(24)] }, fetch },
    ],
    [
      "endpoints",
      { byStream: { a: { url }, b: { url, timeoutMs: 5 } }, mode: "binary", timeoutMs: 3_600_000 },
    ],
    ["ten secrets", { url, sign: { secrets: Array.from({ length: 10 }, () => secretOf(64)) } }],
    ["members that are undefined", { url, mode: undefined, headers: { a: undefined } } as never],
  ])("%s", (_, options) => {
    expect(typeof httpTransport(options)).toBe("function");
  });
});

describe("httpTransport refuses", () => {
  it.each<[string, unknown, string]>([
    ["nothing", undefined, "options"],
    ["null", null, "options"],
    ["no URL", {}, "options.url"],
    ["a path", { url: "/hooks" }, "options.url"],
    ["a URL of another scheme", { url: "ftp://example.com/" }, "options.url"],
    ["a file", { url: new URL("file:///etc/passwd") }, "options.url"],
    ["a user name", { url: "https://user@example.com/" }, "options.url"],
    ["a password", { url: "https://:pass@example.com/" }, "options.url"],
    ["an unknown member", { url, retries: 3 }, "options.retries"],
    ["an unknown mode", { url, mode: "batch" }, "options.mode"],
    ["a mode that is null", { url, mode: null }, "options.mode"],
    ["no time", { url, timeoutMs: 0 }, "options.timeoutMs"],
    ["too much time", { url, timeoutMs: 3_600_001 }, "options.timeoutMs"],
    ["a fetch that is none", { url, fetch: 1 }, "options.fetch"],
    ["a list of headers", { url, headers: [["a", "b"]] }, "options.headers"],
    ["Headers", { url, headers: new Headers() }, "options.headers"],
    ["the name of no header", { url, headers: { "a b": "c" } }, 'options.headers["a b"]'],
    ["a header of another type", { url, headers: { a: 1 } }, 'options.headers["a"]'],
    ["a line break in a header", { url, headers: { a: "b\r\nc: d" } }, 'options.headers["a"]'],
    ["a header beyond ASCII", { url, headers: { a: "ä" } }, 'options.headers["a"]'],
    ["an empty header", { url, headers: { a: "" } }, 'options.headers["a"]'],
    ["a header that is there twice", { url, headers: { a: "b", A: "b" } }, 'options.headers["A"]'],
    ...["Content-Type", "ce-id", "CE-x", "webhook-id", "dovecote-fence", "host", "content-length"].map(
      (name): [string, unknown, string] => [
        name,
        { url, headers: { [name]: "x" } },
        `options.headers["${name}"]`,
      ],
    ),
    ["no secrets", { url, sign: {} }, "options.sign.secrets"],
    ["an empty list of secrets", { url, sign: { secrets: [] } }, "options.sign.secrets"],
    ["eleven secrets", { url, sign: { secrets: Array(11).fill(secretOf(24)) } }, "options.sign.secrets"],
    [
      "a secret without its prefix",
      { url, sign: { secrets: [secretOf(24).slice(6)] } },
      "options.sign.secrets[0]",
    ],
    [
      "a secret without its padding",
      { url, sign: { secrets: [secretOf(32).slice(0, -1)] } },
      "options.sign.secrets[0]",
    ],
    ["a short secret", { url, sign: { secrets: [secretOf(24), secretOf(23)] } }, "options.sign.secrets[1]"],
    ["a long secret", { url, sign: { secrets: [secretOf(65)] } }, "options.sign.secrets[0]"],
    [
      "an unknown member of sign",
      { url, sign: { secrets: [secretOf(24)], secret: "x" } },
      "options.sign.secret",
    ],
    ["a URL beside endpoints", { url, byStream: { a: { url } } }, "options.url"],
    ["headers for all endpoints", { headers: {}, byStream: { a: { url } } }, "options.headers"],
    ["no endpoints", { byStream: {} }, "options.byStream"],
    ["endpoints that are none", { byStream: { a: url } }, "options.byStream.a"],
    ["a broken endpoint", { byStream: { a: { url }, b: { url: "x" } } }, "options.byStream.b.url"],
    ["a broken mode for all", { byStream: { a: { url } }, mode: "x" }, "options.mode"],
  ])("%s", (_, options, path) => {
    expect(refusal(options)).toMatchObject({ code: "INVALID_ARGUMENT", path });
  });

  it("without showing a secret", () => {
    for (const options of [
      { url: "https://user:s3cr3t@example.com/" },
      { url: "s3cr3t" },
      { url, headers: { authorization: "s3cr3t\n" } },
      { url, sign: { secrets: ["s3cr3t"] } },
      { url, sign: { secrets: ["whsec_s3cr3t"] } },
      { url, sign: { secrets: "s3cr3t" } },
    ]) {
      expect(JSON.stringify([refusal(options), refusal(options).message])).not.toContain("s3cr3t");
    }
  });
});
