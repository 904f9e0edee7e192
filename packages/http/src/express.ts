/** Handlers of Express 5. */
import type { KeyResponse } from "@dovecote/core";
import type { NextFunction, Request, RequestHandler, Response } from "express";
import { type Answering, type Counting, createGate, type StoreOf } from "./adapter.ts";
import type { RecordContext, TransactionContext } from "./handling.ts";
import { bodyOf, passNode, toIncoming } from "./node.ts";
import type { GateOptions, RecordRouteOptions, TransactionRouteOptions } from "./options.ts";

/** The parts of an answer; or nothing, or the response, of a handler that writes its answer. */
// biome-ignore lint/suspicious/noConfusingVoidType: it is what a function without a return answers.
type Written = KeyResponse | Response | void;

type Handler<Sync extends boolean, Context> = (
  request: Request,
  response: Response,
  context: Context,
) => Answering<Sync, Written>;

export interface Safely<Sync extends boolean, Own> extends Counting {
  (handler: Handler<Sync, TransactionContext<Own>>): RequestHandler;
  (
    options: TransactionRouteOptions<Request>,
    handler: Handler<Sync, TransactionContext<Own>>,
  ): RequestHandler;
  (options: RecordRouteOptions<Request>, handler: Handler<false, RecordContext<Sync, Own>>): RequestHandler;
}

/**
 * A gate before route handlers of Express: a POST or PATCH with an Idempotency-Key is handled once, and answered again from
 * its record. Mount what authenticates before it. The body may be parsed before it, or by the handler. What a handler throws
 * goes to the error handlers of the application, and is not recorded.
 *
 * @throws `INVALID_ARGUMENT` for options that are none.
 * @example
 * const safely = idempotent(shop, { principal: (request) => request.user.id });
 * app.post("/orders", express.json(), safely(async (request, response, { tx }) => {
 *   const order = await insertOrder(tx, request.body);
 *   await shop.enqueue(tx, placed(order));
 *   response.status(201).json(order);
 * }));
 */
export function idempotent<Tx, Sync extends boolean, Own extends Tx>(
  store: StoreOf<Request, Tx, Sync, Own>,
  options: GateOptions<Request>,
): Safely<Sync, Own> {
  const gate = createGate(store, options);
  const safely = (...given: readonly [unknown] | readonly [unknown, unknown]): RequestHandler => {
    const { plan, handler, setting } = gate.route(given);
    const handle = handler as Handler<false, unknown>;
    return async (request: Request, response: Response, next: NextFunction): Promise<void> => {
      try {
        await passNode({
          plan,
          setting: setting(request),
          // With the prefixes of the routers on the way.
          incoming: toIncoming(request, request.originalUrl, bodyOf(request, request.body)),
          request,
          response,
          work: (context) => handle(request, response, context),
          onLate: next,
        });
      } catch (error) {
        next(error);
      }
    };
  };
  return Object.assign(safely, { counts: gate.counts }) as Safely<Sync, Own>;
}
