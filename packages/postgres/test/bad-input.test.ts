import { inspect } from "node:util";
import type { DovecoteError } from "@dovecote/core";
import postgresClient from "postgres";
import { assert, describe, expect, it, onTestFinished, vi } from "vitest";
import { type PostgresOptions, postgres, schemaSql } from "../src/index.ts";
import { refused } from "./support.ts";

/** A client that notices whatever is done with it. */
function untouched(): postgresClient.Sql {
  const client = postgresClient("postgres://nobody@127.0.0.1:1/nothing");
  for (const method of ["unsafe", "reserve", "begin", "end"] as const) vi.spyOn(client, method);
  onTestFinished(() => {
    for (const method of ["unsafe", "reserve", "begin", "end"] as const) {
      expect(client[method], `${method} was called`).not.toHaveBeenCalled();
    }
  });
  return client;
}

const refusal = (call: () => unknown): Promise<DovecoteError> =>
  refused("INVALID_ARGUMENT", async () => call());

describe("ERR-03: postgres() refuses, before any I/O, as its client", () => {
  it.each([
    ["null", null],
    ["undefined", undefined],
    ["a number", 5],
    ["true", true],
    ["an empty object", {}],
    ["a list", []],
    ["an object without a prototype", Object.create(null)],
    ["a function", () => {}],
    ["a client of another kind", { query: async () => ({ rows: [] }), connect() {} }],
    ["half a client", { unsafe() {} }],
    ["members that are no functions", { unsafe: 1, reserve: 2 }],
  ])("%s", async (_what, client) => {
    const error = await refusal(() => postgres(client as never));
    expect(error.path).toBe("client");
  });

  it("the transaction of a client", async () => {
    await refusal(() => postgres({ unsafe() {}, savepoint() {} } as never));
  });
});

describe("ERR-03, ERR-04: postgres() refuses, before any I/O and without repeating it, as a URL", () => {
  it.each([
    ["nothing", ""],
    ["no URL", "not a url, but hunter2"],
    ["a bad port", "postgres://user:hunter2@host:99999/db"],
    ["a bad percent escape", "postgres://user:hunter2%zz@host/db"],
    ["a bad host", "postgres://user:hunter2@ho st/db"],
    ["another protocol", "mysql://user:hunter2@host/db"],
    ["a file", "/var/run/hunter2"],
  ])("%s", async (_what, url) => {
    const error = await refusal(() => postgres(url));
    const inspected = inspect(error, { showHidden: true, depth: Number.POSITIVE_INFINITY });
    for (const text of [error.message, error.stack, JSON.stringify(error), inspected]) {
      expect(text).not.toContain("hunter2");
    }
  });
});

describe("ERR-03: postgres() refuses, before any I/O, as options", () => {
  it.each([
    ["null", null],
    ["a string", "public"],
    ["a number", 5],
    ["an unknown member", { shema: "typo" }],
    ["an internal one", { texts: {} }],
    ["a client's", { max: 5 }],
    ["a wrong maxEventBytes", { maxEventBytes: -1 }],
    ["a wrong redact", { redact: "yes" }],
    ["a wrong randomBytes", { randomBytes: 16 }],
  ])("%s", async (_what, options) => {
    await refusal(() => postgres(untouched(), options as PostgresOptions));
  });

  it.each([
    ["empty", ""],
    ["of 64 bytes", "x".repeat(64)],
    ["of 32 characters in 64 bytes", "ü".repeat(32)],
    ["with NUL", "a\0b"],
    ["with a lone surrogate", "a\ud800"],
    ["null", null],
    ["a number", 5],
    ["a list", ["public"]],
    ["an object that shows itself as a name", { toString: () => "public" }],
  ])("SCHEMA-02: a schema that is %s", async (_what, schema) => {
    const error = await refusal(() => postgres(untouched(), { schema } as never));
    expect(error.path).toBe("options.schema");
    expect((await refusal(() => schemaSql(schema as never))).path).toBe("schema");
  });
});

describe("ERR-03: an accepted client is not used before the first call", () => {
  it("SCHEMA-08: and closing what was never used connects to nothing", async () => {
    const dovecote = postgres(untouched(), { schema: "never" });
    assert(dovecote.tenant("acme"));
    await dovecote.close();
  });

  it.each([
    ["claim", { worker: "" }],
    ["claim", { worker: "w", limit: 0 }],
    ["claim", { worker: "w", leaseMs: 0 }],
    ["page", { after: -1 }],
    ["stats", { countLimit: 0 }],
  ] as const)("%s of %j", async (method, options) => {
    const dovecote = postgres(untouched());
    await refused("INVALID_ARGUMENT", () => dovecote[method](options as never));
  });
});
