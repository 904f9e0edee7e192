/** Posts events to HTTP endpoints. */
import {
  checkOptions,
  type Deliver,
  type DeliveryContext,
  invalid,
  type OutboxEvent,
  Quarantine,
  type Redact,
  STRUCTURED_JSON,
  toBinary,
  toHttpHeaders,
  toStructuredJson,
} from "@dovecote/core";
import { HttpDeliveryError, verdictOf } from "./answer.ts";
import { checkShared, type Endpoint, type EndpointPlan, type SharedOptions, toEndpoint } from "./options.ts";
import { redactor } from "./redact.ts";
import { readText } from "./response-text.ts";

/** One endpoint for everything, or one for each stream. */
export type HttpTransportOptions = (
  | Endpoint
  | (SharedOptions & {
      /** An event of a stream that is not here is quarantined. `mode` and `timeoutMs` hold for all that do not say one. */
      readonly byStream: Readonly<Record<string, Endpoint>>;
    })
) & {
  /** Instead of the global one, as with a proxy, or with a dispatcher that refuses private addresses. */
  readonly fetch?: typeof fetch;
};

/**
 * A `deliver` for a relay that posts each event to an endpoint. Delivered is what was answered with 2xx. 408, 425, 429, 5xx,
 * no answer in time and failures of the network are tried again, as late as `Retry-After` asks. All else, redirects
 * included, is quarantined.
 *
 * @throws `INVALID_ARGUMENT`. Sends nothing yet.
 * @example
 * const deliver = httpTransport({ url: "https://example.com/hooks", sign: { secrets: [secret] } });
 * await dovecote.admin().relay({ deliver }).run({ signal });
 */
export function httpTransport(options: HttpTransportOptions): Deliver {
  const endpointOf = toRoute(options);
  const send = (options as { readonly fetch?: typeof fetch }).fetch;
  if (send !== undefined && typeof send !== "function") throw invalid("options.fetch", "a function", send);
  return async (event, context) => {
    const endpoint = endpointOf(context.stream);
    if (endpoint === undefined)
      throw new Quarantine(`there is no endpoint for the stream ${JSON.stringify(context.stream)}`);
    await post(endpoint, event, context, send ?? fetch);
  };
}

function toRoute(given: unknown): (stream: string) => EndpointPlan | undefined {
  if (typeof given !== "object" || given === null) throw invalid("options", "an object", given);
  const { fetch: _, ...options } = given as Record<string, unknown>;
  if (options.byStream === undefined) {
    const endpoint = toEndpoint(options, {}, "options");
    return () => endpoint;
  }
  // Headers and secrets stand at their endpoint: those of one receiver are nothing for another.
  const shared = checkShared(checkOptions(options, ["byStream", "mode", "timeoutMs"], "options"));
  const { byStream } = options;
  if (typeof byStream !== "object" || byStream === null || Object.keys(byStream).length === 0)
    throw invalid("options.byStream", "an object with an endpoint per stream", byStream);
  const endpoints = new Map(
    Object.entries(byStream).map(([stream, endpoint]) => [
      stream,
      toEndpoint(endpoint, shared, `options.byStream.${stream}`),
    ]),
  );
  return (stream) => endpoints.get(stream);
}

async function post(
  endpoint: EndpointPlan,
  event: OutboxEvent,
  context: DeliveryContext,
  send: typeof fetch,
): Promise<void> {
  const { origin, timeoutMs } = endpoint;
  const exchange = new AbortController();
  const { signal } = exchange;
  const onAbort = (): void => exchange.abort(context.signal.reason);
  context.signal.throwIfAborted();
  context.signal.addEventListener("abort", onAbort);
  const timedOut = new HttpDeliveryError("HTTP_TIMEOUT", `${origin} did not answer within ${timeoutMs} ms`);
  const timer = setTimeout(() => exchange.abort(timedOut), timeoutMs);
  try {
    const own = await unlessAborted(signal, endpoint.headers(event, context));
    const redact = redactor(() => [...own.values(), ...endpoint.secrets]);
    const { headers, body } = toRequest(endpoint, event, context, own);
    const request = { method: "POST", headers, body, redirect: "manual", signal } as const;
    const answer = (async () => send(endpoint.url, request))();
    const response = await answer.catch((error: unknown) => {
      throw signal.aborted ? signal.reason : noAnswer(error, origin, redact);
    });
    clearTimeout(timer);
    const text = await readText(response);
    if (!response.ok) throw verdictOf(response, redact(text), origin);
  } finally {
    clearTimeout(timer);
    context.signal.removeEventListener("abort", onAbort);
  }
}

/** Rejects with the signal's reason as soon as it aborts. */
function unlessAborted<T>(signal: AbortSignal, value: T | Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason);
    if (signal.aborted) onAbort();
    else signal.addEventListener("abort", onAbort, { once: true });
    Promise.resolve(value).then(resolve, reject);
  });
}

function toRequest(
  { mode, signer }: EndpointPlan,
  event: OutboxEvent,
  context: DeliveryContext,
  own: ReadonlyMap<string, string>,
): { readonly headers: Record<string, string>; readonly body: Uint8Array<ArrayBuffer> } {
  const { fence } = context;
  const binary = mode === "binary" ? toBinary(event) : undefined;
  const body = new Uint8Array(binary === undefined ? toStructuredJson(event) : (binary.body ?? []));
  return {
    body,
    headers: {
      "user-agent": "dovecote-webhooks",
      ...Object.fromEntries(own),
      ...(binary === undefined ? { "content-type": STRUCTURED_JSON } : toHttpHeaders(binary)),
      "dovecote-fence": `${fence.rowId}.${fence.attempt}`,
      ...signer?.headers(event, context, body, new Date()),
    },
  };
}

/** Says what the network said, without the error itself: it may hold the request. */
function noAnswer(error: unknown, origin: string, redact: Redact): HttpDeliveryError {
  const { cause } = error as { readonly cause?: unknown };
  const { code, message } = (cause ?? error) as { readonly code?: unknown; readonly message?: unknown };
  const name = typeof code === "string" && code !== "" ? code : "HTTP_NETWORK";
  const detail = typeof message === "string" && message !== "" ? `: ${redact(message)}` : "";
  return new HttpDeliveryError(name, `${origin} gave no answer: ${name}${detail}`);
}
