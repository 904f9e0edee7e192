/** Handlers of node:http. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { isThenable, type KeyResponse, type RunResponse } from "@dovecote/core";
import { type Answering, type Counting, createGate, type StoreOf } from "./adapter.ts";
import { statusHeader, toAnswer } from "./answer.ts";
import { passGate } from "./gate.ts";
import type { Incoming, RecordContext, Setting, TransactionContext, Work } from "./handling.ts";
import { NodeBody } from "./node-body.ts";
import { Capture, sendAnswer } from "./node-capture.ts";
import type { GateOptions, Plan, RecordRouteOptions, TransactionRouteOptions } from "./options.ts";
import type { Answer } from "./problem.ts";
import { notRepeatable } from "./refused.ts";

/** The parts of an answer; or nothing, or the response, of a handler that writes its answer. */
// biome-ignore lint/suspicious/noConfusingVoidType: it is what a function without a return answers.
export type Written = KeyResponse | ServerResponse | void;

type Handler<Sync extends boolean, Context> = (
  request: IncomingMessage,
  response: ServerResponse,
  context: Context,
) => Answering<Sync, Written>;

export type NodeHandler = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

export interface Safely<Sync extends boolean, Own> extends Counting {
  (handler: Handler<Sync, TransactionContext<Own>>): NodeHandler;
  (
    options: TransactionRouteOptions<IncomingMessage>,
    handler: Handler<Sync, TransactionContext<Own>>,
  ): NodeHandler;
  (
    options: RecordRouteOptions<IncomingMessage>,
    handler: Handler<false, RecordContext<Sync, Own>>,
  ): NodeHandler;
}

export interface NodeGateOptions extends GateOptions<IncomingMessage> {
  /** What a handler threw; the client is answered 500. Default: it is a warning of the process. */
  readonly onError?: (error: unknown, request: IncomingMessage) => void;
}

/**
 * A gate before handlers of node:http: a POST or PATCH with an Idempotency-Key is handled once, and answered again from its
 * record. What a handler writes leaves when it is committed.
 *
 * @throws `INVALID_ARGUMENT` for options that are none.
 * @example
 * const safely = idempotent(shop, { principal: (request) => userOf(request) });
 * createServer(safely(async (request, response, { tx }) => {
 *   const order = await insertOrder(tx, await json(request));
 *   response.writeHead(201, { "content-type": "application/json" }).end(JSON.stringify(order));
 * }));
 */
export function idempotent<Tx, Sync extends boolean, Own extends Tx>(
  store: StoreOf<IncomingMessage, Tx, Sync, Own>,
  { onError = warned, ...options }: NodeGateOptions,
): Safely<Sync, Own> {
  const gate = createGate(store, options);
  const safely = (...given: readonly [unknown] | readonly [unknown, unknown]): NodeHandler => {
    const { plan, handler, setting } = gate.route(given);
    const handle = handler as Handler<false, unknown>;
    return async (request, response) => {
      try {
        await passNode({
          plan,
          setting: setting(request),
          incoming: toIncoming(request, targetOf(request), bodyOf(request, undefined)),
          request,
          response,
          work: (context) => handle(request, response, context),
          onLate: (error) => onError(error, request),
        });
      } catch (error) {
        onError(error, request);
        if (!response.headersSent) sendAnswer(response, { status: 500, headers: [], body: new Uint8Array() });
        else if (!response.writableEnded) response.destroy();
      }
    };
  };
  return Object.assign(safely, { counts: gate.counts }) as Safely<Sync, Own>;
}

export interface NodePass<Request, Tx, Sync extends boolean, Own extends Tx> {
  readonly plan: Plan<Request>;
  readonly setting: Setting<Request, Tx, Sync, Own>;
  readonly incoming: Incoming;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Calls the handler, which writes to the response or answers parts. */
  readonly work: (context: unknown) => Written | Promise<Written>;
  /** What a handler failed with once it was known what is recorded. */
  readonly onLate: (error: unknown) => void;
  /** How the gate's own answers are sent. Default: on the response as it is. */
  readonly send?: (answer: Answer) => void;
  /** Before what a handler wrote is forgotten: to wait for what it has begun to write, and to forget what else it left. */
  readonly forget?: (capture: Capture) => Promise<void>;
}

