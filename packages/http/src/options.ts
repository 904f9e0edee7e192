/** The options of a gate and of its routes, checked and completed before there is a request. */
import {
  BOUNDS,
  checkOptions,
  checkWhole,
  type Fingerprint,
  invalid,
  type RecordedResponse,
  type RecordPolicy,
  recordsByDefault,
  type Takeover,
} from "@dovecote/core";
import { type HeaderList, recordedHeaders } from "./recorded-headers.ts";
import type { BodyMode } from "./request-fingerprint.ts";

/** How the bodies of two requests are compared. */
export type BodyFingerprint<Request> =
  /** JSON by its canonical form, anything else by its bytes. */
  | "auto"
  | "bytes"
  /** By its `Content-Digest` (RFC 9530), which is verified while the handler reads: nothing is held in memory. */
  | "content-digest"
  /**
   * Of multipart/form-data: these fields, and the declared name and type of the first file, never its bytes. The body is read
   * up to that file; the handler gets all of it. What is not declared does not count.
   */
  | { readonly fields: readonly string[] }
  /** Yours: `name` is part of what is stored, so that another function is no mismatch. */
  | {
      readonly name: string;
      readonly of: (request: Request, body: Uint8Array) => Fingerprint | Promise<Fingerprint>;
    };

/** What a route can decide for itself; what it does not say is the gate's. */
export interface SharedOptions<Request> {
  /** Which methods take a key. Default POST and PATCH. GET, HEAD, OPTIONS and TRACE cannot. */
  readonly methods?: readonly string[];
  /** Whether a request without a key is refused. Default true. */
  readonly required?: boolean;
  /** Default "auto". */
  readonly fingerprint?: BodyFingerprint<Request>;
  /** What is read of a body to compare it. 1 byte to 1 GiB, default 1 MiB; more is a 413. */
  readonly maxBodyBytes?: number;
  /** How much of an answer is held to be recorded. 1 byte to 64 MiB, default 1 MiB; a longer one is `unreplayable`. */
  readonly maxAnswerBytes?: number;
  /** Headers that are recorded beyond `content-*`, `location`, `etag`, `last-modified`, `link` and `retry-after`. */
  readonly recordHeaders?: readonly string[];
  /** Default: 2xx, 3xx and 4xx, but 401, 403, 407, 408, 421, 425 and 429. */
  readonly record?: RecordPolicy;
  /** Asked before a recorded answer is given out. Default: everybody whose principal is the same. */
  readonly authorizeReplay?: (request: Request, recorded: RecordedResponse) => boolean | Promise<boolean>;
  /** As of `keys.begin`. */
  readonly leaseMs?: number;
  readonly retentionMs?: number;
  readonly tombstoneMs?: number;
}

export interface GateOptions<Request> extends SharedOptions<Request> {
  /** Who calls, after authentication; `null` where callers are not told apart. Never what anybody can claim to be. */
  readonly principal: (request: Request) => string | null | Promise<string | null>;
  /**
   * What was asked for, with its query, where the request does not say: behind what strips a prefix from it, as Hono's `mount`
   * or a proxy. Default: as the framework has it, mount prefix included.
   */
  readonly target?: (request: Request) => string;
  /** Only quoted keys. Default false: most clients send none. */
  readonly strict?: boolean;
  /** 400 to 499, default 422. */
  readonly mismatchStatus?: number;
  /** Default 409. */
  readonly expiredStatus?: 409 | 410;
  /** 1 to 86,400, default 30. */
  readonly maxRetryAfterSeconds?: number;
}

export interface TransactionRouteOptions<Request> extends SharedOptions<Request> {
  /** The default: the handler's rows, its events and its recorded answer commit together. */
  readonly mode?: "transaction";
  /** Default "rerun". */
  readonly takeover?: Takeover;
}

export interface RecordRouteOptions<Request> extends SharedOptions<Request> {
  /** The handler's effects are outside the database: its answer is recorded after it. */
  readonly mode: "record";
  readonly takeover: Takeover;
  /** If keys cannot be checked: "refuse" (default) with 503, or "run" the handler unprotected, which is counted. */
  readonly onUnavailable?: "refuse" | "run";
}

export type RouteOptions<Request> = TransactionRouteOptions<Request> | RecordRouteOptions<Request>;

