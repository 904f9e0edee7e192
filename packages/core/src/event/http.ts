/** Events over HTTP: the CloudEvents HTTP protocol binding 1.0.2. */
import { invalid } from "../arguments.ts";
import type { BinaryEvent } from "./binary.ts";
import { isArray, isObject } from "./builtins.ts";
import type { OutboxEvent } from "./event.ts";
import { decodeHeaderValue, encodeHeaderValue } from "./http-headers.ts";
import { checkBody, checkCaps, type InboundCaps, inboundEvent, tooLarge } from "./inbound.ts";
import { isJsonMediaType, isTextMediaType, type MediaType, parseMediaType } from "./media-type.ts";
import { invalidEvent, memberPath, quoted } from "./refusal.ts";
import { parseStructured } from "./structured.ts";
import { storageFault } from "./text.ts";
import { decodeUtf8, encodeUtf8 } from "./utf8.ts";

/**
 * Headers as platforms give them: `Headers` of fetch and other lists of pairs, the `rawHeaders` of Node (names and values
 * by turns), or an object. Only pairs and `rawHeaders` can show that a header was sent twice; the others join its values.
 */
export type HttpHeaders =
  | Iterable<readonly [string, string]>
  | readonly string[]
  | Readonly<Record<string, string | readonly string[] | undefined>>;

const PREFIX = "ce-";

/**
 * The headers of an event in the binary mode: `ce-` and the name of each attribute, percent-encoded by section 3.1.3.2,
 * and `content-type` if the type of the data is known. The body of the request is `binary.body`.
 *
 * @example
 * const binary = toBinary(event);
 * await fetch(url, { method: "POST", headers: toHttpHeaders(binary), body: binary.body });
 */
export function toHttpHeaders({
  attributes,
  contentType,
}: Pick<BinaryEvent, "attributes" | "contentType">): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, text] of attributes) headers[PREFIX + name] = encodeHeaderValue(text);
  if (contentType !== undefined) headers["content-type"] = contentType;
  return headers;
}

/**
 * The event of an HTTP message, in the binary mode or as JSON in the structured mode. The caps bound what is looked at; a
 * server still has to bound what it reads.
 *
 * In the binary mode HTTP keeps less than the JSON format: every extension comes back as a string, an empty body means that
 * there is no data, and the kind of the data follows from its media type: JSON, text if it is UTF-8, otherwise bytes.
 * Headers that are none of the event's are ignored.
 *
 * @throws DovecoteError `INVALID_EVENT` with the path of what is wrong (also for a batch, for another event format and
 *   for a header that was sent twice), `EVENT_TOO_LARGE`, `INVALID_ARGUMENT` for arguments that are no message at all.
 * @example
 * const event = fromHttp(request.headers, new Uint8Array(await request.arrayBuffer()));
 */
export function fromHttp(
  headers: HttpHeaders,
  body: Uint8Array | string | undefined,
  caps?: InboundCaps,
): OutboxEvent {
  const checked = checkCaps(caps);
  const received = eventHeaders(headers, checked);
  if (body !== undefined) checkBody(body, checked);
  const contentType = received.get("content-type");
  const mediaType = contentType === undefined ? undefined : parseMediaType(contentType);
  if (mediaType?.type === "application" && mediaType.subtype.startsWith("cloudevents")) {
    checkFormat(mediaType);
    return parseStructured(body ?? "");
  }
  return fromBinary(received, contentType, body);
}

function checkFormat({ subtype, parameters }: MediaType): void {
  const path = memberPath("headers", "content-type");
  if (subtype.startsWith("cloudevents-batch"))
    throw invalidEvent(path, "announces a batch, which is not taken");
  if (subtype !== "cloudevents+json")
    throw invalidEvent(path, `announces an event format that is not known: ${quoted(subtype)}`);
  const charset = parameters.get("charset") ?? "utf-8";
  if (charset.toLowerCase() !== "utf-8")
    throw invalidEvent(path, "must not announce a charset other than UTF-8");
}

function fromBinary(
  headers: ReadonlyMap<string, string>,
  contentType: string | undefined,
  body: Uint8Array | string | undefined,
): OutboxEvent {
  const attributes = new Map<string, unknown>();
  const extensions: Record<string, unknown> = Object.create(null);
  for (const [header, value] of headers) {
    if (!header.startsWith(PREFIX)) continue;
    const name = header.slice(PREFIX.length);
    const path = memberPath("headers", header);
    if (name === "datacontenttype") throw invalidEvent(path, "must not be there: content-type says it");
    const decoded = decodeHeaderValue(value);
    if ("fault" in decoded) throw invalidEvent(path, decoded.fault);
    if (ATTRIBUTES.has(name)) attributes.set(name, decoded.text);
    else extensions[name] = decoded.text;
  }
  if (contentType !== undefined) attributes.set("datacontenttype", contentType);
  return inboundEvent(attributes, extensions, dataOf(body, contentType));
}

const ATTRIBUTES: ReadonlySet<string> = new Set([
  ...["specversion", "id", "source", "type", "subject", "time", "dataschema", "partitionkey"],
]);

function dataOf(body: Uint8Array | string | undefined, contentType: string | undefined): unknown {
  if (body === undefined || body.length === 0) return undefined;
  const bytes = typeof body === "string" ? encodeUtf8(body) : body;
  if (contentType === undefined) return bytes;
  const charset = parseMediaType(contentType)?.parameters.get("charset")?.toLowerCase() ?? "utf-8";
  if (charset !== "utf-8" && charset !== "us-ascii") return bytes;
  if (isJsonMediaType(contentType)) return { json: bytes };
  return isTextMediaType(contentType) ? (storableText(bytes, charset) ?? bytes) : bytes;
}

function storableText(bytes: Uint8Array, charset: string): string | undefined {
  const text = decodeUtf8(bytes);
  if (text === undefined || storageFault(text) !== undefined) return undefined;
  return charset === "us-ascii" && bytes.length > text.length ? undefined : text;
}

/** The headers that say something about an event, by their names in lower case. */
function eventHeaders(
  headers: HttpHeaders,
  { maxHeaders, maxHeaderBytes }: Required<InboundCaps>,
): ReadonlyMap<string, string> {
  const received = new Map<string, string>();
  let count = 0;
  let bytes = 0;
  for (const [given, value] of pairsOf(headers)) {
    if (typeof given !== "string" || typeof value !== "string")
      throw invalid("headers", "pairs of strings", given);
    count += 1;
    bytes += given.length + value.length;
    if (count > maxHeaders) throw tooLarge("headers", `are more than ${maxHeaders}`);
    if (bytes > maxHeaderBytes) throw tooLarge("headers", `are longer than ${maxHeaderBytes} bytes`);
    const name = given.toLowerCase();
    if (name !== "content-type" && !name.startsWith(PREFIX)) continue;
    if (received.has(name)) throw invalidEvent(memberPath("headers", name), "was sent twice");
    received.set(name, value.trim());
  }
  return received;
}

function* pairsOf(headers: unknown): Iterable<readonly [unknown, unknown]> {
  if (!isObject(headers)) throw invalid("headers", "headers", headers);
  if (isArray(headers) && typeof headers[0] === "string") {
    for (let at = 0; at < headers.length; at += 2) yield [headers[at], headers[at + 1]];
  } else if (Symbol.iterator in headers) {
    for (const pair of headers as Iterable<unknown>)
      yield isArray(pair) ? [pair[0], pair[1]] : [pair, undefined];
  } else {
    for (const [name, value] of Object.entries(headers)) {
      if (value === undefined) continue;
      for (const each of isArray(value) ? value : [value]) yield [name, each];
    }
  }
}
