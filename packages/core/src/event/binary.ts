/** The binary projection of an event: its context as texts, its data as they are (CloudEvents 1.0.2, "Message"). */
import { encodeBase64 } from "./base64.ts";
import { coreAttributes, extensionAttributes } from "./context-attributes.ts";
import type { Extension, OutboxEvent } from "./event.ts";

/** An event in parts, for protocols that carry attributes beside the data. */
export interface BinaryEvent {
  /**
   * Every attribute but `datacontenttype` in its canonical text (CloudEvents 1.0.2, section "Type System"): those of
   * CloudEvents in a fixed order, then extensions by name, `partitionkey` among them.
   */
  readonly attributes: ReadonlyMap<string, string>;
  /** The `datacontenttype`; `application/json` for JSON data that has none; `undefined` if it is not known. */
  readonly contentType: string | undefined;
  /** The bytes of the data as they were stored; `undefined` when absent. */
  readonly body: Uint8Array | undefined;
}

/**
 * An event in its binary projection. What is invalid of a trace context (`traceparent`, `tracestate`) is left out.
 *
 * @example
 * const { attributes, contentType, body } = toBinary(event);
 * await producer.send({ headers: Object.fromEntries(attributes), contentType, value: body });
 */
export function toBinary(event: OutboxEvent): BinaryEvent {
  const attributes = new Map<string, string>();
  for (const [name, value] of coreAttributes(event)) {
    if (name !== "datacontenttype") attributes.set(name, value);
  }
  for (const [name, extension] of extensionAttributes(event)) attributes.set(name, canonicalText(extension));
  return {
    attributes,
    // JSON format, section 3.1.2: what was implicit there has to be said where another format follows.
    contentType: event.datacontenttype ?? (event.dataKind === "json" ? "application/json" : undefined),
    body: event.dataKind === "absent" ? undefined : event.dataBytes,
  };
}

function canonicalText(extension: Extension): string {
  return extension.type === "binary" ? encodeBase64(extension.value) : String(extension.value);
}