/** Everything a request needs to know, decided. */
export interface Plan<Request> {
  readonly principal: GateOptions<Request>["principal"];
  readonly target: GateOptions<Request>["target"];
  readonly methods: ReadonlySet<string>;
  readonly required: boolean;
  readonly strict: boolean;
  readonly body: BodyMode;
  readonly custom: ((request: Request, body: Uint8Array) => Fingerprint | Promise<Fingerprint>) | undefined;
  readonly maxBodyBytes: number;
  readonly maxAnswerBytes: number;
  readonly onUnavailable: "refuse" | "run";
  readonly recorded: (headers: HeaderList) => HeaderList;
  readonly record: RecordPolicy;
  readonly authorizeReplay: NonNullable<SharedOptions<Request>["authorizeReplay"]>;
  readonly mismatchStatus: number;
  readonly expiredStatus: number;
  readonly maxRetryAfterSeconds: number;
  readonly mode: "transaction" | "record";
  readonly takeover: Takeover;
  readonly times: { readonly leaseMs?: number; readonly retentionMs?: number; readonly tombstoneMs?: number };
}

const SHARED = [
  ...["methods", "required", "fingerprint", "maxBodyBytes", "maxAnswerBytes", "recordHeaders", "record"],
  ...["authorizeReplay", "leaseMs", "retentionMs", "tombstoneMs"],
] as const;
const GATE = [
  "principal",
  "target",
  "strict",
  "mismatchStatus",
  "expiredStatus",
  "maxRetryAfterSeconds",
  ...SHARED,
] as const;
const ROUTE = ["mode", "takeover", "onUnavailable", ...SHARED] as const;

/** RFC 9110, section 9.2.1: repeating them is harmless, and their answers change. */
const SAFE: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS", "TRACE"]);
const METHOD = /^[A-Z]+$/;
const MIB = 2 ** 20;
const BODY_BYTES = { min: 1, max: 2 ** 30 };
const CLIENT_ERROR = { min: 400, max: 499 };
const RETRY_SECONDS = { min: 1, max: 86_400 };
const DEFAULT_RETRY_SECONDS = 30;
const NAME_LENGTH = 64;

/** @throws `INVALID_ARGUMENT`. Route options come before the gate's. */
export function toPlan<Request>(gateOptions: unknown, routeOptions: unknown): Plan<Request> {
  if (gateOptions === undefined) throw invalid("options", "an object with a principal", gateOptions);
  const gate = checkOptions(gateOptions, [...GATE], "options");
  const {
    mode = "transaction",
    takeover,
    onUnavailable,
    ...route
  } = checkOptions(routeOptions, [...ROUTE], "route");
  const of = (name: (typeof SHARED)[number]): Named =>
    route[name] === undefined
      ? { value: gate[name], path: `options.${name}` }
      : { value: route[name], path: `route.${name}` };
  if (mode !== "transaction" && mode !== "record") {
    throw invalid("route.mode", '"transaction" or "record"', mode);
  }
  const { name, of: custom } = toBody(of("fingerprint"));
  const functionOr = <T>({ value, path }: Named, fallback: T): T => {
    if (value !== undefined && typeof value !== "function") throw invalid(path, "a function", value);
    return (value as T | undefined) ?? fallback;
  };
  if (typeof gate.principal !== "function") {
    throw invalid("options.principal", "a function that says who calls", gate.principal);
  }
  return {
    principal: gate.principal as Plan<Request>["principal"],
    target: functionOr<Plan<Request>["target"]>({ value: gate.target, path: "options.target" }, undefined),
    methods: toMethods(of("methods")),
    required: flag(of("required"), true),
    strict: flag({ value: gate.strict, path: "options.strict" }, false),
    body: name,
    custom: custom as Plan<Request>["custom"],
    maxBodyBytes: whole(of("maxBodyBytes"), BODY_BYTES, MIB),
    maxAnswerBytes: whole(of("maxAnswerBytes"), BOUNDS.maxAnswerBytes, MIB),
    onUnavailable: toOnUnavailable(onUnavailable, mode),
    recorded: recordedHeaders(toList(of("recordHeaders"))),
    record: functionOr(of("record"), recordsByDefault),
    authorizeReplay: functionOr<Plan<Request>["authorizeReplay"]>(of("authorizeReplay"), () => true),
    mismatchStatus: whole({ value: gate.mismatchStatus, path: "options.mismatchStatus" }, CLIENT_ERROR, 422),
    expiredStatus: toExpiredStatus(gate.expiredStatus),
    maxRetryAfterSeconds: whole(
      { value: gate.maxRetryAfterSeconds, path: "options.maxRetryAfterSeconds" },
      RETRY_SECONDS,
      DEFAULT_RETRY_SECONDS,
    ),
    mode,
    takeover: toTakeover(takeover, mode),
    times: {
      ...time(of("leaseMs"), BOUNDS.leaseMs, "leaseMs"),
      ...time(of("retentionMs"), BOUNDS.retentionMs, "retentionMs"),
      ...time(of("tombstoneMs"), BOUNDS.tombstoneMs, "tombstoneMs"),
    },
  };
}