/** Of every server on node:http: captures what the handler writes, and sends it when it may be sent. @throws as `passGate`. */
export async function passNode<Request, Tx, Sync extends boolean, Own extends Tx>({
  plan,
  setting,
  incoming,
  request,
  response,
  work,
  onLate,
  send = (answer) => sendAnswer(response, answer),
  forget,
}: NodePass<Request, Tx, Sync, Own>): Promise<void> {
  let capture: Capture | undefined;
  const discard = async (): Promise<void> => {
    if (capture === undefined) return;
    await forget?.(capture);
    capture.discard();
    if (capture.broken) response.destroy();
  };
  const first = (context: unknown): RunResponse | Promise<RunResponse> => {
    const held = new Capture(response, plan.maxAnswerBytes);
    capture = held;
    const late = (error: unknown): void => {
      held.break(error);
      onLate(error);
    };
    return answered(held, response, work(context), late);
  };
  const held: Work<unknown> = {
    hold: (context) => (capture === undefined ? first(context) : again(context)),
    async pass(context) {
      write(response, await work(context));
    },
  };
  const again = async (context: unknown): Promise<RunResponse> => {
    await discard();
    // Its handler would wait for a body that another run of it has read.
    if (!("parsed" in incoming.body) && request.readableEnded) throw notRepeatable();
    return first(context);
  };
  try {
    const passed = await passGate(setting, incoming, held);
    if (passed.outcome === "handled") {
      capture?.send(statusHeader(passed));
      return;
    }
    await discard();
    if (passed.outcome === "answered") send(passed.answer);
    // What is left of the body stands before the next request on this connection.
    request.resume();
  } catch (error) {
    await discard();
    throw error;
  }
}

/** Where another part of the server has read the body, what it made of it. @throws TypeError if it made nothing of it. */
export function bodyOf(request: IncomingMessage, parsed: unknown): Incoming["body"] {
  if (!request.readableEnded) return new NodeBody(request);
  if (parsed === undefined)
    throw new TypeError("the body was read before the gate, and nothing was made of it");
  return { parsed };
}

/** A framework that mounts handlers keeps what was asked for. */
function targetOf({ originalUrl, url }: IncomingMessage & { readonly originalUrl?: string }): string {
  return originalUrl ?? url ?? "/";
}

export function toIncoming(
  { method = "GET", headers, rawHeaders }: IncomingMessage,
  target: string,
  body: Incoming["body"],
): Incoming {
  const digests = linesOf(rawHeaders, "content-digest");
  return {
    method,
    target,
    keyLines: linesOf(rawHeaders, "idempotency-key"),
    contentType: headers["content-type"],
    contentEncoding: headers["content-encoding"],
    contentDigest: digests.length === 0 ? undefined : digests.join(", "),
    body,
  };
}

/** One by one: joined, two lines could pass for one. Not `headersDistinct`, which an injected request has not. */
function linesOf(rawHeaders: readonly string[], name: string): readonly string[] {
  return rawHeaders.filter((_, index) => index % 2 === 1 && rawHeaders[index - 1]?.toLowerCase() === name);
}

/** The handler may write and end, now or later, or answer parts; what it throws before its answer is decided counts. */
function answered(
  capture: Capture,
  response: ServerResponse,
  returned: Written | Promise<Written>,
  late: (error: unknown) => void,
): RunResponse | Promise<RunResponse> {
  if (!isThenable(returned)) {
    write(response, returned);
    return capture.ended ?? capture.whole();
  }
  return new Promise((resolve, reject) => {
    let decidedOn = false;
    Promise.resolve(returned)
      .then((parts) => write(response, parts))
      .catch((error) => (decidedOn ? late(error) : reject(error)));
    decided(capture).then((answer) => {
      decidedOn = true;
      resolve(answer);
    }, reject);
  });
}

function isParts(written: Written, response: ServerResponse): written is KeyResponse {
  return written !== undefined && written !== response && typeof (written as KeyResponse).status === "number";
}

function write(response: ServerResponse, written: Written): void {
  if (isParts(written, response) && !response.headersSent) sendAnswer(response, toAnswer(written));
}

/** A handler that ends its answer and throws in the same breath has thrown. */
async function decided(capture: Capture): Promise<RunResponse> {
  const answer = await capture.whole();
  await new Promise((resolve) => setImmediate(resolve));
  return answer;
}

function warned(error: unknown): void {
  process.emitWarning(error instanceof Error ? error : String(error));
}
