/** A failure as it can be stored, made of whatever was thrown (RELAY-06). */
import { BOUNDS } from "../bounds.ts";
import type { Failure } from "../driver.ts";
import { verdictKind } from "./brand.ts";

/** Longer texts are cut before they are looked at: one of megabytes costs no more than a short one. */
const LONGEST = 4 * BOUNDS.failureDetailBytes;
const DEEPEST_CAUSE = 5;
const UNREADABLE = "what was thrown cannot be read";

/**
 * The code is the thrown error's own `code`, or its name; the detail its message and those of its causes. `secret` does
 * not appear in it. Never throws.
 */
export function captureFailure(thrown: unknown, secret: string): Failure {
  const clean = (text: string): string => text.replaceAll(secret, "[token]");
  return {
    code: clean(codeOf(thrown)) || "error",
    detail: clean(detailOf(thrown)) || UNREADABLE,
  };
}

function codeOf(thrown: unknown): string {
  for (const member of ["code", "name"] as const) {
    const value = read(thrown, member);
    if (typeof value === "string" && value !== "" && value !== "Error")
      return value.slice(0, BOUNDS.failureCodeBytes);
  }
  return "error";
}

function detailOf(thrown: unknown): string {
  const texts: string[] = [];
  const seen = new Set<unknown>();
  let current = thrown;
  while (current !== undefined && current !== null && !seen.has(current) && texts.length < DEEPEST_CAUSE) {
    seen.add(current);
    texts.push(textOf(current));
    current = typeof current === "object" ? read(current, "cause") : undefined;
  }
  if (texts.length === 0) texts.push(String(thrown)); // undefined and null
  return texts.join(", caused by ").slice(0, LONGEST);
}

function textOf(value: unknown): string {
  if (typeof value !== "object" && typeof value !== "function") {
    return typeof value === "string" ? value.slice(0, LONGEST) : String(value);
  }
  const message = read(value, "message");
  const name = read(value, "name");
  // What a handler says on purpose needs no name before it.
  const named = typeof name === "string" && name !== "" && verdictKind(value) === undefined;
  const head = named ? `${name.slice(0, LONGEST)}: ` : "";
  if (typeof message === "string") return head + message.slice(0, LONGEST);
  try {
    return JSON.stringify(value)?.slice(0, LONGEST) ?? UNREADABLE;
  } catch {
    return UNREADABLE;
  }
}

/** A member of anything: a getter or a proxy may throw. */
function read(value: unknown, member: string): unknown {
  try {
    return (value as Record<string, unknown> | null | undefined)?.[member];
  } catch {
    return undefined;
  }
}
