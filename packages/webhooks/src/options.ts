/** What a transport is made with: endpoints, checked completely before anything is sent. */
import {
  checkOptions,
  checkWhole,
  type DeliveryContext,
  DovecoteError,
  invalid,
  type OutboxEvent,
  type Range,
} from "@dovecote/core";
import { checkHeaders } from "./headers.ts";
import { Signer } from "./signature.ts";

/** Headers for one delivery, as for a token that changes. What it throws makes the event be tried again; its time counts to `timeoutMs`. */
export type HeadersFor = (
  event: OutboxEvent,
  context: DeliveryContext,
) => Readonly<Record<string, string>> | Promise<Readonly<Record<string, string>>>;

export interface SignOptions {
  /**
   * Secrets of Standard Webhooks: `whsec_` and the base64 of 24 to 64 bytes, 1 to 10 of them. Each signs, so that a receiver
   * that knows any of them can verify: give the new one first, and the old one until every receiver has changed.
   */
  readonly secrets: readonly string[];
}

export interface SharedOptions {
  /**
   * How events are written (CloudEvents HTTP protocol binding). `structured`, the default: all in one JSON body, which a
   * signature covers. `binary`: the data as the body, the attributes in `ce-` headers, which no signature covers.
   */
  readonly mode?: "binary" | "structured";
  /** From the headers of the request to the status of the answer, in ms. 1 ms to 1 h, default 15,000. */
  readonly timeoutMs?: number;
}

/** Where events are posted to. */
export interface Endpoint extends SharedOptions {
  /** `http:` or `https:`, without user name and password: they belong into a header. */
  readonly url: string | URL;
  /** Headers for each request, such as `authorization`. Those of the event and of the signature cannot be set. */
  readonly headers?: Readonly<Record<string, string>> | HeadersFor;
  readonly sign?: SignOptions;
}

export interface EndpointPlan {
  readonly url: string;
  /** The only part of the URL that is shown: a path, too, may be a secret. */
  readonly origin: string;
  readonly mode: "binary" | "structured";
  readonly timeoutMs: number;
  readonly headers: (
    event: OutboxEvent,
    context: DeliveryContext,
  ) => ReadonlyMap<string, string> | Promise<ReadonlyMap<string, string>>;
  readonly signer: Signer | undefined;
  /** What must not be part of a failure's text. */
  readonly secrets: readonly string[];
}

const MEMBERS = ["url", "mode", "headers", "timeoutMs", "sign"];
const TIMEOUT_MS: Range = { min: 1, max: 3_600_000 };
const DEFAULT_TIMEOUT_MS = 15_000;

/** @throws `INVALID_ARGUMENT` */
export function toEndpoint(given: unknown, shared: SharedOptions, path: string): EndpointPlan {
  const options = checkOptions(given, MEMBERS, path);
  const url = checkUrl(options.url, `${path}.url`);
  const { mode = shared.mode ?? "structured", timeoutMs = shared.timeoutMs ?? DEFAULT_TIMEOUT_MS } = options;
  const { headers = {}, sign } = options;
  const fixed = typeof headers === "function" ? undefined : checkHeaders(headers, `${path}.headers`);
  const signer = sign === undefined ? undefined : new Signer(sign, `${path}.sign`);
  return {
    url: url.href,
    origin: url.origin,
    mode: checkMode(mode, `${path}.mode`),
    timeoutMs: checkWhole(timeoutMs, TIMEOUT_MS, `${path}.timeoutMs`),
    headers:
      fixed === undefined
        ? async (event, context) =>
            checkHeaders(await (headers as HeadersFor)(event, context), `the answer of ${path}.headers`)
        : () => fixed,
    signer,
    secrets: [url.href, url.pathname + url.search, url.pathname, url.search, ...url.searchParams.values()],
  };
}

/** @throws `INVALID_ARGUMENT` */
export function checkShared({ mode, timeoutMs }: Record<string, unknown>): SharedOptions {
  return {
    ...(mode !== undefined && { mode: checkMode(mode, "options.mode") }),
    ...(timeoutMs !== undefined && { timeoutMs: checkWhole(timeoutMs, TIMEOUT_MS, "options.timeoutMs") }),
  };
}

function checkMode(mode: unknown, path: string): "binary" | "structured" {
  if (mode === "binary" || mode === "structured") return mode;
  throw invalid(path, '"binary" or "structured"', mode);
}

/** No message shows a URL: it may hold a token. */
function checkUrl(given: unknown, path: string): URL {
  const text = given instanceof URL ? given.href : given;
  const url = typeof text === "string" ? parseUrl(text) : undefined;
  if (url === undefined) throw refused(path, "must be an absolute URL");
  if (url.protocol !== "http:" && url.protocol !== "https:")
    throw refused(path, `must be an http: or https: URL, not ${url.protocol}`);
  if (url.username !== "" || url.password !== "")
    throw refused(path, "must not hold a user name or a password: send them in a header");
  url.hash = "";
  return url;
}

function parseUrl(text: string): URL | undefined {
  return URL.canParse(text) ? new URL(text) : undefined;
}

function refused(path: string, reason: string): DovecoteError {
  return new DovecoteError("INVALID_ARGUMENT", `${path} ${reason}`, { path });
}
