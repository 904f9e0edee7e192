import { isDovecoteError } from "@dovecote/core";
import { describe, expect, it } from "vitest";
import { toPlan } from "../src/options.ts";

const principal = () => null;

function refusal(gate: unknown, route: unknown = {}): unknown {
  try {
    toPlan(gate, route);
  } catch (error) {
    return isDovecoteError(error, "INVALID_ARGUMENT") ? { path: error.path } : error;
  }
  return "accepted";
}

describe("the options of a gate", () => {
  it.each<[object, string]>([
    [{}, "options.principal"],
    [{ principal: "me" }, "options.principal"],
    [{ principal, strict: 1 }, "options.strict"],
    [{ principal, methods: "POST" }, "options.methods"],
    [{ principal, methods: ["post"] }, "options.methods[0]"],
    [{ principal, methods: ["POST", "GET"] }, "options.methods[1]"],
    [{ principal, required: "no" }, "options.required"],
    [{ principal, fingerprint: "sha-256" }, "options.fingerprint"],
    [{ principal, fingerprint: null }, "options.fingerprint"],
    [{ principal, fingerprint: { fields: "title" } }, "options.fingerprint.fields"],
    [{ principal, fingerprint: { fields: [1] } }, "options.fingerprint.fields[0]"],
    [{ principal, fingerprint: { name: "", of: principal } }, "options.fingerprint.name"],
    [{ principal, fingerprint: { name: "mine" } }, "options.fingerprint.of"],
    [{ principal, maxBodyBytes: 0 }, "options.maxBodyBytes"],
    [{ principal, maxBodyBytes: "1" }, "options.maxBodyBytes"],
    [{ principal, maxAnswerBytes: 2 ** 27 }, "options.maxAnswerBytes"],
    [{ principal, record: true }, "options.record"],
    [{ principal, authorizeReplay: true }, "options.authorizeReplay"],
    [{ principal, mismatchStatus: 200 }, "options.mismatchStatus"],
    [{ principal, expiredStatus: 404 }, "options.expiredStatus"],
    [{ principal, maxRetryAfterSeconds: 0 }, "options.maxRetryAfterSeconds"],
    [{ principal, leaseMs: -1 }, "options.leaseMs"],
    [{ principal, recordHeaders: "x-cost" }, "options.recordHeaders"],
    [{ principal, principals: 1 }, "options.principals"],
  ])("%o is refused at %s", (options, path) => {
    expect(refusal(options)).toEqual({ path });
  });

  it.each<[object, string]>([
    [{ mode: "none" }, "route.mode"],
    [{ mode: "record" }, "route.takeover"],
    [{ takeover: "ask" }, "route.takeover"],
    [{ onUnavailable: "run" }, "route.onUnavailable"],
    [{ principal }, "route.principal"],
    [{ leaseMs: 0.5 }, "route.leaseMs"],
  ])("a route's %o is refused at %s", (route, path) => {
    expect(refusal({ principal }, route)).toEqual({ path });
  });

  it("refuses nothing at all", () => {
    expect(refusal(undefined)).toEqual({ path: "options" });
    expect(refusal(null)).toEqual({ path: "options" });
  });

  it("have defaults, and a route's come before a gate's", () => {
    const gate = { principal, maxBodyBytes: 10, maxAnswerBytes: 20, required: true };
    expect(toPlan(gate, { maxBodyBytes: 30, required: false })).toMatchObject({
      methods: new Set(["POST", "PATCH"]),
      maxBodyBytes: 30,
      maxAnswerBytes: 20,
      required: false,
      strict: false,
      body: { kind: "auto" },
      mode: "transaction",
      takeover: "rerun",
      onUnavailable: "refuse",
      mismatchStatus: 422,
      expiredStatus: 409,
      times: {},
    });
  });
});
