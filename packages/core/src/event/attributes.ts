/** The attributes of an event, one check per type of value. All bounds are UTF-8 bytes, checked before the syntax. */

import { dateMs } from "./builtins.ts";
import { timestamp } from "./extension-value.ts";
import { parseMediaType } from "./media-type.ts";
import { invalidEvent, kindOf, quoted } from "./refusal.ts";
import { textFault, utf8Bytes } from "./text.ts";
import { isRfc3339 } from "./time.ts";
import { isAbsoluteUri, isUriReference } from "./uri.ts";

/** A `String` attribute: not empty, within its bound, without illegal characters (DATA-02). */
export function checkText(value: unknown, path: string, maxBytes: number): string {
  const text = bounded(value, path, maxBytes);
  const fault = textFault(text);
  if (fault !== undefined) throw invalidEvent(path, fault);
  return text;
}

/** A `URI-reference` attribute that is not empty. */
export function checkUriReference(value: unknown, path: string, maxBytes: number): string {
  const text = bounded(value, path, maxBytes);
  if (!isUriReference(text)) throw invalidEvent(path, "must be a URI-reference by RFC 3986");
  return text;
}

/** A `URI` attribute: absolute, without a fragment. */
export function checkUri(value: unknown, path: string, maxBytes: number): string {
  const text = bounded(value, path, maxBytes);
  if (!isAbsoluteUri(text))
    throw invalidEvent(path, "must be an absolute URI by RFC 3986, without a fragment");
  return text;
}

/** A media type by RFC 2046. */
export function checkMediaType(value: unknown, path: string, maxBytes: number): string {
  const text = checkText(value, path, maxBytes);
  if (parseMediaType(text) === undefined)
    throw invalidEvent(path, `must be a media type, received ${quoted(text)}`);
  return text;
}

/** A `Timestamp` attribute: an RFC 3339 text, kept as it is, or a `Date`. */
export function checkTime(value: unknown, path: string): string {
  const ms = dateMs(value);
  if (ms !== undefined) return timestamp(ms, path);
  const text = requireText(value, path, "an RFC 3339 string or a Date");
  if (!isRfc3339(text))
    throw invalidEvent(path, `must be an RFC 3339 date and time, received ${quoted(text)}`);
  return text;
}

function bounded(value: unknown, path: string, maxBytes: number): string {
  const text = requireText(value, path, "a string");
  if (text === "") throw invalidEvent(path, "must not be empty");
  const bytes = utf8Bytes(text);
  if (bytes > maxBytes) throw invalidEvent(path, `is ${bytes} bytes long, the limit is ${maxBytes} bytes`);
  return text;
}

function requireText(value: unknown, path: string, what: string): string {
  if (typeof value === "string") return value;
  if (value === undefined) throw invalidEvent(path, "is required");
  const hint = value === null ? "; leave out an attribute that is absent" : "";
  throw invalidEvent(path, `must be ${what}, received ${kindOf(value)}${hint}`);
}
