import { fingerprint, isDovecoteError } from "@dovecote/core";
import { describe, expect, it } from "vitest";
import {
  autoFingerprint,
  type BodyMode,
  type RequestParts,
  requestFingerprint,
} from "../src/request-fingerprint.ts";
import { toTarget } from "../src/target.ts";

const AUTO: BodyMode = { kind: "auto" };
const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);

function parts(target: string, contentType?: string, contentEncoding?: string): RequestParts {
  return { parameters: toTarget(target).parameters, contentType, contentEncoding };
}

function of(target: string, body: string, contentType = "application/json", contentEncoding?: string) {
  const given = parts(target, contentType, contentEncoding);
  return requestFingerprint(given, AUTO, autoFingerprint(utf8(body), given));
}

describe("requests are the same", () => {
  it.each([
    ["members of JSON in another order", of("/", '{"a":1,"b":[2]}'), of("/", ' {"b":[2.0],\n"a":1}')],
    ["parameters in another order", of("/?a=1&b=2", "{}"), of("/?b=2&a=1", "{}")],
    ["another charset parameter", of("/", "{}"), of("/", "{}", "Application/JSON; charset=utf-8")],
    [
      "JSON by its suffix",
      of("/", '{"a":1,"b":2}', "application/x+json"),
      of("/", '{"b":2,"a":1}', "application/x+json"),
    ],
  ])("%s", (_, one, other) => {
    expect(one).toEqual(other);
  });

  it("with another boundary", () => {
    const body = fingerprint.fields({ title: "x" });
    const mode: BodyMode = { kind: "fields", names: ["title", "book"] };
    const one = requestFingerprint(parts("/", "multipart/form-data; boundary=a"), mode, body);
    const other = requestFingerprint(
      parts("/", "multipart/form-data; boundary=b"),
      { kind: "fields", names: ["book", "title"] },
      body,
    );
    expect(one).toEqual(other);
  });
});

describe("requests differ", () => {
  it.each([
    ["by a value", of("/", '{"a":1}'), of("/", '{"a":2}')],
    ["by a type within JSON", of("/", '{"a":1}'), of("/", '{"a":"1"}')],
    ["by a parameter", of("/?a=1", "{}"), of("/?a=2", "{}")],
    ["by a duplicate", of("/?a=&a=b", "{}"), of("/?a=b", "{}")],
    ["by what is a name and what a value", of("/?a=b&c=d", "{}"), of("/?a=b%26c=d", "{}")],
    ["by the order of one name's values", of("/?a=1&a=2", "{}"), of("/?a=2&a=1", "{}")],
    ["by their media type", of("/", "{}"), of("/", "{}", "text/plain")],
    ["by their encoding", of("/", "x", "text/plain"), of("/", "x", "text/plain", "gzip")],
    ["by white space in text", of("/", "{ }", "text/plain"), of("/", "{}", "text/plain")],
    ["by having a body", of("/", "", "text/plain"), of("/", " ", "text/plain")],
    ["by a body that looks like a parameter", of("/?a=1", "", "text/plain"), of("/", "?a=1", "text/plain")],
  ])("%s", (_, one, other) => {
    expect(one.algorithm).toBe(other.algorithm);
    expect(one.digest).not.toEqual(other.digest);
  });
});

describe("the algorithm", () => {
  const body = fingerprint.bytes(utf8("x"));
  const named = (mode: BodyMode): string => requestFingerprint(parts("/"), mode, body).algorithm;

  it("is the mode's, so that a change of the mode is no mismatch", () => {
    const names = [
      named(AUTO),
      named({ kind: "bytes" }),
      named({ kind: "digest" }),
      named({ kind: "fields", names: ["a", "b"] }),
      named({ kind: "fields", names: ["a,b"] }),
      named({ kind: "custom", algorithm: "mine-1" }),
      named({ kind: "custom", algorithm: `${"m".repeat(64)}` }),
    ];
    expect(new Set(names).size).toBe(names.length);
  });

  it("is one for every body of a mode: a JSON body and a text are a mismatch, not two unknown ones", () => {
    expect(of("/", "{}").algorithm).toBe(of("/", "{}", "text/plain").algorithm);
  });
});

describe("JSON that two readers may read differently is refused", () => {
  it.each(['{"a":1,"a":2}', "9007199254740993", "{", "\ufeff{}"])("%s", (text) => {
    let failure: unknown;
    try {
      of("/", text);
    } catch (error) {
      failure = error;
    }
    expect(isDovecoteError(failure, "INVALID_ARGUMENT")).toBe(true);
  });

  it("but not read at all where it is encoded, or empty", () => {
    expect(of("/", '{"a":1,"a":2}', "application/json", "gzip")).toBeDefined();
    expect(of("/", "")).toBeDefined();
  });
});
