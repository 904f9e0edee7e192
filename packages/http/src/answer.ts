/** What adapters know of answers. */
import type { KeyResponse } from "@dovecote/core";
import type { Passed } from "./handling.ts";
import type { Answer } from "./problem.ts";
import type { HeaderList } from "./recorded-headers.ts";

/** RFC 9110, sections 15.3.5, 15.3.6 and 15.4.5. */
export function hasNoBody(status: number): boolean {
  return status === 204 || status === 205 || status === 304;
}

export function isEventStream(contentType: string | null | undefined): boolean {
  return /^\s*text\/event-stream\s*(?:;|$)/i.test(contentType ?? "");
}

/** Why an answer is not recorded. */
export function tooLong(maxBytes: number): string {
  return `longer than ${maxBytes} bytes`;
}

/** The parts of an answer, as a handler may give them instead of writing. */
export function toAnswer({ status, headers = [], body = "" }: KeyResponse): Answer {
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : new Uint8Array(body);
  return { status, headers, body: bytes };
}

/** What a handler's answer is sent with beside its own headers. */
export function statusHeader({ as }: Extract<Passed, { readonly outcome: "handled" }>): HeaderList {
  return as === "created" || as === "released" ? [["idempotency-status", as]] : [];
}
