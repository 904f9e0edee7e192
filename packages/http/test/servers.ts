/** One application on four kinds of server: each request says itself how it wants to be answered. */
import { once } from "node:events";
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { isThenable } from "@dovecote/core";
import { serve as serveFetch } from "@hono/node-server";
import express from "express";
import fastify from "fastify";
import { Hono } from "hono";
import { onTestFinished } from "vitest";
import type { CountsByOutcome } from "../src/counts.ts";
import { idempotent as expressGate } from "../src/express.ts";
import { idempotent as fastifyGate } from "../src/fastify.ts";
import { idempotent as fetchGate } from "../src/fetch.ts";
import type { HandlerContext } from "../src/gate.ts";
import { idempotent as nodeGate } from "../src/node.ts";
import type { GateOptions, RouteOptions } from "../src/options.ts";
import type { AnyStore, Space } from "./stores.ts";

/** How a request wants to be answered. */
export interface Script {
  /** Of the row that the handler inserts. */
  readonly effect?: string;
  readonly status?: number;
  readonly headers?: readonly (readonly [string, string])[];
  /** In base64, so that it can be any bytes. */
  readonly body?: string;
  /** Default "end". The last three cannot be had of a synchronous transaction. */
  readonly how?: "end" | "pieces" | "parts" | "json" | "throw" | "throwLate" | "stream" | "events";
  /** So many bytes instead of `body`. */
  readonly size?: number;
  readonly say?: "save" | "release" | "unreplayable";
}

export type Kind = "fetch" | "node" | "express" | "fastify";
export const KINDS: readonly Kind[] = ["fetch", "node", "express", "fastify"];

export interface Running {
  readonly url: string;
  readonly counts: () => CountsByOutcome;
  /** How often the handler was called. */
  readonly calls: () => number;
}

type Options = Partial<Omit<GateOptions<unknown>, "principal">>;
// biome-ignore lint/suspicious/noExplicitAny: what every adapter's wrapper has in common.
type AnySafely = any;

/** Serves it at `/orders`, on loopback, until the test is over. Who calls is what `x-user` says. */
export async function serve(
  kind: Kind,
  space: Pick<Space, "effect" | "store">,
  options: Options = {},
  route: RouteOptions<never> = {},
): Promise<Running> {
  let calls = 0;
  const handled = (script: Script, context: HandlerContext & { readonly tx?: unknown }): unknown => {
    calls += 1;
    if (script.say === "unreplayable") context.unreplayable("as the handler said");
    else if (script.say !== undefined) context[script.say]();
    return script.effect === undefined ? undefined : space.effect(context.tx, script.effect);
  };
  const { listener, counts } = LISTENERS[kind](space.store, options, route, handled);
  const server = await listener();
  const { port } = server.address() as AddressInfo;
  onTestFinished(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  });
  return { url: `http://127.0.0.1:${port}`, counts, calls: () => calls };
}

type Handled = (script: Script, context: HandlerContext) => unknown;
interface Listening {
  readonly listener: () => Promise<Server>;
  readonly counts: () => CountsByOutcome;
}

const LISTENERS: Readonly<
  Record<Kind, (store: AnyStore, options: Options, route: RouteOptions<never>, handled: Handled) => Listening>
