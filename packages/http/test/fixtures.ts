/** Stores, and servers, that are gone after the test. */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import postgresClient from "postgres";
import { expect, onTestFinished } from "vitest";
import type { CountsByOutcome } from "../src/counts.ts";
import type { RouteOptions } from "../src/options.ts";
import { type Kind, listen, type Options, type Script } from "./apps.ts";
import { type Driver, openSpace, type Space, serverUrl } from "./stores.ts";

/** A migrated store of its own, gone after the test. */
export async function createSpace(driver: Driver): Promise<Space> {
  const address = driver === "SQLite" ? newFolder() : await newSchema();
  const space = openSpace(driver, address);
  await (space.store as unknown as { migrate(): Promise<unknown> }).migrate();
  onTestFinished(() => space.close());
  return space;
}

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "dovecote-http-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

async function newSchema(): Promise<string> {
  const schema = `test_${randomUUID().replaceAll("-", "")}`;
  const admin = postgresClient(serverUrl(), { max: 1, onnotice: () => {} });
  await admin`create schema ${admin(schema)}`;
  await admin`create table ${admin(schema)}.effects (id text)`;
  onTestFinished(async () => {
    await admin`drop schema if exists ${admin(schema)} cascade`;
    await admin.end();
  });
  return schema;
}

export interface Running {
  readonly url: string;
  readonly counts: () => CountsByOutcome;
  /** How often the handler was called. */
  readonly calls: () => number;
  /** The next one of its handlers that waits, once it does. */
  readonly waiting: () => Promise<Waiting>;
  /** Resolves when it has seen a connection close that is open now. */
  readonly gone: () => Promise<void>;
}

interface Waiting {
  readonly goOn: () => void;
}

export async function serve(
  kind: Kind,
  space: Pick<Space, "effect" | "store">,
  options: Options = {},
  route: RouteOptions<never> = {},
): Promise<Running> {
  let calls = 0;
  const waiting: Waiting[] = [];
  const arrivals: ((waiting: Waiting) => void)[] = [];
  const { server, counts } = await listen({
    kind,
    space,
    options,
    route,
    called: () => {
      calls += 1;
    },
    stop: () =>
      new Promise<void>((goOn) => {
        const arrived = arrivals.shift();
        if (arrived === undefined) waiting.push({ goOn });
        else arrived({ goOn });
      }),
  });
  let closing = Promise.withResolvers<void>();
  server.on("connection", (socket) =>
    socket.once("close", () => {
      closing.resolve();
      closing = Promise.withResolvers<void>();
    }),
  );
  return {
    url: addressOf(server),
    gone: () => closing.promise,
    counts,
    calls: () => calls,
    async waiting() {
      return waiting.shift() ?? new Promise((resolve) => arrivals.push(resolve));
    },
  };
}

/** Where it listens, until the test is over. */
function addressOf(server: Server): string {
  onTestFinished(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  });
  const { port } = server.address() as AddressInfo;
  return `http://127.0.0.1:${port}`;
}

/** Serves on loopback until the test is over; answers where. */
export async function listenTo(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  return addressOf(server);
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

/** A problem of the gate's, whole. */
export async function problemOf(
  response: Response,
): Promise<{ readonly status: number; readonly code: string }> {
  expect(response.headers.get("content-type")).toBe("application/problem+json");
  const problem = (await response.json()) as {
    readonly type: string;
    readonly status: number;
    readonly code: string;
  };
  expect(problem.type).toBe(`urn:dovecote:problem:${problem.code}`);
  expect(problem.status).toBe(response.status);
  expect(response.headers.get("idempotency-status")).toBe(problem.code);
  return { status: problem.status, code: problem.code };
}

/** What a client reads off an answer at once. */
export function statusOf(response: Response): string | null {
  return response.headers.get("idempotency-status");
}
