/** The CloudEvents JSON format 1.0.2: what a handler sends on. */

import { encodeBase64 } from "./base64.ts";
import { coreAttributes, extensionAttributes } from "./context-attributes.ts";
import type { Extension, OutboxEvent } from "./event.ts";
import { decodeUtf8, encodeUtf8 } from "./utf8.ts";

/** The media type of {@link toStructuredJson}'s bytes (CloudEvents JSON format, section 3). */
export const STRUCTURED_JSON = "application/cloudevents+json; charset=utf-8";

/**
 * An event in the JSON format of CloudEvents, as UTF-8 bytes. The same event always gives the same bytes: attributes in
 * a fixed order, then extensions (`partitionkey` among them) by name, then the data. JSON data is spliced in exactly as
 * it was stored, text becomes a JSON string, binary data is `data_base64`. What is invalid of a trace context
 * (`traceparent`, `tracestate`) is left out.
 *
 * @throws Error if `dataBytes` of a text event were changed into something that is not UTF-8.
 * @example
 * await fetch(url, { method: "POST", headers: { "content-type": STRUCTURED_JSON }, body: toStructuredJson(event) });
 */
export function toStructuredJson(event: OutboxEvent): Uint8Array {
  const members = [
    ...coreAttributes(event).map(([name, value]) => member(name, value)),
    ...extensionAttributes(event).map(([name, extension]) => member(name, jsonValue(extension))),
  ];
  const head = `{${members.join(",")}`;
  switch (event.dataKind) {
    case "absent":
      return encodeUtf8(`${head}}`);
    case "binary":
      return encodeUtf8(`${head},${member("data_base64", encodeBase64(event.dataBytes))}}`);
    case "text":
      return encodeUtf8(`${head},${member("data", textOf(event.dataBytes))}}`);
    case "json":
      return concat(encodeUtf8(`${head},"data":`), event.dataBytes, encodeUtf8("}"));
  }
}

type AttributeValue = string | number | boolean;

function member(name: string, value: AttributeValue): string {
  return `${JSON.stringify(name)}:${JSON.stringify(value)}`;
}

/** Section 2.2: booleans and integers are JSON's own, bytes are base64, all other types are strings. */
function jsonValue(extension: Extension): AttributeValue {
  return extension.type === "binary" ? encodeBase64(extension.value) : extension.value;
}

function textOf(bytes: Uint8Array): string {
  const text = decodeUtf8(bytes);
  if (text === undefined) throw new Error("data is not UTF-8");
  return text;
}

function concat(...parts: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let offset = 0;
  for (const part of parts) {
    bytes.set(part, offset);
    offset += part.length;
  }
  return bytes;
}
