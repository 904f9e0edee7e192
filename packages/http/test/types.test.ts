/** What the compiler says of handlers: `pnpm typecheck` fails where one of these does not hold. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { postgres } from "@dovecote/postgres";
import { sqlite } from "@dovecote/sqlite";
import type Database from "better-sqlite3";
import type { Request as ExpressRequest, Response as ExpressResponse } from "express";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Sql } from "postgres";
import { describe, expectTypeOf, it } from "vitest";
import { idempotent as expressGate } from "../src/express.ts";
import { idempotent as fastifyGate } from "../src/fastify.ts";
import { idempotent as fetchGate } from "../src/fetch.ts";
import { idempotent as nodeGate } from "../src/node.ts";

const OPTIONS = { principal: () => null };
const RECORD = { mode: "record", takeover: "rerun" } as const;

declare const db: Database.Database;
declare const sql: Sql;
/** Never called: it is only compiled. */
const compiled = (_: () => void): void => {};

describe("handlers", () => {
  it("are typed for their framework", () =>
    compiled(() => {
      const shop = postgres(sql);
      fetchGate(
        shop,
        OPTIONS,
      )(async (request, { tx }) => {
        expectTypeOf(request).toEqualTypeOf<Request>();
        expectTypeOf(tx.sql<[]>`select 1`).resolves.toExtend<readonly unknown[]>();
        return new Response();
      });
      nodeGate(
        shop,
        OPTIONS,
      )(async (request, response) => {
        expectTypeOf(request).toEqualTypeOf<IncomingMessage>();
        expectTypeOf(response).toExtend<ServerResponse>();
      });
      expressGate(
        shop,
        OPTIONS,
      )(async (request, response) => {
        expectTypeOf(request).toExtend<ExpressRequest>();
        expectTypeOf(response).toExtend<ExpressResponse>();
      });
      fastifyGate(
        shop,
        OPTIONS,
      )(async (request, reply) => {
        expectTypeOf(request).toExtend<FastifyRequest>();
        expectTypeOf(reply).toExtend<FastifyReply>();
        return {};
      });
    }));

  it("know their mode", () =>
    compiled(() => {
      const safely = fetchGate(postgres(sql), OPTIONS);
      safely(RECORD, async (_, context) => {
        expectTypeOf(context.signal).toEqualTypeOf<AbortSignal>();
        // @ts-expect-error There is no transaction beside the database, until it commits.
        context.tx;
        return context.commit(async ({ sql: rows }) => {
          await rows`select 1`;
          return { status: 201 };
        });
      });
      safely((_, context) => {
        // @ts-expect-error Who has a transaction ends with it.
        context.commit;
        return new Response();
      });
      // @ts-expect-error Beside the database it is decided what becomes of a handler that died.
      safely({ mode: "record" }, () => new Response());
    }));

  it("are synchronous in a synchronous transaction, and beside it not", () =>
    compiled(() => {
      const shop = sqlite(db);
      const inFetch = fetchGate(shop, OPTIONS);
      inFetch((_, { tx }) => {
        expectTypeOf(tx.client).toExtend<Database.Database>();
        return { status: 201 };
      });
      // @ts-expect-error
      inFetch(async () => ({ status: 201 }));
      // @ts-expect-error The body of a Response is read later.
      inFetch(() => new Response());
      inFetch(RECORD, async () => new Response());
      // @ts-expect-error
      nodeGate(shop, OPTIONS)(async () => ({ status: 201 }));
      nodeGate(shop, OPTIONS)(RECORD, async (_, response) => response.end());
    }));

  it("need to know who calls", () =>
    compiled(() => {
      // @ts-expect-error
      fetchGate(sqlite(db), {});
    }));
});
