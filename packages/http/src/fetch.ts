/** Handlers of the web standard: Request in, Response out. Hono, Bun, Deno and many others speak it. */
import { isThenable, type KeyResponse, type RunResponse } from "@dovecote/core";
import { type Answering, type Counting, createGate, type StoreOf } from "./adapter.ts";
import { hasNoBody, isEventStream, toAnswer, tooLong } from "./answer.ts";
import { FetchBody } from "./fetch-body.ts";
import { passGate } from "./gate.ts";
import type { Incoming, RecordContext, TransactionContext, Work } from "./handling.ts";
import { concatenated } from "./incoming-body.ts";
import type { GateOptions, RecordRouteOptions, TransactionRouteOptions } from "./options.ts";
import type { Answer } from "./problem.ts";

/** A Response; or its parts, which is all that a synchronous transaction can answer. */
type FetchAnswer<Sync extends boolean> = Sync extends true
  ? KeyResponse
  : Response | KeyResponse | Promise<Response | KeyResponse>;

export type FetchHandler = (request: Request) => Promise<Response>;

export interface Safely<Sync extends boolean, Own> extends Counting {
  (handler: (request: Request, context: TransactionContext<Own>) => FetchAnswer<Sync>): FetchHandler;
  (
    options: TransactionRouteOptions<Request>,
    handler: (request: Request, context: TransactionContext<Own>) => FetchAnswer<Sync>,
  ): FetchHandler;
  (
    options: RecordRouteOptions<Request>,
    handler: (request: Request, context: RecordContext<Sync, Own>) => FetchAnswer<false>,
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
      const body = new FetchBody(request);
      const handled: { response?: Response } = {};
      const work: Work<unknown> = (context) => {
        delete handled.response;
        const answer = handle(body.request(), context);
        return isThenable(answer)
          ? Promise.resolve(answer).then((answered) => captured(answered, plan.maxAnswerBytes, handled))
          : (captured(answer, plan.maxAnswerBytes, handled) as RunResponse);
      };
      const passed = await passGate(setting(request), toIncoming(request, body), work);
      if (passed.outcome === "answered") return toResponse(passed.answer);
      // There is nobody to read it.
      if (passed.outcome === "aborted") return new Response(null, { status: 400 });
      const { response } = handled as { readonly response: Response };
      if (passed.status !== undefined) response.headers.set("idempotency-status", passed.status);
      return response;
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
    // Several lines are one here, joined by commas, which no key may hold without quotes.
    keyLines: key === undefined ? [] : [key],
    contentType: one("content-type"),
    contentEncoding: one("content-encoding"),
    contentDigest: one("content-digest"),
    body,
  };
}

/** What is to be recorded of an answer; and the answer that is sent, once it may be. */
function captured(
  answer: Response | KeyResponse,
  maxBytes: number,
  handled: { response?: Response },
): RunResponse | Promise<RunResponse> {
  if (answer instanceof Response) return held(answer, maxBytes, handled);
  const parts = toAnswer(answer);
  handled.response = toResponse(parts);
  return parts.body.length > maxBytes ? { status: parts.status, unreplayable: tooLong(maxBytes) } : parts;
}

async function held(
  response: Response,
  maxBytes: number,
  handled: { response?: Response },
): Promise<RunResponse> {
  const { status, body } = response;
  const headers = [...response.headers];
  if (body === null) {
    handled.response = toResponse({ status, headers, body: new Uint8Array() });
    return { status, headers };
  }
  const reader = body.getReader();
  const pieces: Uint8Array[] = [];
  const streaming = (unreplayable: string): RunResponse => {
    handled.response = new Response(continued(pieces, reader), response);
    return { status, unreplayable };
  };
  if (isEventStream(response.headers.get("content-type"))) return streaming("a stream of events");
  for (let size = 0; size <= maxBytes; size += pieces.at(-1)?.length ?? 0) {
    const { done, value } = await reader.read();
    if (done) {
      const whole = concatenated(pieces);
      handled.response = toResponse({ status, headers, body: whole });
      return { status, headers, body: whole };
    }
    pieces.push(value);
  }
  return streaming(tooLong(maxBytes));
}

/** What was read, and then the rest as it comes. */
function continued(
  pieces: Uint8Array[],
  reader: ReadableStreamDefaultReader<Uint8Array>,
): ReadableStream<Uint8Array> {
  return new ReadableStream(
    {
      async pull(controller) {
        const kept = pieces.shift();
        if (kept !== undefined) return controller.enqueue(kept);
        const { done, value } = await reader.read();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}

function toResponse({ status, headers, body }: Answer): Response {
  const list = new Headers();
  // One by one: an object would merge what is there more than once.
  for (const [name, value] of headers) list.append(name, value);
  return new Response(hasNoBody(status) ? null : body, { status, headers: list });
}