interface Named {
  readonly value: unknown;
  readonly path: string;
}

interface Range {
  readonly min: number;
  readonly max: number;
}

function whole({ value, path }: Named, range: Range, fallback: number): number {
  return value === undefined ? fallback : checkWhole(value, range, path);
}

function time(named: Named, range: Range, name: keyof Plan<never>["times"]): Plan<never>["times"] {
  return named.value === undefined ? {} : { [name]: checkWhole(named.value, range, named.path) };
}

function flag({ value, path }: Named, fallback: boolean): boolean {
  if (value !== undefined && typeof value !== "boolean") throw invalid(path, "true or false", value);
  return value ?? fallback;
}

function toList({ value, path }: Named): readonly string[] {
  if (value !== undefined && !Array.isArray(value)) throw invalid(path, "a list", value);
  return value ?? [];
}

function toMethods(named: Named): ReadonlySet<string> {
  if (named.value === undefined) return new Set(["POST", "PATCH"]);
  const methods = toList(named);
  for (const [index, method] of methods.entries()) {
    if (typeof method !== "string" || !METHOD.test(method) || SAFE.has(method)) {
      throw invalid(`${named.path}[${index}]`, "an upper-case method that changes something", method);
    }
  }
  return new Set(methods);
}

function toExpiredStatus(value: unknown): number {
  if (value !== undefined && value !== 409 && value !== 410)
    throw invalid("options.expiredStatus", "409 or 410", value);
  return value ?? 409;
}

function toTakeover(value: unknown, mode: "transaction" | "record"): Takeover {
  if (value === undefined && mode === "transaction") return "rerun";
  if (value !== "rerun" && value !== "refuse") throw invalid("route.takeover", '"rerun" or "refuse"', value);
  return value;
}

/** In a transaction nothing can be done without the store. */
function toOnUnavailable(value: unknown, mode: "transaction" | "record"): "refuse" | "run" {
  if (value === undefined) return "refuse";
  if (value !== "refuse" && !(value === "run" && mode === "record")) {
    throw invalid("route.onUnavailable", mode === "record" ? '"refuse" or "run"' : '"refuse"', value);
  }
  return value;
}

function toBody({ value, path }: Named): { readonly name: BodyMode; readonly of: unknown } {
  if (value === undefined || value === "auto" || value === "bytes") {
    return { name: { kind: value ?? "auto" }, of: undefined };
  }
  if (value === "content-digest") return { name: { kind: "digest" }, of: undefined };
  if (typeof value !== "object" || value === null) {
    throw invalid(path, '"auto", "bytes", "content-digest", { fields } or { name, of }', value);
  }
  if ("fields" in value) {
    const { fields } = checkOptions(value, ["fields"], path);
    return { name: { kind: "fields", names: toFieldNames(fields, `${path}.fields`) }, of: undefined };
  }
  const { name, of } = checkOptions(value, ["name", "of"], path);
  if (typeof name !== "string" || name === "" || name.length > NAME_LENGTH) {
    throw invalid(`${path}.name`, `1 to ${NAME_LENGTH} characters`, name);
  }
  if (typeof of !== "function") throw invalid(`${path}.of`, "a function", of);
  return { name: { kind: "custom", algorithm: name }, of };
}

function toFieldNames(value: unknown, path: string): readonly string[] {
  const names = toList({ value: value ?? null, path });
  for (const [index, name] of names.entries()) {
    if (typeof name !== "string" || !name.isWellFormed()) {
      throw invalid(`${path}[${index}]`, "the name of a field", name);
    }
  }
  return [...new Set(names)];
}
