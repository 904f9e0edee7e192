/** The middleware that is looked at, each as its documentation says to use it. */

import { idempotent } from "@dovecote/http/express";
import { sqlite } from "@dovecote/sqlite";
import Database from "better-sqlite3";
import type { Request, RequestHandler, Response } from "express";
import { getSharedIdempotencyService, idempotency } from "express-idempotency";

type Handler = (request: Request, response: Response) => Promise<void>;

export interface Middleware {
  readonly name: string;
  /** Fresh, with a store of its own. */
  protect(handler: Handler): Promise<readonly RequestHandler[]>;
}

export const MIDDLEWARE: readonly Middleware[] = [
  {
    name: "Dovecote",
    async protect(handler) {
      const shop = sqlite(new Database(":memory:"));
      await shop.migrate();
      const safely = idempotent(shop, { principal: (request) => request.get("x-user") ?? null });
      return [safely({ mode: "record", takeover: "rerun" }, handler)];
    },
  },
  {
    name: "express-idempotency",
    async protect(handler) {
      const middleware = idempotency();
      const once: RequestHandler = (request, response) =>
        getSharedIdempotencyService().isHit(request) ? undefined : handler(request, response);
      return [middleware as unknown as RequestHandler, once];
    },
  },
];
