/** Reads the CloudEvents JSON format 1.0.2: the inverse of `toStructuredJson`, for what comes from outside. */
import { decodeBase64 } from "./base64.ts";
import { isUint8Array } from "./builtins.ts";
import type { OutboxEvent } from "./event.ts";
import { checkBody, checkCaps, type InboundCaps, inboundEvent } from "./inbound.ts";
import { jsonMembers } from "./json-members.ts";
import { isJsonMediaType, isTextMediaType, parseMediaType } from "./media-type.ts";
import { invalidEvent, kindOf, memberPath } from "./refusal.ts";
import { storageFault } from "./text.ts";
import { decodeUtf8, encodeUtf8 } from "./utf8.ts";

const ATTRIBUTES: ReadonlySet<string> = new Set([
  ...[
    "specversion",
    "id",
    "source",
    "type",
    "subject",
    "time",
    "datacontenttype",
    "dataschema",
    "partitionkey",
  ],
]);

/**
 * The event of a text, or UTF-8 bytes, in the JSON format of CloudEvents. JSON data is kept as it is written, large numbers
 * included. Of extensions, JSON knows three types: booleans and whole numbers of 32 bits stay what they are, all others come
 * back as strings. `null` counts as absent (section 2.2); a name that stands twice is refused.
 *
 * @throws DovecoteError `INVALID_EVENT` with the path of what is wrong, `EVENT_TOO_LARGE`, `INVALID_ARGUMENT` for the caps.
 * @example
 * const event = fromStructuredJson(await readFile("event.json"));
 */
export function fromStructuredJson(body: string | Uint8Array, caps?: InboundCaps): OutboxEvent {
  checkBody(body, checkCaps(caps));
  return parseStructured(body);
}

/** {@link fromStructuredJson} for a body that is known to be within its cap. */
export function parseStructured(body: string | Uint8Array): OutboxEvent {
  const text = isUint8Array(body) ? decodeUtf8(body) : body;
  if (text === undefined) throw invalidEvent("body", "must be UTF-8");
  const attributes = new Map<string, unknown>();
  const extensions: Record<string, unknown> = Object.create(null);
  const data = new Map<string, string>();
  for (const [name, written] of membersOf(text)) {
    if (name === "data") data.set(name, written);
    else if (written === "null") continue;
    else if (name === "data_base64") data.set(name, written);
    else if (ATTRIBUTES.has(name)) attributes.set(name, JSON.parse(written));
    else extensions[name] = extensionValue(JSON.parse(written), memberPath("event.extensions", name));
  }
  return inboundEvent(attributes, extensions, dataOf(data, attributes.get("datacontenttype")));
}

function membersOf(text: string): ReadonlyMap<string, string> {
  const members = jsonMembers(text);
  if (members === undefined) throw invalidEvent("body", "must be one JSON object");
  const byName = new Map<string, string>();
  for (const [name, written] of members) {
    if (byName.has(name)) throw invalidEvent(memberPath("event", name), "stands twice in the body");
    byName.set(name, written);
  }
  return byName;
}

/** An object must not pass for the explicit form of an extension. */
function extensionValue(value: unknown, path: string): unknown {
  if (typeof value !== "object") return value;
  throw invalidEvent(path, `must be a boolean, a whole number or a string, received ${kindOf(value)}`);
}

function dataOf(given: ReadonlyMap<string, string>, datacontenttype: unknown): unknown {
  const base64 = given.get("data_base64");
  const written = given.get("data");
  if (base64 !== undefined && written !== undefined)
    throw invalidEvent("event.data", "and data_base64 exclude each other");
  if (base64 !== undefined) return bytesOf(JSON.parse(base64));
  if (written === undefined) return undefined;
  const type = typeof datacontenttype === "string" ? datacontenttype : undefined;
  if (type === undefined || isJsonMediaType(type)) return { json: encodeUtf8(written) };
  return contentOf(JSON.parse(written), type);
}

function bytesOf(base64: unknown): Uint8Array {
  const bytes = typeof base64 === "string" ? decodeBase64(base64) : undefined;
  if (bytes === undefined) throw invalidEvent("event.data_base64", "must be base64 by RFC 4648 section 4");
  return bytes;
}

/** Section 3.1.2: a string that holds the content. Text stays text, a document such as XML becomes its bytes. */
function contentOf(content: unknown, type: string): unknown {
  if (typeof content !== "string")
    throw invalidEvent("event.data", "must be a string: its media type is not JSON");
  if (isTextMediaType(type)) return content;
  const charset = parseMediaType(type)?.parameters.get("charset")?.toLowerCase() ?? "utf-8";
  const fault =
    charset === "utf-8"
      ? storageFault(content)
      : "is a string in a charset other than UTF-8; send data_base64";
  if (fault !== undefined) throw invalidEvent("event.data", fault);
  return encodeUtf8(content);
}
