/** The trace context of an event (CloudEvents extension "Distributed Tracing"), checked by W3C Trace Context. */

/** A valid trace context. */
export interface TraceContext {
  readonly traceparent: string;
  readonly tracestate?: string;
}

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$/;
const ALL_ZERO = /^0+$/;

/** Every implementation passes on so many characters (section 3.3.1.5); longer ones are not sure to arrive. */
const TRACESTATE_MAX_CHARS = 512;
const TRACESTATE_MAX_MEMBERS = 32;
const MEMBER = /^([a-z0-9][a-z0-9_\-*/@]{0,255})=[ -+\--<>-~]{0,255}[!-+\--<>-~]$/;

/**
 * What of a trace context is valid; `undefined` if nothing is. A `traceparent` of a version to come is taken by its first
 * four fields (section 3.2.4). A broken `tracestate` does no harm to its `traceparent`; without a valid `traceparent`, a
 * `tracestate` means nothing (section 3.3). Projections of events leave out what is not valid.
 *
 * @example
 * checkTraceContext({ traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" });
 */
export function checkTraceContext(given: {
  readonly traceparent?: unknown;
  readonly tracestate?: unknown;
}): TraceContext | undefined {
  const { traceparent, tracestate } = given;
  if (typeof traceparent !== "string" || !isTraceparent(traceparent)) return undefined;
  const usable = typeof tracestate === "string" && isTracestate(tracestate);
  return usable ? { traceparent, tracestate } : { traceparent };
}

function isTraceparent(text: string): boolean {
  const match = TRACEPARENT.exec(text);
  if (match === null) return false;
  const [, version = "", traceId = "", parentId = "", more] = match;
  if (version === "ff" || (version === "00" && more !== undefined)) return false;
  return !ALL_ZERO.test(traceId) && !ALL_ZERO.test(parentId);
}

function isTracestate(text: string): boolean {
  if (text.length > TRACESTATE_MAX_CHARS) return false;
  const members = text.split(",").map((member) => member.replace(/^[ \t]+|[ \t]+$/g, ""));
  if (members.length > TRACESTATE_MAX_MEMBERS) return false;
  const keys = new Set<string>();
  for (const member of members) {
    if (member === "") continue; // empty members are legal, and common where headers are joined
    const key = MEMBER.exec(member)?.[1];
    if (key === undefined || keys.has(key)) return false;
    keys.add(key);
  }
  return keys.size > 0;
}
