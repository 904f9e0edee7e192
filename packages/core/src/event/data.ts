/** The data of an event: from a caller's value to stored bytes and back. Four kinds, kept distinct (ID-09). */

import { isPlainObject, isUint8Array } from "./builtins.ts";
import type { DataKind } from "./event.ts";
import { checkParsedJson, serializeJson } from "./json.ts";
import { isJsonMediaType, isTextMediaType, parseMediaType } from "./media-type.ts";
import { readMembers } from "./members.ts";
import { invalidEvent, quoted } from "./refusal.ts";
import { storageFault } from "./text.ts";
import { decodeUtf8, encodeUtf8 } from "./utf8.ts";

/** Data as it is stored. `bytes` is null exactly if `kind` is `absent`. */
export interface EncodedData {
  readonly kind: DataKind;
  readonly bytes: Uint8Array | null;
}

/**
 * Encodes the data of an event. The bytes are a copy: what the caller changes later changes nothing stored (DATA-03).
 *
 * - `undefined`: absent.
 * - `Uint8Array`, `Buffer` included: binary, under any media type. Other views and buffers are refused, because their
 *   byte order or their extent would be a guess.
 * - `{ json: Uint8Array }`: JSON, exactly these bytes (integers beyond 2^53, member order), after a check that they are
 *   UTF-8 without a byte order mark and JSON by {@link serializeJson}'s rules on strings and depth.
 * - a string under a `text/*` media type: text, stored as UTF-8. Another charset in the media type is refused.
 * - every other JSON value, by the rules of {@link serializeJson}: JSON. The media type must be JSON or absent.
 *
 * @param path where the data stands, for messages.
 * @throws DovecoteError `INVALID_EVENT` that names the offending member, such as `event.data.items[3].price` (DATA-02).
 */
export function encodeData(
  data: unknown,
  datacontenttype: string | undefined,
  path: string = "event.data",
): EncodedData {
  if (data === undefined) return { kind: "absent", bytes: null };
  if (isUint8Array(data)) return { kind: "binary", bytes: copyBytes(data, path) };
  if (typeof data === "string" && datacontenttype !== undefined && isTextMediaType(datacontenttype)) {
    return { kind: "text", bytes: encodeText(data, datacontenttype, path) };
  }
  requireJsonMediaType(data, datacontenttype, path);
  return { kind: "json", bytes: encodeJson(data, path) };
}

/**
 * Decodes stored data: `undefined`, a JSON value, a string, or a copy of the bytes.
 *
 * @throws Error with a short reason, without any of the data, if it does not fit its kind.
 */
export function decodeData(kind: DataKind, bytes: Uint8Array | null): unknown {
  if (kind === "absent") {
    if (bytes !== null) throw new Error("data is present although its kind is absent");
    return undefined;
  }
  if (bytes === null) throw new Error("data is missing");
  switch (kind) {
    case "binary":
      return new Uint8Array(bytes);
    case "text":
      return decodeText(bytes);
    case "json":
      return parseJson(decodeText(bytes));
    default:
      throw new Error("data is of an unknown kind");
  }
}

function encodeJson(data: unknown, path: string): Uint8Array {
  if (!hasOnlyJsonMember(data)) return encodeUtf8(serializeJson(data, path));
  const json = readMembers(data, path).get("json");
  // Read once: the walk gets the member that was tested here, not the object that could answer differently.
  if (!isUint8Array(json)) return encodeUtf8(serializeJson({ json }, path));
  const bytes = copyBytes(json, `${path}.json`);
  const text = decodeUtf8(bytes);
  if (text === undefined) throw invalidEvent(`${path}.json`, "must be UTF-8");
  if (text.startsWith("\uFEFF")) throw invalidEvent(`${path}.json`, "must not start with a byte order mark");
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw invalidEvent(`${path}.json`, "must be the UTF-8 bytes of one JSON value"); // the cause would quote the data
  }
  checkParsedJson(value, path);
  return bytes;
}

function encodeText(text: string, datacontenttype: string, path: string): Uint8Array {
  const charset = parseMediaType(datacontenttype)?.parameters.get("charset")?.toLowerCase() ?? "utf-8";
  if (charset !== "utf-8" && charset !== "us-ascii") {
    throw invalidEvent(
      path,
      `is a string and stored as UTF-8, not as ${quoted(charset)}; give bytes in that charset`,
    );
  }
  const fault = storageFault(text);
  if (fault !== undefined) throw invalidEvent(path, `${fault}; give bytes or replace the character`);
  const bytes = encodeUtf8(text);
  if (charset === "us-ascii" && bytes.length > text.length) {
    throw invalidEvent(
      path,
      "has characters outside of us-ascii, the charset of its media type; say charset=utf-8",
    );
  }
  return bytes;
}

function requireJsonMediaType(data: unknown, datacontenttype: string | undefined, path: string): void {
  if (datacontenttype === undefined || isJsonMediaType(datacontenttype)) return;
  const what = typeof data === "string" ? "neither text nor JSON" : "not JSON";
  throw invalidEvent(path, `must be a Uint8Array: the media type ${quoted(datacontenttype)} is ${what}`);
}

function copyBytes(bytes: Uint8Array, path: string): Uint8Array {
  try {
    return new Uint8Array(bytes);
  } catch (error) {
    throw invalidEvent(path, "could not be copied: its buffer is detached", error);
  }
}

function hasOnlyJsonMember(value: unknown): value is object {
  if (!isPlainObject(value)) return false;
  try {
    const keys = Reflect.ownKeys(value);
    return keys.length === 1 && keys[0] === "json";
  } catch {
    return false; // a proxy that throws: the walk reports it, with the path
  }
}

function decodeText(bytes: Uint8Array): string {
  const text = decodeUtf8(bytes);
  if (text === undefined) throw new Error("data is not UTF-8");
  return text;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error("data is not JSON"); // the message of JSON.parse quotes the data
  }
}
