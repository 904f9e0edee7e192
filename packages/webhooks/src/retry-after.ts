/** The header `Retry-After` (RFC 9110 section 10.2.3). */
import { BOUNDS } from "@dovecote/core";

const SECONDS = /^\d+$/;
/** The three forms of an HTTP date (RFC 9110 section 5.6.7): all start with the name of a day; the last has no zone. */
const DATE =
  /^(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?,? .*\d\d:\d\d:\d\d(?: GMT| \d{4})$/;

/** How long the receiver asks to wait, in ms, at most what a delay may be; `undefined` if it does not say. */
export function retryAfterMs(header: string | null, now: number): number | undefined {
  const text = header?.trim() ?? "";
  const ms = SECONDS.test(text) ? Number(text) * 1000 : dateMs(text) - now;
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(0, Math.round(ms)), BOUNDS.delayMs.max);
}

function dateMs(text: string): number {
  if (!DATE.test(text)) return Number.NaN;
  return Date.parse(text.endsWith("GMT") ? text : `${text} GMT`);
}