> = {
  fetch(store, options, route, handled) {
    const safely = fetchGate(store, {
      ...options,
      principal: ({ headers }) => headers.get("x-user"),
    } as GateOptions<Request>) as AnySafely;
    const app = new Hono();
    app.onError((_, c) => c.body(null, 500));
    const orders = safely(route, (request: Request, context: HandlerContext) => {
      if (context.body === undefined) return request.text().then(() => new Response("read", { status: 201 }));
      const script = scriptOf(context.body);
      return then(handled(script, context), () => fetchAnswer(script));
    });
    app.all("/orders", (c) => orders(c.req.raw));
    return {
      counts: safely.counts,
      listener: () =>
        new Promise((resolve) => {
          const server = serveFetch({ fetch: app.fetch, hostname: "127.0.0.1", port: 0 }, () =>
            resolve(server as Server),
          );
        }),
    };
  },
  node(store, options, route, handled) {
    const safely = nodeGate(store, {
      ...options,
      principal: principalOf,
      onError: () => {},
    } as GateOptions<IncomingMessage>) as AnySafely;
    const orders = safely(
      route,
      (request: IncomingMessage, response: ServerResponse, context: HandlerContext) => {
        if (context.body === undefined) return readAll(request).then(() => ({ status: 201, body: "read" }));
        const script = scriptOf(context.body);
        return then(handled(script, context), () => nodeAnswer(response, script));
      },
    );
    return { counts: safely.counts, listener: () => listening(orders) };
  },
  express(store, options, route, handled) {
    const safely = expressGate(store, {
      ...options,
      principal: principalOf,
    } as GateOptions<express.Request>) as AnySafely;
    const app = express();
    // What it prints of an error is of no interest here.
    app.set("env", "test");
    app.use(express.json());
    app.all(
      "/orders",
      safely(route, (request: express.Request, response: express.Response, context: HandlerContext) => {
        const script = (request.body ?? {}) as Script;
        return then(handled(script, context), () =>
          script.how === "json"
            ? response.status(script.status ?? 201).json({ id: 1 })
            : nodeAnswer(response, script),
        );
      }),
    );
    return { counts: safely.counts, listener: () => listening(app) };
  },
  fastify(store, options, route, handled) {
    const safely = fastifyGate(store, {
      ...options,
      principal: ({ raw }) => principalOf(raw),
    } as GateOptions<fastify.FastifyRequest>) as AnySafely;
    const app = fastify();
    app.all(
      "/orders",
      safely(
        route,
        (request: fastify.FastifyRequest, reply: fastify.FastifyReply, context: HandlerContext) => {
          const script = (request.body ?? {}) as Script;
          return then(handled(script, context), () => {
            if (script.how === "json") return reply.code(script.status ?? 201).send({ id: 1 });
            const written = nodeAnswer(reply.raw, script);
            return written === undefined
              ? reply
              : reply.code(written.status).headers(Object.fromEntries(written.headers)).send(written.body);
          });
        },
      ),
    );
    return {
      counts: safely.counts,
      async listener() {
        await app.listen({ host: "127.0.0.1", port: 0 });
        return app.server;
      },
    };
  },
};

async function listening(listener: RequestListener): Promise<Server> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}

function principalOf({ headers }: Pick<IncomingMessage, "headers">): string | null {
  return (headers["x-user"] as string | undefined) ?? null;
}

function scriptOf(body: Uint8Array): Script {
  const text = Buffer.from(body).toString();
  return text.startsWith("{") ? (JSON.parse(text) as Script) : {};
}

/** Synchronous if what came before was. */
function then<T>(before: unknown, next: () => T): T | Promise<T> {
  return isThenable(before) ? Promise.resolve(before).then(next) : next();
}

function bytesOf({ body = "", size }: Script): Buffer {
  return size === undefined ? Buffer.from(body, "base64") : Buffer.alloc(size, "x");
}

function partsOf(script: Script) {
  return { status: script.status ?? 201, headers: script.headers ?? [], body: bytesOf(script) };
}

function fetchAnswer(script: Script): unknown {
  const { how = "end" } = script;
  const { status, body } = partsOf(script);
  if (how === "throw" || how === "throwLate") throw new Error("the handler failed");
  if (how === "json") {
    return { status, headers: [["content-type", "application/json"]], body: '{"id":1}' };
  }
  if (how === "stream" || how === "events") {
    const type = how === "events" ? "text/event-stream" : "text/plain";
    return new Response(
      Readable.toWeb(Readable.from([body.subarray(0, 3), body.subarray(3)])) as ReadableStream,
      {
        status,
        headers: { "content-type": type },
      },
    );
  }
  return partsOf(script);
}

/** Answers the parts that are not written. */
function nodeAnswer(response: ServerResponse, script: Script): ReturnType<typeof partsOf> | undefined {
  const { how = "end" } = script;
  const parts = partsOf(script);
  if (how === "throw") throw new Error("the handler failed");
  if (how === "parts") return parts;
  if (how === "events") response.setHeader("content-type", "text/event-stream");
  response.writeHead(parts.status, parts.headers.flat());
  if (how === "stream" || how === "events")
    Readable.from([parts.body.subarray(0, 3), parts.body.subarray(3)]).pipe(response);
  else if (how === "pieces") {
    for (const byte of parts.body) response.write(Buffer.of(byte));
    response.end();
  } else if (how === "json") response.end('{"id":1}');
  else response.end(parts.body);
  if (how === "throwLate") throw new Error("the handler failed after its answer");
  return undefined;
}

async function readAll(request: IncomingMessage): Promise<void> {
  for await (const _ of request);
}

/** Sends a script, as JSON. */
export function post(
  { url }: Pick<Running, "url">,
  key: string | undefined,
  script: Script,
  init: RequestInit & { readonly path?: string; readonly text?: string } = {},
): Promise<Response> {
  return fetch(`${url}${init.path ?? "/orders"}`, {
    method: "POST",
    body: init.text ?? JSON.stringify(script),
    redirect: "manual",
    ...init,
    headers: {
      "content-type": "application/json",
      ...(key !== undefined && { "idempotency-key": key }),
      ...(init.headers as Record<string, string> | undefined),
    },
  });
}
