/** What becomes of a key while its request is handled, and of a request whose client, claim or transaction is gone. */
import { randomUUID } from "node:crypto";
import { request as httpRequest } from "node:http";
import { describe, expect, it } from "vitest";
import { KINDS, type Script } from "./apps.ts";
import { createSpace, post, problemOf, type Running, serve, statusOf } from "./fixtures.ts";
import { DRIVERS } from "./stores.ts";

const DAY_MS = 24 * 60 * 60 * 1000;
const RERUN = { mode: "record", takeover: "rerun" } as const;
const REFUSE = { mode: "record", takeover: "refuse" } as const;

/** Sends a script, and goes away as soon as the handler has begun. */
async function abandon(server: Running, key: string, script: Script): Promise<{ readonly goOn: () => void }> {
  const sent = httpRequest(`${server.url}/orders`, {
    method: "POST",
    headers: { "content-type": "application/json", "idempotency-key": key },
  });
  sent.on("error", () => {}).end(JSON.stringify(script));
  const handler = await server.waiting();
  const gone = server.gone();
  sent.destroy();
  await gone;
  return handler;
}

/** Until the work that a client left behind is over. */
async function afterwards(server: Running, key: string, script: Script): Promise<Response> {
  for (;;) {
    const again = await post(server, key, script);
    if (statusOf(again) !== "in-flight") return again;
  }
}

