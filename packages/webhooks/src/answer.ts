/** What the answer of a receiver means for an event. */
import { BOUNDS, Quarantine, RetryLater } from "@dovecote/core";
import { retryAfterMs } from "./retry-after.ts";

/** Why a delivery failed, where it may succeed the next time. */
export class HttpDeliveryError extends Error {
  override readonly name = "HttpDeliveryError";
  /** `HTTP_503` and the like, `HTTP_TIMEOUT`, or that of the network, such as `ECONNREFUSED`: failures are found by it. */
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** Beside 5xx: request timeout, too early, too many requests. */
const RETRIED: ReadonlySet<number> = new Set([408, 425, 429]);
const ASKS_TO_WAIT: ReadonlySet<number> = new Set([429, 503]);

/** What to throw for an answer that is none of 2xx. */
export function verdictOf(
  response: Pick<Response, "status" | "headers" | "type">,
  text: string,
  origin: string,
): Error {
  const { status, headers, type } = response;
  const answer = `${origin} answered ${status}${text === "" ? "" : `: ${text}`}`;
  if (type === "opaqueredirect" || (status >= 300 && status < 400)) {
    return new Quarantine(`${answer} (a redirect, which is never followed: change the URL of the endpoint)`);
  }
  if (status >= 400 && status < 500 && !RETRIED.has(status)) return new Quarantine(answer);
  const code = `HTTP_${status}`;
  const asked = ASKS_TO_WAIT.has(status) ? retryAfterMs(headers.get("retry-after"), Date.now()) : undefined;
  if (asked === undefined || asked === 0) return new HttpDeliveryError(code, answer);
  // It says when to come back at the earliest: one that asks for a second every time would use up an event's attempts.
  const verdict = new RetryLater({
    delayMs: Math.min(asked, BOUNDS.delayMs.max),
    reason: answer,
    atLeast: true,
  });
  return Object.assign(verdict, { code });
}
