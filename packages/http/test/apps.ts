/** One application on four kinds of server: each request says itself how it wants to be answered. */
import { once } from "node:events";
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from "node:http";
import { Readable } from "node:stream";
import { isThenable, type KeyResponse } from "@dovecote/core";
import { serve as serveFetch } from "@hono/node-server";
import express from "express";
import fastify from "fastify";
import { Hono } from "hono";
import type { CountsByOutcome } from "../src/counts.ts";
import { idempotent as expressGate } from "../src/express.ts";
import { idempotent as fastifyGate } from "../src/fastify.ts";
import { idempotent as fetchGate } from "../src/fetch.ts";
import type { HandlerContext } from "../src/handling.ts";
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
  /** After the effect, and before the answer. Not in a synchronous transaction, but that "dies". */
  readonly stops?: "waits" | "dies";
  /** Beside the database: the effect and the answer in one fenced transaction. */
  readonly commits?: boolean;
}

export type Kind = "fetch" | "node" | "express" | "fastify";
export const KINDS: readonly Kind[] = ["fetch", "node", "express", "fastify"];

export type Options = Partial<Omit<GateOptions<unknown>, "principal">>;
// biome-ignore lint/suspicious/noExplicitAny: what every adapter's wrapper has in common.
type AnySafely = any;

export interface App {
  readonly server: Server;
  readonly counts: () => CountsByOutcome;
}

export interface Setup {
  readonly kind: Kind;
  readonly space: Pick<Space, "effect" | "store">;
  readonly options?: Options;
  readonly route?: RouteOptions<never>;
  /** What a handler does that is to stop: it never gets further, or when this says so. */
  readonly stop: (script: Script, attempt: number) => unknown;
  readonly called?: () => void;
}

/** Listens at `/orders`, and on Express at `/v1/orders` and `/v2/orders` too, on loopback. `x-user` says who calls. */
export async function listen({ kind, space, options = {}, route = {}, stop, called }: Setup): Promise<App> {
  const answer = (script: Script, context: AnyContext): unknown => {
    called?.();
    if (script.say === "unreplayable") context.unreplayable("as the handler said");
    else if (script.say !== undefined) context[script.say]();
    const effect = (tx: unknown) =>
      script.effect === undefined ? undefined : space.effect(tx, script.effect);
    const stopped = (): unknown => (script.stops === undefined ? undefined : stop(script, context.attempt));
    if (script.commits !== true) return then(effect(context.tx), stopped);
    return then(stopped(), () => context.commit?.((tx) => then(effect(tx), () => partsOf(script))));
  };
  const { listener, counts } = LISTENERS[kind](space.store, options, route, answer, called);
  return { server: await listener(), counts };
}

interface AnyContext extends HandlerContext {
  readonly tx?: unknown;
  readonly commit?: (fn: (tx: unknown) => unknown) => Promise<KeyResponse>;
}

/** Does what the script asks for; answers what is to be answered, if that is decided. */
type Handled = (script: Script, context: HandlerContext) => unknown;
interface Listening {
  readonly listener: () => Promise<Server>;
  readonly counts: () => CountsByOutcome;
}

const LISTENERS: Readonly<
  Record<
    Kind,
    (
      store: AnyStore,
      options: Options,
      route: RouteOptions<never>,
      handled: Handled,
      called?: () => void,
    ) => Listening
  >
> = {
  fetch(store, options, route, handled, called) {
    const safely = fetchGate(store, {
      ...options,
      principal: ({ headers }) => headers.get("x-user"),
    } as GateOptions<Request>) as AnySafely;
    const app = new Hono();
    app.onError((_, c) => c.body(null, 500));
    const orders = safely(route, (request: Request, context: HandlerContext) => {
      if (context.body === undefined) {
        called?.();
        return request.text().then(() => new Response("read", { status: 201 }));
      }
      const script = scriptOf(context.body);
      return then(handled(script, context), (answer) => answer ?? fetchAnswer(script));
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
  node(store, options, route, handled, called) {
    const safely = nodeGate(store, {
      ...options,
      principal: principalOf,
      onError: () => {},
    } as GateOptions<IncomingMessage>) as AnySafely;
    const orders = safely(
      route,
      (request: IncomingMessage, response: ServerResponse, context: HandlerContext) => {
        if (context.body === undefined) {
          called?.();
          return readAll(request).then(() => ({ status: 201, body: "read" }));
        }
        const script = scriptOf(context.body);
        return then(handled(script, context), (answer) => answer ?? nodeAnswer(response, script));
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
    const orders = express.Router().all(
      "/orders",
      safely(route, (request: express.Request, response: express.Response, context: HandlerContext) => {
        const script = (request.body ?? {}) as Script;
        return then(handled(script, context), (answer) => {
          if (answer !== undefined) return answer;
          return script.how === "json"
            ? response.status(script.status ?? 201).json({ id: 1 })
            : nodeAnswer(response, script);
        });
      }),
    );
    app.use(orders).use("/v1", orders).use("/v2", orders);
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
          return then(handled(script, context), (answer) => {
            if (script.how === "json") return reply.code(script.status ?? 201).send({ id: 1 });
            const written =
              (answer as ReturnType<typeof partsOf> | undefined) ?? nodeAnswer(reply.raw, script);
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
function then<T>(before: unknown, next: (before: unknown) => T): T | Promise<T> {
  return isThenable(before) ? Promise.resolve(before).then(next) : next(before);
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
