/** How a refused event is worded: the path first, then what is wrong, then what was received; never the data itself. */

import { DovecoteError } from "../errors.ts";
import { isArray } from "./builtins.ts";

const SHOWN_CHARS = 64;

/** An `INVALID_EVENT` whose message is the path followed by the reason. */
export function invalidEvent(path: string, reason: string, cause?: unknown): DovecoteError {
  return new DovecoteError("INVALID_EVENT", `${path} ${reason}`, { path, cause });
}

/** What kind of value was received, for a message: numbers and booleans as they are, of others the type alone. */
export function kindOf(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (typeof value === "number") return Object.is(value, -0) ? "-0" : String(value);
  if (typeof value === "boolean") return String(value);
  if (isArray(value)) return "an array";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}

/** A received text in quotes, cut if it is long, NUL and lone surrogates escaped. Only for what cannot be a secret: names, times, media types. */
export function quoted(text: string): string {
  return JSON.stringify(text.length > SHOWN_CHARS ? `${text.slice(0, SHOWN_CHARS)}…` : text);
}

/** What was received, for a message: a text in quotes, anything else by its kind. Not for what may be a secret. */
export function received(value: unknown): string {
  return typeof value === "string" ? quoted(value) : kindOf(value);
}

/** The path of a member or an element, as one would write it in JavaScript: `event.data.items[3]["unit price"]`. */
export function memberPath(path: string, key: string | number): string {
  if (typeof key === "number") return `${path}[${key}]`;
  const short = key.length <= SHOWN_CHARS;
  return short && /^[A-Za-z_$][\w$]*$/.test(key) ? `${path}.${key}` : `${path}[${quoted(key)}]`;
}
