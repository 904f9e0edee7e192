/** Handlers of Fastify 5. */
import { isThenable } from "@dovecote/core";
import type { FastifyReply, FastifyRequest, RouteHandlerMethod } from "fastify";
import { type Answering, type Counting, createGate, type StoreOf } from "./adapter.ts";
import type { RecordContext, TransactionContext } from "./handling.ts";
import { bodyOf, passNode, toIncoming } from "./node.ts";
import { sendAnswer } from "./node-capture.ts";
import type { GateOptions, RecordRouteOptions, TransactionRouteOptions } from "./options.ts";

/** What it returns is the payload, unless it sends one itself: as every handler of Fastify. */
type Handler<Sync extends boolean, Context> = (
  request: FastifyRequest,
  reply: FastifyReply,
  context: Context,
) => Answering<Sync, unknown>;

export interface Safely<Sync extends boolean, Own> extends Counting {
  (handler: Handler<Sync, TransactionContext<Own>>): RouteHandlerMethod;
  (
    options: TransactionRouteOptions<FastifyRequest>,
    handler: Handler<Sync, TransactionContext<Own>>,
  ): RouteHandlerMethod;
  (
    options: RecordRouteOptions<FastifyRequest>,
    handler: Handler<false, RecordContext<Sync, Own>>,
  ): RouteHandlerMethod;
}

/**
 * A gate before route handlers of Fastify: a POST or PATCH with an Idempotency-Key is handled once, and answered again from
 * its record. Authenticate in `onRequest` or `preHandler`. What a handler throws goes to the application's error handler, and
 * is not recorded.
 *
 * @throws `INVALID_ARGUMENT` for options that are none.
 * @example
 * const safely = idempotent(shop, { principal: (request) => request.user.id });
 * app.post("/orders", safely(async (request, reply, { tx }) => {
 *   const order = await insertOrder(tx, request.body);
 *   await shop.enqueue(tx, placed(order));
 *   return reply.code(201).send(order);
 * }));
 */
export function idempotent<Tx, Sync extends boolean, Own extends Tx>(
  store: StoreOf<FastifyRequest, Tx, Sync, Own>,
  options: GateOptions<FastifyRequest>,
): Safely<Sync, Own> {
  const gate = createGate(store, options);
  const safely = (...given: readonly [unknown] | readonly [unknown, unknown]): RouteHandlerMethod => {
    const { plan, handler, setting } = gate.route(given);
    const handle = handler as Handler<false, unknown>;
    return async (request, reply) => {
      const before = reply.getHeaders();
      const { send } = reply;
      let sending = false;
      reply.send = (payload) => {
        sending = true;
        return send.call(reply, payload);
      };
      await passNode({
        plan,
        setting: setting(request),
        incoming: toIncoming(request.raw, request.originalUrl, bodyOf(request.raw, request.body)),
        request: request.raw,
        response: reply.raw,
        work: (context) => sent(reply, handle(request, reply, context)),
        onLate: (error) => request.log.error(error),
        send(answer) {
          // Byte by byte: Fastify would add a type to what has none.
          reply.hijack();
          for (const [name, value] of Object.entries(before)) {
            if (value !== undefined) reply.raw.setHeader(name, value);
          }
          sendAnswer(reply.raw, answer);
        },
        async forget(capture) {
          // Its hooks may still be at it, and would write to the response when nothing holds it any more.
          if (sending) await capture.whole().catch(() => {});
          sending = false;
          for (const name of Object.keys(reply.getHeaders())) reply.removeHeader(name);
          reply.headers(before);
        },
      });
      return reply;
    };
  };
  return Object.assign(safely, { counts: gate.counts }) as Safely<Sync, Own>;
}

/** Sends a payload that was returned, as Fastify does: by its serializers and hooks, to the response that is captured. */
function sent(reply: FastifyReply, returned: unknown): void | Promise<void> {
  const send = (payload: unknown): void => {
    if (payload !== undefined && payload !== reply && !reply.sent) void reply.send(payload);
  };
  // A reply is thenable, and waits for its answer to be sent.
  if (returned === reply || !isThenable(returned)) return send(returned);
  return Promise.resolve(returned).then(send);
}
