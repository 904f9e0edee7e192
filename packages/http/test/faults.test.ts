/** Faults of published idempotency middleware, each shown absent: the names are those of docs/comparison.md. */
import { randomUUID } from "node:crypto";
import { describe, expect, it } from "vitest";
import type { Script } from "./apps.ts";
import { createSpace, post, problemOf, serve, statusOf } from "./fixtures.ts";
import { DRIVERS } from "./stores.ts";

const DAY_MS = 24 * 60 * 60 * 1000;
const RERUN = { mode: "record", takeover: "rerun" } as const;
const WAITS: Script = { stops: "waits" };

describe.each(DRIVERS)("absent on %s", (driver) => {
  it("the middleware's own 409 is recorded and replayed", async () => {
    const server = await serve("express", await createSpace(driver), {}, RERUN);
    const key = randomUUID();
    const first = post(server, key, WAITS);
    const handler = await server.waiting();
    expect((await problemOf(await post(server, key, WAITS))).code).toBe("in-flight");
    handler.goOn();
    expect((await first).status).toBe(201);
    expect((await post(server, key, WAITS)).status).toBe(201);
  });

  it("one mismatching request overwrites the good record", async () => {
    const server = await serve("express", await createSpace(driver));
    const key = randomUUID();
    await post(server, key, { body: "YQ==" });
    for (const _ of [1, 2])
      expect((await problemOf(await post(server, key, { body: "Yg==" }))).code).toBe("mismatch");
    const again = await post(server, key, { body: "YQ==" });
    expect(await again.text()).toBe("a");
    expect(server.calls()).toBe(1);
  });

  it("a handler that answers 204 runs twice", async () => {
    const space = await createSpace(driver);
    const server = await serve("express", space);
    const key = randomUUID();
    for (const _ of [1, 2]) expect((await post(server, key, { status: 204, effect: "a" })).status).toBe(204);
    expect(await space.effects()).toEqual(["a"]);
  });

  it("two routers mounted at different prefixes answer for each other", async () => {
    const space = await createSpace(driver);
    const server = await serve("express", space);
    const key = randomUUID();
    for (const path of ["/v1/orders", "/v2/orders", "/orders"]) {
      expect(statusOf(await post(server, key, { effect: "a" }, { path }))).toBe("created");
    }
    expect(await space.effects()).toEqual(["a", "a", "a"]);
  });

  it.each(["end", "pieces", "stream"] as const)("answers by %s never complete", async (how) => {
    const route = driver === "SQLite" ? RERUN : {};
    const server = await serve("express", await createSpace(driver), {}, route);
    const key = randomUUID();
    const script: Script = { how, body: Buffer.from("some bytes").toString("base64") };
    await post(server, key, script);
    const again = await post(server, key, script);
    expect(statusOf(again)).toBe("replayed");
    expect(await again.text()).toBe("some bytes");
  });

  it("user B gets user A's answer", async () => {
    const server = await serve("express", await createSpace(driver));
    const key = randomUUID();
    for (const user of ["a", "b"]) {
      const response = await post(server, key, {}, { headers: { "x-user": user } });
      expect(statusOf(response)).toBe("created");
    }
  });

  it("binary bodies are corrupted", async () => {
    const server = await serve("express", await createSpace(driver));
    const key = randomUUID();
    const bytes = Buffer.from(Uint8Array.from({ length: 256 }, (_, byte) => byte));
    const script: Script = {
      headers: [["content-type", "application/pdf"]],
      body: bytes.toString("base64"),
    };
    await post(server, key, script);
    const again = await post(server, key, script);
    expect(statusOf(again)).toBe("replayed");
    expect(Buffer.from(await again.arrayBuffer())).toEqual(bytes);
  });

  it("a zombie's answer replaces the new owner's", async () => {
    const space = await createSpace(driver);
    const server = await serve("express", space, {}, RERUN);
    const key = randomUUID();
    const zombie = post(server, key, WAITS);
    const first = await server.waiting();
    await space.age(DAY_MS / 2);
    const owner = post(server, key, WAITS);
    (await server.waiting()).goOn();
    expect(statusOf(await owner)).toBe("created");
    first.goOn();
    expect((await problemOf(await zombie)).code).toBe("claim-lost");
    expect(statusOf(await post(server, key, WAITS))).toBe("replayed");
  });

  it("a zombie's failure frees the new owner's claim", async () => {
    const space = await createSpace(driver);
    const server = await serve("express", space, {}, RERUN);
    const key = randomUUID();
    const fails: Script = { ...WAITS, how: "throw" };
    const zombie = post(server, key, fails);
    const first = await server.waiting();
    await space.age(DAY_MS / 2);
    const owner = post(server, key, fails);
    const second = await server.waiting();
    first.goOn();
    expect((await zombie).status).toBe(500);
    expect((await problemOf(await post(server, key, fails))).code).toBe("in-flight");
    second.goOn();
    await owner;
  });

  it("an expired row that nobody swept blocks its key", async () => {
    const space = await createSpace(driver);
    const server = await serve("express", space, { retentionMs: DAY_MS, tombstoneMs: DAY_MS });
    const key = randomUUID();
    await post(server, key, { effect: "a" });
    await space.age(2 * DAY_MS);
    expect(statusOf(await post(server, key, { effect: "b" }))).toBe("created");
    expect(await space.effects()).toEqual(["a", "b"]);
  });

  it("the same JSON with its keys in another order is a mismatch", async () => {
    const server = await serve("express", await createSpace(driver));
    const key = randomUUID();
    await post(server, key, {}, { text: '{"status":200,"effect":"a"}' });
    const again = await post(server, key, {}, { text: '{"effect":"a","status":200}' });
    expect(statusOf(again)).toBe("replayed");
  });

  it("a replayed 201 has lost its Location", async () => {
    const server = await serve("express", await createSpace(driver));
    const key = randomUUID();
    const script: Script = { headers: [["location", "/orders/1"]] };
    await post(server, key, script);
    const again = await post(server, key, script);
    expect([again.status, again.headers.get("location")]).toEqual([201, "/orders/1"]);
  });

  it("a Set-Cookie is replayed to another client", async () => {
    const server = await serve("express", await createSpace(driver));
    const key = randomUUID();
    const script: Script = { headers: [["set-cookie", "session=1"]] };
    expect((await post(server, key, script)).headers.get("set-cookie")).toBe("session=1");
    const again = await post(server, key, script);
    expect(statusOf(again)).toBe("replayed");
    expect(again.headers.get("set-cookie")).toBeNull();
  });
});
