/** The gate's own answers: RFC 9457 problem details, which a client can tell from those of a handler. */

interface Kind {
  readonly status: number;
  readonly title: string;
}

/** Stable, and what programs branch on. */
export type ProblemCode =
  | "key-missing"
  | "key-malformed"
  | "body-not-canonical"
  | "field-after-file"
  | "multipart-malformed"
  | "digest-missing"
  | "digest-mismatch"
  | "replay-forbidden"
  | "in-flight"
  | "claim-lost"
  | "indeterminate"
  | "unreplayable"
  | "expired"
  | "body-too-large"
  | "target-too-long"
  | "media-type-unsupported"
  | "mismatch"
  | "store-unavailable"
  | "outcome-unknown";

/** The status where no option changes it. Titles are for people, and may change. */
const KINDS: Readonly<Record<ProblemCode, Kind>> = {
  "key-missing": { status: 400, title: "The Idempotency-Key header is missing" },
  "key-malformed": { status: 400, title: "The Idempotency-Key header cannot be read" },
  "body-not-canonical": { status: 400, title: "The JSON body is ambiguous, or no JSON" },
  "field-after-file": { status: 400, title: "A declared field arrived after the file" },
  "multipart-malformed": { status: 400, title: "The multipart body cannot be read" },
  "digest-missing": {
    status: 400,
    title: "The Content-Digest header is missing, or has no algorithm that is known here",
  },
  "digest-mismatch": { status: 400, title: "The body is not what Content-Digest says" },
  "replay-forbidden": { status: 403, title: "The recorded answer is not for this caller" },
  "in-flight": { status: 409, title: "A request with this key is being handled" },
  "claim-lost": { status: 409, title: "Another request took this key over" },
  indeterminate: { status: 409, title: "It is not known whether a request with this key was handled" },
  unreplayable: { status: 409, title: "A request with this key was handled, and its answer was not kept" },
  expired: { status: 409, title: "A request with this key was handled, longer ago than answers are kept" },
  "body-too-large": { status: 413, title: "The body is too large to be compared with an earlier one" },
  "target-too-long": { status: 414, title: "The path is too long" },
  "media-type-unsupported": { status: 415, title: "The body must be multipart/form-data" },
  mismatch: { status: 422, title: "This key was used for another request" },
  "store-unavailable": { status: 503, title: "Keys cannot be checked at the moment: nothing was done" },
  "outcome-unknown": {
    status: 503,
    title: "It is not known whether the request was handled: ask again with the same key",
  },
};

export interface Problem {
  readonly code: ProblemCode;
  /** What is particular to this one, for people. Never a key. */
  readonly detail: string;
  /** Where it is not the code's own. */
  readonly status?: number;
  readonly retryAfterSeconds?: number;
  /** Members of the problem beyond RFC 9457's own. */
  readonly members?: Readonly<Record<string, string | number>>;
}

/** An answer as the adapters send it. */
export interface Answer {
  readonly status: number;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Uint8Array<ArrayBuffer>;
}

/**
 * `type` is `urn:dovecote:problem:<code>`; `Idempotency-Status` says the code too, since not every client reads bodies.
 *
 * @example
 * problemAnswer({ code: "mismatch", detail: "Use a new key for a new request." });
 */
export function problemAnswer({ code, detail, status, retryAfterSeconds, members }: Problem): Answer {
  const kind = KINDS[code];
  const problem = {
    type: `urn:dovecote:problem:${code}`,
    title: kind.title,
    status: status ?? kind.status,
    detail,
    code,
    ...members,
  };
  return {
    status: problem.status,
    headers: [
      ["content-type", "application/problem+json"],
      // A shared cache must not give somebody's conflict to somebody else.
      ["cache-control", "no-store"],
      ["idempotency-status", code],
      ...(retryAfterSeconds === undefined ? [] : [["retry-after", String(retryAfterSeconds)] as const]),
    ],
    body: new TextEncoder().encode(JSON.stringify(problem)),
  };
}

/**
 * When to ask again: most work ends before its lease, so the time left is a bound, not an appointment. Drawn from its upper
 * half, so that those who were refused together do not come back together.
 *
 * @returns whole seconds, at least 1.
 */
export function retryAfterSeconds(
  remainingMs: number,
  { maxSeconds, random }: { readonly maxSeconds: number; readonly random: () => number },
): number {
  const seconds = Math.min(Math.max(remainingMs / 1000, 1), maxSeconds);
  return Math.max(1, Math.ceil(seconds * (0.5 + random() / 2)));
}
