/** A failure as it can be stored, made of whatever was thrown (RELAY-06). */
import { BOUNDS } from "../bounds.ts";
import type { Failure } from "../driver.ts";
import { verdictKind } from "./brand.ts";

/** Longer texts are cut before they are looked at: one of megabytes costs no more than a short one. */
const LONGEST = 4 * BOUNDS.failureDetailBytes;
const DEEPEST_CAUSE = 5;
const UNREADABLE = "what was thrown cannot be read";

/**
 * The code is the first `code` of the thrown error and its causes, since what wraps a failure seldom has one of its own,
 * or the thrown error's name; the detail is its message and those of its causes. `secret` does not appear in either.
 * Never throws.
 */
export function captureFailure(thrown: unknown, secret: string): Failure {
  const clean = (text: string): string => text.replaceAll(secret, "[token]");
  return {
    code: clean(codeOf(thrown)) || "error",
    detail: clean(detailOf(thrown)) || UNREADABLE,
  };
}

function codeOf(thrown: unknown): string {
  const codes = chainOf(thrown).map((each) => read(each, "code"));
  for (const value of [...codes, read(thrown, "name")]) {
    if (typeof value === "string" && value !== "" && value !== "Error")
      return value.slice(0, BOUNDS.failureCodeBytes);
  }
  return "error";
}

function detailOf(thrown: unknown): string {
  const texts = chainOf(thrown).map(textOf);
  if (texts.length === 0) texts.push(String(thrown)); // undefined and null
  return texts.join(", caused by ").slice(0, LONGEST);
}

/** What was thrown, and its causes, each once. */
function chainOf(thrown: unknown): readonly unknown[] {
  const chain = new Set<unknown>();
  let current = thrown;
  while (current !== undefined && current !== null && !chain.has(current) && chain.size < DEEPEST_CAUSE) {
    chain.add(current);
    current = typeof current === "object" ? read(current, "cause") : undefined;
  }
  return [...chain];
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
