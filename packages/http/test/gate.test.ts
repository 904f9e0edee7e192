/** What every adapter does on either driver, seen by a client on loopback. */
import { randomUUID } from "node:crypto";
import { describe, expect, it } from "vitest";
import { KINDS, type Script } from "./apps.ts";
import { createSpace, post, problemOf, serve } from "./fixtures.ts";
import { DRIVERS } from "./stores.ts";

const DAY_MS = 24 * 60 * 60 * 1000;
const BINARY = Buffer.from([0, 255, 128, 10, 13, 195, 40]);
const CREATED: Script = {
  effect: "a",
  status: 201,
  headers: [
    ["content-type", "application/octet-stream"],
    ["location", "/orders/1"],
    ["link", "</a>; rel=next"],
    ["link", "</b>; rel=prev"],
    ["set-cookie", "session=1"],
    ["x-cost", "3"],
  ],
  body: BINARY.toString("base64"),
};

describe.each(KINDS.flatMap((kind) => DRIVERS.map((driver) => ({ kind, driver }))))(
  "$kind on $driver",
  ({ kind, driver }) => {
    it("answers again what it answered, byte by byte, without running again", async () => {
      const space = await createSpace(driver);
      const server = await serve(kind, space);
      const key = randomUUID();
      const first = await post(server, key, CREATED);
      expect(first.status).toBe(201);
      expect(Buffer.from(await first.arrayBuffer())).toEqual(BINARY);
      expect(first.headers.get("idempotency-status")).toBe("created");
      expect(first.headers.get("idempotent-replayed")).toBeNull();
      expect(first.headers.get("set-cookie")).toBe("session=1");
      const again = await post(server, `"${key}"`, CREATED);
      expect(again.status).toBe(201);
      expect(Buffer.from(await again.arrayBuffer())).toEqual(BINARY);
      expect(again.headers.get("idempotency-status")).toBe("replayed");
      expect(again.headers.get("idempotent-replayed")).toBe("true");
      expect(again.headers.get("content-type")).toBe("application/octet-stream");
      expect(again.headers.get("location")).toBe("/orders/1");
      expect(again.headers.get("link")).toBe("</a>; rel=next, </b>; rel=prev");
      expect(again.headers.get("set-cookie")).toBeNull();
      expect(again.headers.get("x-cost")).toBeNull();
      expect(server.calls()).toBe(1);
      expect(await space.effects()).toEqual(["a"]);
      expect(server.counts()).toEqual({ created: 1, replayed: 1 });
    });

    it.each<Script>([
      { status: 204 },
      { status: 200 },
      { status: 303, headers: [["location", "/orders/2"]] },
      { status: 404, body: "bm8=" },
      { how: "pieces", body: BINARY.toString("base64") },
      { how: "parts", body: BINARY.toString("base64") },
      { how: "json" },
      { status: 500, say: "save", body: "bm8=" },
      { headers: [["content-encoding", "x-own"]], body: BINARY.toString("base64") },
    ])("records %o once", async (script) => {
      const space = await createSpace(driver);
      const server = await serve(kind, space);
      const key = randomUUID();
      const [first, again] = [await post(server, key, script), await post(server, key, script)];
      expect(again.status).toBe(first.status);
      expect(first.status).toBe(script.status ?? 201);
      expect(again.headers.get("content-type")).toBe(first.headers.get("content-type"));
      expect(again.headers.get("content-encoding")).toBe(first.headers.get("content-encoding"));
      expect(await again.arrayBuffer()).toEqual(await first.arrayBuffer());
      expect(again.headers.get("idempotency-status")).toBe("replayed");
      expect(server.calls()).toBe(1);
    });

    it.each<Script>([
      { effect: "a", how: "throw" },
      { effect: "a", status: 503 },
      { effect: "a", status: 429 },
      { effect: "a", status: 201, say: "release" },
    ])("keeps nothing of %o, and runs it again", async (script) => {
      const space = await createSpace(driver);
      const server = await serve(kind, space);
      const key = randomUUID();
      for (const run of [1, 2]) {
        const response = await post(server, key, script);
        expect(response.status).toBe(script.status ?? 500);
        expect(server.calls()).toBe(run);
      }
      expect(await space.effects()).toEqual([]);
    });

    it("tells another request with the same key that it is another one, and keeps the first one's answer", async () => {
      const space = await createSpace(driver);
      const server = await serve(kind, space);
      const key = randomUUID();
      await post(server, key, CREATED);
      expect(await problemOf(await post(server, key, { ...CREATED, effect: "b" }))).toEqual({
        status: 422,
        code: "mismatch",
      });
      expect(await problemOf(await post(server, key, CREATED, { path: "/orders?x=1" }))).toEqual({
        status: 422,
        code: "mismatch",
      });
      const again = await post(server, key, CREATED);
      expect(again.headers.get("idempotency-status")).toBe("replayed");
      expect(await space.effects()).toEqual(["a"]);
    });

    it("takes the same JSON in another order for the same request", async () => {
      const server = await serve(kind, await createSpace(driver));
      const key = randomUUID();
      await post(server, key, {}, { text: '{"status":200,"effect":"a"}' });
      const again = await post(server, key, {}, { text: ' {"effect":"a","status":200}' });
      expect(again.headers.get("idempotency-status")).toBe("replayed");
    });

    it("keeps the answers of its callers apart, and its methods", async () => {
      const server = await serve(kind, await createSpace(driver));
      const key = randomUUID();
      for (const init of [
        { headers: { "x-user": "a" } },
        { headers: { "x-user": "b" } },
        {},
        { method: "PATCH" },
      ]) {
        expect((await post(server, key, {}, init)).headers.get("idempotency-status")).toBe("created");
      }
      expect(server.calls()).toBe(4);
    });

    it("refuses what has no key, or none that can be read, and passes on what needs none", async () => {
      const space = await createSpace(driver);
      const server = await serve(kind, space);
      expect(await problemOf(await post(server, undefined, {}))).toEqual({
        status: 400,
        code: "key-missing",
      });
      expect(await problemOf(await post(server, "two words", {}))).toEqual({
        status: 400,
        code: "key-malformed",
      });
      expect(await problemOf(await post(server, "k".repeat(256), {}))).toEqual({
        status: 400,
        code: "key-malformed",
      });
      expect(server.calls()).toBe(0);
      for (const method of ["PUT", "DELETE"]) {
        const passed = await post(server, "key", { effect: method }, { method });
        expect(passed.status).toBe(201);
        expect(passed.headers.get("idempotency-status")).toBeNull();
      }
      expect((await fetch(`${server.url}/orders`, { headers: { "idempotency-key": "key" } })).status).toBe(
        201,
      );
      expect(await space.effects()).toEqual(["DELETE", "PUT"]);
      expect(server.counts()).toEqual({ "key-missing": 1, "key-malformed": 2, unkeyed: 3 });
    });

    it("passes on what needs no key by its options, in a transaction that is kept if its answer would be", async () => {
      const space = await createSpace(driver);
      const server = await serve(kind, space, { required: false });
      expect((await post(server, undefined, { effect: "a" })).status).toBe(201);
      expect((await post(server, undefined, { effect: "b", status: 503 })).status).toBe(503);
      expect((await post(server, undefined, { effect: "c", how: "throw" })).status).toBe(500);
      expect(await space.effects()).toEqual(["a"]);
    });

    it("says of an answer that is too long that there was one, and does not run it again", async () => {
      const space = await createSpace(driver);
      const server = await serve(kind, space, { maxAnswerBytes: 1000 });
      for (const script of [
        { effect: "a", size: 300_000 },
        { effect: "b", say: "unreplayable" },
      ] as const) {
        const key = randomUUID();
        const first = await post(server, key, script);
        expect(first.status).toBe(201);
        expect((await first.arrayBuffer()).byteLength).toBe("size" in script ? script.size : 0);
        const again = await post(server, key, script);
        expect(await problemOf(again)).toEqual({ status: 409, code: "unreplayable" });
      }
      expect(server.calls()).toBe(2);
      expect(await space.effects()).toEqual(["a", "b"]);
    });

    it("says of an answer that has expired that there was one, and forgets it in the end, swept or not", async () => {
      const space = await createSpace(driver);
      const server = await serve(kind, space, {
        retentionMs: DAY_MS,
        tombstoneMs: DAY_MS,
        expiredStatus: 410,
      });
      const key = randomUUID();
      await post(server, key, { effect: "a" });
      await space.age(DAY_MS);
      expect(await problemOf(await post(server, key, { effect: "a" }))).toEqual({
        status: 410,
        code: "expired",
      });
      await space.age(DAY_MS);
      expect((await post(server, key, { effect: "a" })).headers.get("idempotency-status")).toBe("created");
    });

    it("asks before it answers again", async () => {
      let allowed = true;
      const server = await serve(kind, await createSpace(driver), { authorizeReplay: () => allowed });
      const key = randomUUID();
      await post(server, key, {});
      expect((await post(server, key, {})).status).toBe(201);
      allowed = false;
      expect(await problemOf(await post(server, key, {}))).toEqual({ status: 403, code: "replay-forbidden" });
    });

    it("does not read more of a body than it may, and no JSON that can be read in two ways", async () => {
      const server = await serve(kind, await createSpace(driver), { maxBodyBytes: 100 });
      const long = JSON.stringify({ text: "x".repeat(200) });
      expect(await problemOf(await post(server, "a", {}, { text: long }))).toEqual({
        status: 413,
        code: "body-too-large",
      });
      if (kind === "fetch" || kind === "node") {
        const twice = await post(server, "b", {}, { text: '{"a":1,"a":2}' });
        expect(await problemOf(twice)).toEqual({ status: 400, code: "body-not-canonical" });
      }
      expect(server.calls()).toBe(0);
    });

    it("fails closed while the store is gone", async () => {
      const space = await createSpace(driver);
      const server = await serve(kind, space);
      await space.close();
      expect(await problemOf(await post(server, "key", {}))).toEqual({
        status: 503,
        code: "store-unavailable",
      });
      expect(server.calls()).toBe(0);
    });
  },
);