describe.each(KINDS.flatMap((kind) => DRIVERS.map((driver) => ({ kind, driver }))))(
  "$kind on $driver",
  ({ kind, driver }) => {
    /** SQLite's transactions have no time to wait: its handlers wait beside the database. */
    const waitingRoute = driver === "SQLite" ? RERUN : {};

    it("tells a retry of what is being handled when to ask again", async () => {
      const space = await createSpace(driver);
      const server = await serve(kind, space, { maxRetryAfterSeconds: 20 }, waitingRoute);
      const key = randomUUID();
      const first = post(server, key, { stops: "waits", body: "YQ==" });
      const handler = await server.waiting();
      const retry = await post(server, key, { stops: "waits", body: "YQ==" });
      expect(await problemOf(retry.clone())).toEqual({ status: 409, code: "in-flight" });
      const after = Number(retry.headers.get("retry-after"));
      expect(after).toBeGreaterThanOrEqual(10);
      expect(after).toBeLessThanOrEqual(20);
      handler.goOn();
      expect(statusOf(await first)).toBe("created");
      expect(await (await post(server, key, { stops: "waits", body: "YQ==" })).text()).toBe("a");
      expect(server.calls()).toBe(1);
    });

    it.each(["end", "pieces", "stream"] as const)(
      "finishes and records by %s what a client does not wait for",
      async (how) => {
        const space = await createSpace(driver);
        const server = await serve(kind, space, {}, waitingRoute);
        const key = randomUUID();
        const script: Script = {
          stops: "waits",
          how,
          body: Buffer.from("all of it").toString("base64"),
          ...(driver === "Postgres" && { effect: "a" }),
        };
        (await abandon(server, key, script)).goOn();
        const again = await afterwards(server, key, script);
        expect(statusOf(again)).toBe("replayed");
        expect(await again.text()).toBe("all of it");
        expect(server.calls()).toBe(1);
        expect(await space.effects()).toEqual(driver === "Postgres" ? ["a"] : []);
      },
    );

    it("lets a zombie answer nobody, and neither record its answer nor free the key", async () => {
      const space = await createSpace(driver);
      const server = await serve(kind, space, {}, RERUN);
      const key = randomUUID();
      const script: Script = { stops: "waits" };
      for (const _ of ["completed", "still handled"]) {
        const zombie = post(server, key, script);
        const first = await server.waiting();
        await space.age(DAY_MS / 2);
        const owner = post(server, key, script);
        const second = await server.waiting();
        first.goOn();
        expect(await problemOf(await zombie)).toEqual({ status: 409, code: "claim-lost" });
        expect(statusOf(await post(server, key, script))).toBe("in-flight");
        second.goOn();
        expect(statusOf(await owner)).toBe("created");
        expect(statusOf(await post(server, key, script))).toBe("replayed");
        await space.age(366 * DAY_MS);
      }
    });

    it("does not repeat what it may not repeat", async () => {
      const space = await createSpace(driver);
      const server = await serve(kind, space, {}, REFUSE);
      const key = randomUUID();
      const first = post(server, key, { stops: "waits" });
      const handler = await server.waiting();
      await space.age(DAY_MS / 2);
      expect(await problemOf(await post(server, key, { stops: "waits" }))).toEqual({
        status: 409,
        code: "indeterminate",
      });
      handler.goOn();
      expect(await problemOf(await first)).toEqual({ status: 409, code: "claim-lost" });
      expect(server.calls()).toBe(1);
    });

    it("commits rows and answer together beside the database", async () => {
      const space = await createSpace(driver);
      const server = await serve(kind, space, {}, RERUN);
      const key = randomUUID();
      const script: Script = { commits: true, effect: "a", headers: [["location", "/a"]], body: "YQ==" };
      const [first, again] = [await post(server, key, script), await post(server, key, script)];
      for (const response of [first, again]) {
        expect(response.status).toBe(201);
        expect(response.headers.get("location")).toBe("/a");
        expect(await response.text()).toBe("a");
      }
      expect([statusOf(first), statusOf(again)]).toEqual(["created", "replayed"]);
      const zombieKey = randomUUID();
      const zombie = post(server, zombieKey, { ...script, effect: "b", stops: "waits" });
      const handler = await server.waiting();
      await space.age(DAY_MS / 2);
      const owner = post(server, zombieKey, { ...script, effect: "b", stops: "waits" });
      (await server.waiting()).goOn();
      expect(statusOf(await owner)).toBe("created");
      handler.goOn();
      expect(await problemOf(await zombie)).toEqual({ status: 409, code: "claim-lost" });
      expect(await space.effects()).toEqual(["a", "b"]);
    });

    it("passes streams on as they come, and records that they were answered", async () => {
      const space = await createSpace(driver);
      const server = await serve(kind, space, { maxAnswerBytes: 100 }, waitingRoute);
      const events: Script = {
        how: "events",
        body: Buffer.from("data: 1\n\ndata: 2\n\n").toString("base64"),
      };
      for (const script of [events, { how: "stream", size: 300_000 } as const]) {
        const key = randomUUID();
        const first = await post(server, key, script);
        expect(statusOf(first)).toBe("created");
        const length = "size" in script ? script.size : 18;
        expect((await first.arrayBuffer()).byteLength).toBe(length);
        expect(await problemOf(await post(server, key, script))).toEqual({
          status: 409,
          code: "unreplayable",
        });
      }
      const key = randomUUID();
      const short: Script = { how: "stream", body: Buffer.from("short").toString("base64") };
      expect(await (await post(server, key, short)).text()).toBe("short");
      const again = await post(server, key, short);
      expect(statusOf(again)).toBe("replayed");
      expect(await again.text()).toBe("short");
      expect(server.calls()).toBe(3);
    });

    it("runs unprotected while the store is gone only where that was asked for, and counts it", async () => {
      const space = await createSpace(driver);
      const server = await serve(kind, space, {}, { ...RERUN, onUnavailable: "run" });
      await space.close();
      const response = await post(server, randomUUID(), {});
      expect(response.status).toBe(201);
      expect(statusOf(response)).toBeNull();
      expect(server.counts()).toEqual({ unprotected: 1 });
    });
  },
);

describe.each(KINDS.filter((kind) => kind !== "fetch"))("%s", (kind) => {
  it("takes what a handler throws with its answer for a failure, on either driver", async () => {
    for (const driver of DRIVERS) {
      const space = await createSpace(driver);
      const server = await serve(kind, space);
      const key = randomUUID();
      expect((await post(server, key, { effect: "a", how: "throwLate" })).status).toBe(500);
      expect(await space.effects()).toEqual([]);
      expect((await post(server, key, { effect: "a", how: "throwLate" })).status).toBe(500);
      expect(server.calls()).toBe(2);
    }
  });
});
