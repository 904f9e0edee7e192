/** The value of one extension attribute (CloudEvents 1.0.2, section "Type System"). */

import { encodeBase64 } from "./base64.ts";
import { dateMs, isPlainObject, isUint8Array, urlText } from "./builtins.ts";
import type { Extension, ExtensionType } from "./event.ts";
import { readMembers } from "./members.ts";
import { invalidEvent, kindOf } from "./refusal.ts";
import { textFault } from "./text.ts";
import { isRfc3339 } from "./time.ts";
import { isAbsoluteUri, isUriReference } from "./uri.ts";

/** An extension as it is stored in JSON: as its explicit form, with bytes as base64. */
export type CanonicalExtension =
  | Exclude<Extension, { readonly type: "binary" }>
  | { readonly type: "binary"; readonly value: string };

type StringType = Exclude<ExtensionType, "boolean" | "integer" | "binary">;

const INT32_MIN = -(2 ** 31);
const INT32_MAX = 2 ** 31 - 1;

/** What makes a string illegal under each type; `undefined` if it is legal. */
const STRING_FAULT: Readonly<Record<StringType, (text: string) => string | undefined>> = {
  string: textFault,
  uri: (text) =>
    isAbsoluteUri(text) ? undefined : "must be an absolute URI by RFC 3986, without a fragment",
  "uri-reference": (text) => (isUriReference(text) ? undefined : "must be a URI-reference by RFC 3986"),
  timestamp: (text) => (isRfc3339(text) ? undefined : "must be an RFC 3339 date and time"),
};

/**
 * The canonical form of a value: explicit, or a JavaScript value that stands for one type (see `ExtensionInput`).
 *
 * @throws DovecoteError `INVALID_EVENT` at the path.
 */
export function canonicalValue(value: unknown, path: string): CanonicalExtension {
  if (typeof value === "boolean") return { type: "boolean", value };
  if (typeof value === "number") return { type: "integer", value: integer(value, path) };
  if (typeof value === "string") return { type: "string", value: text("string", value, path) };
  if (isUint8Array(value)) return { type: "binary", value: encodeBase64(value) };
  const ms = dateMs(value);
  if (ms !== undefined) return { type: "timestamp", value: timestamp(ms, path) };
  const url = urlText(value);
  if (url !== undefined) return { type: "uri", value: text("uri", url, path) };
  if (isPlainObject(value)) return explicit(value, path);
  const hint = value === null ? "; leave it out if it is absent" : "";
  throw invalidEvent(path, `must be an extension value, received ${kindOf(value)}${hint}`);
}

/** The RFC 3339 text of a `Date`. */
export function timestamp(ms: number, path: string): string {
  if (Number.isNaN(ms)) throw invalidEvent(path, "must not be an invalid Date");
  const iso = new Date(ms).toISOString();
  // Before year 0 and after 9999 ISO 8601 grows a sign and two digits, which RFC 3339 does not have.
  if (!isRfc3339(iso)) throw invalidEvent(path, "must be a Date of the years 0000 to 9999");
  return iso;
}

function explicit(source: object, path: string): CanonicalExtension {
  const members = readMembers(source, path);
  const type = members.get("type");
  const value = members.get("value");
  if (members.size !== 2 || !members.has("type") || !members.has("value")) {
    throw invalidEvent(path, "must be a value, or an object of exactly `type` and `value`");
  }
  const at = `${path}.value`;
  switch (type) {
    case "boolean":
      if (typeof value === "boolean") return { type, value };
      break;
    case "integer":
      if (typeof value === "number") return { type, value: integer(value, at) };
      break;
    case "binary":
      if (isUint8Array(value)) return { type, value: encodeBase64(value) };
      break;
    case "string":
    case "uri":
    case "uri-reference":
    case "timestamp":
      if (typeof value === "string") return { type, value: text(type, value, at) };
      break;
    default:
      throw invalidEvent(`${path}.type`, "must be a type of CloudEvents, in lower case");
  }
  throw invalidEvent(at, `does not fit the type ${type}, received ${kindOf(value)}`);
}

function integer(value: number, path: string): number {
  const whole = Number.isInteger(value) && value >= INT32_MIN && value <= INT32_MAX && !Object.is(value, -0);
  if (whole) return value;
  throw invalidEvent(
    path,
    `must be a whole number of 32 bits, received ${kindOf(value)}; give it as a string`,
  );
}

function text(type: StringType, value: string, path: string): string {
  const fault = STRING_FAULT[type](value);
  if (fault !== undefined) throw invalidEvent(path, fault);
  return value;
}
