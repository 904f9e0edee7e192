/** Handlers that do what handlers should not, and what frameworks do with them. */
import { createHash, randomUUID } from "node:crypto";
import { writeFileSync } from "node:fs";
import { request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { setImmediate } from "node:timers/promises";
import { DovecoteError } from "@dovecote/core";
import express from "express";
import fastify from "fastify";
import { describe, expect, it } from "vitest";
import { idempotent as expressGate } from "../src/express.ts";
import { idempotent as fastifyGate } from "../src/fastify.ts";
import { idempotent as fetchGate } from "../src/fetch.ts";
import { idempotent as nodeGate } from "../src/node.ts";
import { createSpace, listenTo, problemOf, statusOf } from "./fixtures.ts";
import { DRIVERS } from "./stores.ts";

const DAY_MS = 24 * 60 * 60 * 1000;
const RERUN = { mode: "record", takeover: "rerun" } as const;
const REFUSE = { mode: "record", takeover: "refuse" } as const;
const PRINCIPAL = { principal: () => null };
const conflict = () => new DovecoteError("SERIALIZATION_FAILURE", "as if");

function digestOf(text: string): string {
  return `sha-256=:${createHash("sha256").update(text).digest("base64")}:`;
}

function ask(url: string, key: string, init: RequestInit = {}): Promise<Response> {
  return fetch(url, { method: "POST", ...init, headers: { "idempotency-key": key, ...init.headers } });
}

/** A client of its own connection, that goes away when it is told to. */
function client(url: string, key: string, body: string): { readonly leave: () => void } {
  const sent = httpRequest(url, { method: "POST", headers: { "idempotency-key": key } });
  sent.on("error", () => {}).end(body);
  return { leave: () => sent.destroy() };
}

/** Asks until it is not in flight any more. */
async function afterwards(url: string, key: string, init: RequestInit = {}): Promise<Response> {
  for (;;) {
    const response = await ask(url, key, init);
    if (statusOf(response) !== "in-flight") return response;
  }
}

async function seen(condition: () => boolean): Promise<void> {
  while (!condition()) await setImmediate();
}

describe("a transaction that conflicts", () => {
  it("is repeated with the same body, and its first run leaves nothing", async () => {
    const { store, effect, effects } = await createSpace("Postgres");
    let runs = 0;
    const handle = fetchGate(
      store,
      PRINCIPAL,
    )(async (request, { tx }) => {
      const text = await request.text();
      await effect(tx, text);
      runs += 1;
      if (runs < 3) throw conflict();
      return new Response(text);
    });
    const headers = { "idempotency-key": "a" };
    const response = await handle(new Request("http://x/", { method: "POST", body: "hello", headers }));
    expect([statusOf(response), await response.text()]).toEqual(["created", "hello"]);
    expect(await effects()).toEqual(["hello"]);
  });

  it("is not repeated where its first run has read a stream", async () => {
    const { store, effect, effects } = await createSpace("Postgres");
    let runs = 0;
    const digest = { ...PRINCIPAL, fingerprint: "content-digest" } as const;
    const inFetch = fetchGate(
      store,
      digest,
    )(async (request, { tx }) => {
      await effect(tx, await request.text());
      runs += 1;
      throw conflict();
    });
    const headers = { "idempotency-key": "a", "content-digest": digestOf("hello") };
    const response = await inFetch(new Request("http://x/", { method: "POST", body: "hello", headers }));
    expect((await problemOf(response)).code).toBe("store-unavailable");
    const url = await listenTo(
      nodeGate(
        store,
        digest,
      )(async (request: IncomingMessage) => {
        for await (const _ of request);
        runs += 1;
        throw conflict();
      }),
    );
    const onNode = await ask(url, "b", { body: "hello", headers: { "content-digest": digestOf("hello") } });
    expect((await problemOf(onNode)).code).toBe("store-unavailable");
    expect(runs).toBe(2);
    expect(await effects()).toEqual([]);
  });
});

describe("on node:http", () => {
  it.each(DRIVERS)("a Content-Digest is verified once, and the commit counts, on %s", async (driver) => {
    const { store, effect, effects } = await createSpace(driver);
    const safely = nodeGate(store, { ...PRINCIPAL, fingerprint: "content-digest" });
    const url = await listenTo(
      safely(RERUN, async (request: IncomingMessage, _: ServerResponse, { commit }) => {
        for await (const _piece of request);
        return commit((tx: unknown) => {
          const written = effect(tx, "a");
          return driver === "SQLite"
            ? { status: 201 }
            : Promise.resolve(written).then(() => ({ status: 201 }));
        });
      }),
    );
    const init = { body: "hello", headers: { "content-digest": digestOf("hello") } };
    expect(statusOf(await ask(url, "a", init))).toBe("created");
    expect(statusOf(await ask(url, "a", init))).toBe("replayed");
    expect(await effects()).toEqual(["a"]);
  });

  it("a handler that fails while it reads is no client that went away", async () => {
    const { store } = await createSpace("SQLite");
    const errors: unknown[] = [];
    const options = { ...PRINCIPAL, onError: (error: unknown) => errors.push(error) };
    const full = new Error("the disk is full");
    const safely = nodeGate(store, { ...options, fingerprint: "content-digest" });
    const url = await listenTo(
      safely(RERUN, async (request: IncomingMessage) => {
        await pipeline(request, new Writable({ write: (_piece, _encoding, done) => done(full) }));
        return { status: 201 };
      }),
    );
    const response = await ask(url, "a", { body: "hello", headers: { "content-digest": digestOf("hello") } });
    expect(response.status).toBe(500);
    expect(errors).toEqual([full]);
    expect(safely.counts()).toEqual({});
  });

  it("a handler that fails once its answer is known is reported, and its client does not wait", async () => {
    const { store } = await createSpace("SQLite");
    const errors: unknown[] = [];
    const late = new Error("late");
    const options = { ...PRINCIPAL, maxAnswerBytes: 10, onError: (error: unknown) => errors.push(error) };
    const url = await listenTo(
      nodeGate(store, options)(RERUN, async (request: IncomingMessage, response: ServerResponse) => {
        const key = request.headers["idempotency-key"];
        if (key === "ended") response.end("ok");
        else response.write("x".repeat(100));
        while (!response.writableEnded || key !== "ended") {
          await setImmediate();
          if (response.headersSent && key !== "ended") break;
        }
        for (let turn = 0; turn < 5; turn += 1) await setImmediate();
        throw late;
      }),
    );
    expect(await (await ask(url, "ended")).text()).toBe("ok");
    await expect(ask(url, "broken").then((response) => response.text())).rejects.toThrow();
    await seen(() => errors.length === 2);
    expect(errors).toEqual([late, late]);
    expect(statusOf(await ask(url, "ended"))).toBe("replayed");
    expect(statusOf(await ask(url, "broken"))).toBe("unreplayable");
  });

  it("a response that is destroyed is no answer, and its key can be used again", async () => {
    const { store } = await createSpace("SQLite");
    let destroys = true;
    const errors: unknown[] = [];
    const options = { ...PRINCIPAL, onError: (error: unknown) => errors.push(error) };
    const url = await listenTo(
      nodeGate(store, options)(RERUN, async (request: IncomingMessage, response: ServerResponse) => {
        if (!destroys) return { status: 201 };
        if (request.headers["idempotency-key"] === "a") return void response.destroy();
        const failing = Readable.from(
          (async function* () {
            yield "some";
            throw new Error("the source failed");
          })(),
        );
        await pipeline(failing, response);
        return undefined;
      }),
    );
    for (const key of ["a", "b"]) {
      destroys = true;
      await expect(ask(url, key)).rejects.toThrow("fetch failed");
      destroys = false;
      expect(statusOf(await ask(url, key))).toBe("created");
    }
    expect(errors.map(String)).toEqual([
      "Error: the handler destroyed its response",
      "Error: the source failed",
    ]);
  });

  it.each(["pipeline", "sendFile"] as const)("%s goes on without its client", async (by) => {
    const space = await createSpace("Postgres");
    const folder = await createSpace("SQLite");
    writeFileSync(join(folder.address, "a.txt"), "all of it");
    let runs = 0;
    const goOn = Promise.withResolvers<void>();
    const app = express().set("env", "test");
    app.post(
      "/",
      expressGate(
        space.store,
        PRINCIPAL,
      )(async (_request, response, { tx }) => {
        runs += 1;
        await space.effect(tx, "a");
        await goOn.promise;
        if (by === "sendFile") response.sendFile("a.txt", { root: folder.address });
        else await pipeline(Readable.from(["all ", "of it"]), response);
      }),
    );
    const closed = Promise.withResolvers<void>();
    const url = await listenTo((request, response) => {
      request.socket.once("close", () => closed.resolve());
      app(request, response);
    });
    const { leave } = client(url, "a", "");
    await seen(() => runs === 1);
    leave();
    await closed.promise;
    goOn.resolve();
    const again = await afterwards(url, "a");
    expect([statusOf(again), await again.text()]).toEqual(["replayed", "all of it"]);
    expect(runs).toBe(1);
    expect(await space.effects()).toEqual(["a"]);
  });

  it("an upload that breaks off is not repeated where its handler must not be", async () => {
    const space = await createSpace("SQLite");
    let charges = 0;
    const safely = nodeGate(space.store, { ...PRINCIPAL, fingerprint: "content-digest" });
    const url = await listenTo(
      safely(REFUSE, async (request: IncomingMessage) => {
        charges += 1;
        for await (const _piece of request);
        return { status: 201 };
      }),
    );
    const headers = {
      "idempotency-key": "a",
      "content-digest": digestOf("hello"),
      "content-length": "5",
      "content-type": "text/plain",
    };
    const sent = httpRequest(url, { method: "POST", headers });
    sent.on("error", () => {}).write("hel");
    await seen(() => charges === 1);
    sent.destroy();
    await seen(() => safely.counts().aborted === 1);
    await space.age(DAY_MS / 2);
    const again = { "content-digest": digestOf("hello"), "content-type": "text/plain" };
    const retry = await ask(url, "a", { body: "hello", headers: again });
    expect((await problemOf(retry)).code).toBe("indeterminate");
    expect(charges).toBe(1);
  });

  it("a head is what it was written with, however", async () => {
    const { store } = await createSpace("SQLite");
    const url = await listenTo(
      nodeGate(
        store,
        PRINCIPAL,
      )((_request, response) => {
        response.writeHead(201, undefined as never, { location: "/a" } as never);
        response.end();
      }),
    );
    for (const _ of ["created", "replayed"]) expect((await ask(url, "a")).headers.get("location")).toBe("/a");
  });

  it("a prefix that a framework has taken off counts", async () => {
    const { store } = await createSpace("SQLite");
    let runs = 0;
    const handle = nodeGate(
      store,
      PRINCIPAL,
    )(() => {
      runs += 1;
      return { status: 201 };
    });
    const url = await listenTo(express().use("/v1", handle).use("/v2", handle));
    for (const path of ["/v1/orders", "/v2/orders"])
      expect(statusOf(await ask(url + path, "a"))).toBe("created");
    expect(runs).toBe(2);
  });

  it("what needs no key is neither bounded nor held back", async () => {
    const { store } = await createSpace("SQLite");
    const goOn = Promise.withResolvers<void>();
    const url = await listenTo(
      nodeGate(store, { ...PRINCIPAL, required: false, maxBodyBytes: 10 })(
        RERUN,
        async (request: IncomingMessage, response: ServerResponse) => {
          let length = 0;
          for await (const piece of request) length += (piece as Buffer).length;
          response.write(`${length}`);
          await goOn.promise;
          response.end(" bytes");
        },
      ),
    );
    const { body } = await fetch(url, { method: "POST", body: "x".repeat(100_000) });
    const reader = (body as ReadableStream<Uint8Array>).getReader();
    expect(Buffer.from((await reader.read()).value ?? []).toString()).toBe("100000");
    goOn.resolve();
    expect(Buffer.from((await reader.read()).value ?? []).toString()).toBe(" bytes");
  });
});

describe("on Fastify", () => {
  const slow = async (_request: unknown, _reply: unknown, payload: unknown) => {
    await setImmediate();
    return payload;
  };

  it("hooks that take their time see the answer, and a retry is given what they made of it", async () => {
    const { store, effect, effects } = await createSpace("Postgres");
    const app = fastify().addHook("onSend", slow);
    const safely = fastifyGate(store, PRINCIPAL);
    app.post(
      "/",
      safely(async (_request, reply, { tx }) => {
        await effect(tx, "a");
        return reply.code(201).send({ id: 1 });
      }),
    );
    for (const status of ["created", "replayed"]) {
      const response = await app.inject({ method: "POST", url: "/", headers: { "idempotency-key": "a" } });
      expect([response.statusCode, response.headers["idempotency-status"], response.json()]).toEqual([
        201,
        status,
        { id: 1 },
      ]);
    }
    expect(await effects()).toEqual(["a"]);
  });

  it.each(DRIVERS)("what was rolled back does not leave by a hook on %s", async (driver) => {
    const { store, effect, effects } = await createSpace(driver);
    const app = fastify().addHook("onSend", slow);
    app.setErrorHandler(async (_error, _request, reply) => reply.code(500).send({ failed: true }));
    const safely = fastifyGate(store, PRINCIPAL);
    const handler =
      driver === "SQLite"
        ? (
            _request: unknown,
            reply: { code(status: number): { send(payload: unknown): unknown } },
            { tx }: never,
          ) => {
            effect(tx, "a");
            return reply.code(201).send({ id: 1 });
          }
        : async (
            _request: unknown,
            reply: { code(status: number): { send(payload: unknown): unknown } },
            { tx }: never,
          ) => {
            await effect(tx, "a");
            reply.code(201).send({ id: 1 });
            throw new Error("after it");
          };
    app.post("/", safely(handler as never));
    const response = await app.inject({ method: "POST", url: "/", headers: { "idempotency-key": "a" } });
    expect([response.statusCode, response.json()]).toEqual([500, { failed: true }]);
    expect(await effects()).toEqual([]);
  });

  it("a problem has nothing of the answer that it stands for", async () => {
    const space = await createSpace("SQLite");
    const goOn = Promise.withResolvers<void>();
    let runs = 0;
    const app = fastify().addHook("onRequest", async (_request, reply) => {
      reply.header("x-request-id", "1");
    });
    app.post(
      "/",
      fastifyGate(space.store, PRINCIPAL)(RERUN, async (_request, reply) => {
        runs += 1;
        await goOn.promise;
        return reply.code(201).header("location", "/a").header("set-cookie", "zombie=1").send({ id: 1 });
      }),
    );
    await app.listen({ host: "127.0.0.1", port: 0 });
    try {
      const url = app.listeningOrigin;
      const zombie = ask(url, "a");
      await seen(() => runs === 1);
      await space.age(366 * DAY_MS);
      await space.store.keys.sweep();
      goOn.resolve();
      const response = await zombie;
      expect(response.headers.get("location")).toBeNull();
      expect(response.headers.get("set-cookie")).toBeNull();
      expect(response.headers.get("x-request-id")).toBe("1");
      expect(await problemOf(response)).toEqual({ status: 409, code: "claim-lost" });
    } finally {
      await app.close();
    }
  });

  it("an upload may be injected, with a file and without one", async () => {
    const { store } = await createSpace("SQLite");
    const app = fastify();
    // As @fastify/multipart does: the body stays a stream.
    app.addContentTypeParser("multipart/form-data", (_request, _payload, done) => done(null));
    const safely = fastifyGate(store, { ...PRINCIPAL, fingerprint: { fields: ["title"] } });
    app.post(
      "/",
      safely(RERUN, async (request, reply) => {
        let length = 0;
        for await (const piece of request.raw) length += (piece as Buffer).length;
        return reply.code(201).send({ length });
      }),
    );
    const part = (disposition: string) =>
      `--x\r\ncontent-disposition: form-data; ${disposition}\r\n\r\n${"y".repeat(1000)}\r\n`;
    const title = part('name="title"');
    for (const payload of [`${title}--x--\r\n`, `${title}${part('name="file"; filename="a"')}--x--\r\n`]) {
      const headers = {
        "idempotency-key": `${payload.length}`,
        "content-type": "multipart/form-data; boundary=x",
      };
      for (const status of ["created", "replayed"]) {
        const response = await app.inject({ method: "POST", url: "/", headers, payload });
        expect([response.headers["idempotency-status"], response.json()]).toEqual([
          status,
          { length: payload.length },
        ]);
      }
    }
  });

  it("a body that was parsed before is not taken for what it is not", async () => {
    const { store } = await createSpace("SQLite");
    const app = fastify();
    const inDigest = fastifyGate(store, { ...PRINCIPAL, fingerprint: "content-digest" });
    app.post(
      "/digest",
      inDigest((_request, reply) => reply.code(201).send("done")),
    );
    const inAuto = fastifyGate(store, PRINCIPAL);
    app.addContentTypeParser("multipart/form-data", async (_request: unknown, payload: Readable) => {
      for await (const _ of payload);
      return { title: "Dune" };
    });
    app.post(
      "/multipart",
      inAuto((_request, reply) => reply.code(201).send("done")),
    );
    const headers = { "idempotency-key": "a" };
    const digest = await app.inject({ method: "POST", url: "/digest", headers, payload: { title: "Dune" } });
    expect([digest.statusCode, digest.json().code]).toEqual([500, "INVALID_ARGUMENT"]);
    const multipart = await app.inject({
      method: "POST",
      url: "/multipart",
      headers: { ...headers, "content-type": "multipart/form-data; boundary=x" },
      payload: "--x--",
    });
    expect([multipart.statusCode, multipart.json().code]).toEqual([500, "INVALID_ARGUMENT"]);
  });
});

describe("fetch handlers", () => {
  const post = (url: string, key: string, init: RequestInit = {}) =>
    new Request(url, { method: "POST", ...init, headers: { "idempotency-key": key, ...init.headers } });

  it("know what was asked for where they are told", async () => {
    const { store } = await createSpace("SQLite");
    const target = (request: Request) => request.headers.get("x-forwarded-uri") ?? request.url;
    const handle = fetchGate(store, { ...PRINCIPAL, target })(() => ({ status: 201 }));
    for (const path of ["/v1/orders", "/v2/orders"]) {
      const response = await handle(post("http://x/orders", "a", { headers: { "x-forwarded-uri": path } }));
      expect(statusOf(response)).toBe("created");
    }
  });

  it("say so where their body was read before", async () => {
    const { store } = await createSpace("SQLite");
    const handle = fetchGate(store, PRINCIPAL)(() => ({ status: 201 }));
    const request = post("http://x/", "a", { body: "read" });
    await request.text();
    await expect(handle(request)).rejects.toThrow("the body was read before the gate");
  });

  it("stop making an answer that nobody is sent", async () => {
    const space = await createSpace("SQLite");
    let cancelled = 0;
    const goOn = Promise.withResolvers<void>();
    const started = Promise.withResolvers<void>();
    const handle = fetchGate(space.store, PRINCIPAL)(RERUN, async () => {
      started.resolve();
      await goOn.promise;
      const events = new ReadableStream({
        cancel: () => {
          cancelled += 1;
        },
      });
      return new Response(events, { headers: { "content-type": "text/event-stream" } });
    });
    const zombie = handle(post("http://x/", "a"));
    await started.promise;
    await space.age(366 * DAY_MS);
    await space.store.keys.sweep();
    goOn.resolve();
    expect((await problemOf(await zombie)).code).toBe("claim-lost");
    expect(cancelled).toBe(1);
  });

  it("belong to whose store they are asked for", async () => {
    const { store, effect, effects } = await createSpace("SQLite");
    const tenants = store as unknown as { tenant(name: string): typeof store };
    const of = (request: Request) => tenants.tenant(request.headers.get("x-tenant") ?? "");
    const handle = fetchGate(
      of,
      PRINCIPAL,
    )((request, { tx }) => {
      effect(tx, request.headers.get("x-tenant") ?? "");
      return { status: 201 };
    });
    const key = randomUUID();
    for (const tenant of ["acme", "zeta"]) {
      const response = await handle(post("http://x/", key, { headers: { "x-tenant": tenant } }));
      expect(statusOf(response)).toBe("created");
    }
    expect(await effects()).toEqual(["acme", "zeta"]);
  });

  it("are told of a commit whose reply was lost, and of a path that is too long", async () => {
    const { store } = await createSpace("SQLite");
    const ambiguous = new DovecoteError("CONNECTION_LOST", "as if", { ambiguous: true });
    const run = async (...given: Parameters<typeof store.keys.run>): Promise<never> => {
      await store.keys.run(...given);
      throw ambiguous;
    };
    const lost = { keys: { ...store.keys, run }, transaction: store.transaction } as unknown as typeof store;
    const handle = fetchGate(lost, PRINCIPAL)(() => ({ status: 201 }));
    expect(await problemOf(await handle(post("http://x/", "a")))).toEqual({
      status: 503,
      code: "outcome-unknown",
    });
    const whole = fetchGate(store, PRINCIPAL)(() => ({ status: 201 }));
    expect(statusOf(await whole(post("http://x/", "a")))).toBe("replayed");
    expect(await problemOf(await whole(post(`http://x/${"a".repeat(9000)}`, "a")))).toEqual({
      status: 414,
      code: "target-too-long",
    });
  });
});
