/** Handlers of the web standard: Request in, Response out. Hono, Bun, Deno and many others speak it. */
import { isThenable, type KeyResponse } from "@dovecote/core";
import { type Answering, type Counting, createGate, type StoreOf } from "./adapter.ts";
import { statusHeader } from "./answer.ts";
import { FetchAnswer, toResponse } from "./fetch-answer.ts";
import { FetchBody } from "./fetch-body.ts";
import { passGate } from "./gate.ts";
import type { Incoming, Passed, RecordContext, TransactionContext, Work } from "./handling.ts";
import type { GateOptions, RecordRouteOptions, TransactionRouteOptions } from "./options.ts";
import { notRepeatable } from "./refused.ts";

/** A Response; or its parts, which is all that a synchronous transaction can answer. */
type Answered<Sync extends boolean> = Sync extends true
  ? KeyResponse
  : Response | KeyResponse | Promise<Response | KeyResponse>;

export type FetchHandler = (request: Request) => Promise<Response>;

export interface Safely<Sync extends boolean, Own> extends Counting {
  (handler: (request: Request, context: TransactionContext<Own>) => Answered<Sync>): FetchHandler;
  (
    options: TransactionRouteOptions<Request>,
    handler: (request: Request, context: TransactionContext<Own>) => Answered<Sync>,
  ): FetchHandler;
  (
    options: RecordRouteOptions<Request>,
    handler: (request: Request, context: RecordContext<Sync, Own>) => Answered<false>,
  ): FetchHandler;
}

/**
 * A gate before handlers that take a Request and answer a Response: a POST or PATCH with an Idempotency-Key is handled once,
 * and answered again from its record.
 *
 * @throws `INVALID_ARGUMENT` for options that are none.
 * @example
 * const safely = idempotent(shop, { principal: (request) => userOf(request) });
 * const createOrder = safely(async (request, { tx }) => {
 *   const order = await insertOrder(tx, await request.json());
 *   await shop.enqueue(tx, placed(order));
 *   return Response.json(order, { status: 201 });
 * });
 */
export function idempotent<Tx, Sync extends boolean, Own extends Tx>(
  store: StoreOf<Request, Tx, Sync, Own>,
  options: GateOptions<Request>,
): Safely<Sync, Own> {
  const gate = createGate(store, options);
  const safely = (...given: readonly [unknown] | readonly [unknown, unknown]): FetchHandler => {
    const { plan, handler, setting } = gate.route(given);
    const handle = handler as (
      request: Request,
      context: unknown,
    ) => Answering<false, Response | KeyResponse>;
    return async (request) => {
      if (request.bodyUsed || request.body?.locked === true) {
        throw new TypeError("the body was read before the gate: read a clone of the request");
      }
      const body = new FetchBody(request);
      const answer = new FetchAnswer(plan.maxAnswerBytes);
      let runs = 0;
      const work: Work<unknown> = {
        hold(context) {
          runs += 1;
          void answer.cancel();
          if (runs > 1 && body.streamed) throw notRepeatable();
          const answered = handle(body.request(), context);
          return isThenable(answered)
            ? Promise.resolve(answered).then((given) => answer.hold(given))
            : answer.hold(answered);
        },
        async pass(context) {
          answer.pass(await handle(body.request(), context));
        },
      };
      let passed: Passed | undefined;
      try {
        passed = await passGate(setting(request), toIncoming(request, body), work);
      } finally {
        if (passed?.outcome !== "handled") void answer.cancel();
      }
      if (passed.outcome === "answered") return toResponse(passed.answer);
      // There is nobody to read it.
      if (passed.outcome === "aborted") return new Response(null, { status: 400 });
      return answer.response(statusHeader(passed));
    };
  };
  return Object.assign(safely, { counts: gate.counts }) as Safely<Sync, Own>;
}

function toIncoming(request: Request, body: FetchBody): Incoming {
  const { headers, method, url } = request;
  const one = (name: string): string | undefined => headers.get(name) ?? undefined;
  const key = one("idempotency-key");
  return {
    method,
    target: url,
    // Several lines are one here, joined by a comma and a space: within quotes, too, they are taken for several.
    keyLines: key?.split(", ") ?? [],
    contentType: one("content-type"),
    contentEncoding: one("content-encoding"),
    contentDigest: one("content-digest"),
    body,
  };
}
