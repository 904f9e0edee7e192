/** Accepts events of the `cloudevents` package, the JavaScript SDK of CloudEvents, without depending on it. */

import { decodeBase64 } from "./base64.ts";
import { isArray, isObject, isPlainObject, isUint8Array } from "./builtins.ts";
import type { ExtensionInput, NewEvent } from "./event.ts";
import { readMembers } from "./members.ts";
import { invalidEvent, kindOf, memberPath } from "./refusal.ts";

const ATTRIBUTES: readonly string[] = [
  ...[
    "id",
    "source",
    "type",
    "specversion",
    "subject",
    "time",
    "datacontenttype",
    "dataschema",
    "partitionkey",
  ],
];

/** What Dovecote needs of a `CloudEvent` of the SDK: its methods tell it from a plain object. */
export interface CloudEventLike {
  readonly id: string;
  readonly source: string;
  readonly type: string;
  readonly specversion: string;
  cloneWith(options: object, strict?: boolean): unknown;
  validate(): boolean;
  toJSON(): unknown;
}

/** Members that the SDK declares for CloudEvents 0.3 and leaves `undefined` on 1.0. */
const OBSOLETE: readonly string[] = ["schemaurl", "datacontentencoding"];

/** Whether a value is a `CloudEvent` of the SDK: an instance of a class with its methods. */
export function isCloudEvent(value: unknown): value is CloudEventLike {
  if (!isObject(value) || isPlainObject(value) || isArray(value)) return false;
  try {
    return ["cloneWith", "validate", "toJSON"].every(
      (name) => typeof Reflect.get(value, name) === "function",
    );
  } catch {
    return false; // whoever reads the members of this proxy next reports it, with the path
  }
}

/**
 * Turns a `CloudEvent` of the `cloudevents` package into what `enqueue` takes. Its own members become attributes, all
 * others extensions, by the rules for JavaScript values; `null` counts as absent (CloudEvents JSON format, section
 * 2.2). A view or `data_base64` is binary data, a string under a `text/*` media type is text, all else JSON: a string
 * under a JSON media type is a JSON *string*, it is not parsed.
 *
 * The SDK gives every event a `time` and an `id` of its own when none is given. An event that may be enqueued twice
 * must therefore be kept, or built with both: the same id with another time is an `IDENTITY_CONFLICT` (ID-03).
 *
 * @throws DovecoteError `INVALID_EVENT` if the value is no such event, or is of CloudEvents 0.3. The attributes
 *   themselves are checked when the event is enqueued.
 * @example
 * await outbox.enqueue(tx, fromCloudEvent(new CloudEvent({ source: "/shop", type: "order.placed", data }), "orders"));
 */
export function fromCloudEvent(event: unknown, stream: string): NewEvent {
  return convertCloudEvent(event, stream, "event");
}

/** {@link fromCloudEvent} for an event that stands at a path of its own, such as one of a batch. */
export function convertCloudEvent(event: unknown, stream: string, path: string): NewEvent {
  if (!isCloudEvent(event)) throw invalidEvent(path, `must be a CloudEvent, received ${kindOf(event)}`);
  const members = readMembers(event, path);
  const converted: Record<string, unknown> = { stream };
  for (const name of ATTRIBUTES) {
    const value = members.get(name);
    if (value !== undefined && value !== null) converted[name] = value;
    members.delete(name);
  }
  for (const name of OBSOLETE) {
    const value = members.get(name);
    const obsolete = value !== undefined && value !== null;
    if (obsolete)
      throw invalidEvent(memberPath(path, name), "belongs to CloudEvents 0.3, which is not supported");
    members.delete(name);
  }
  converted.data = dataOf(members.get("data"), members.get("data_base64"), path);
  members.delete("data");
  members.delete("data_base64");
  converted.extensions = extensionsOf(members, `${path}.extensions`);
  return converted as unknown as NewEvent;
}

/** The SDK keeps binary data twice: as the view it was given in `data`, and as base64 in `data_base64`. */
function dataOf(data: unknown, base64: unknown, path: string): unknown {
  if (isUint8Array(data) || typeof base64 !== "string") return data;
  const bytes = decodeBase64(base64);
  if (bytes === undefined) throw invalidEvent(`${path}.data_base64`, "must be base64 by RFC 4648 section 4");
  if (data !== undefined && !holdsBytes(data, bytes)) {
    throw invalidEvent(`${path}.data`, "differs from data_base64; give binary data as a Uint8Array");
  }
  return bytes;
}

/**
 * Whether a view has the bytes as its elements. The SDK parses binary data into a `Uint32Array` with one byte per
 * element; and of views with larger elements, or a `DataView`, its base64 keeps only a part.
 */
function holdsBytes(data: unknown, bytes: Uint8Array): boolean {
  if (!ArrayBuffer.isView(data)) return false;
  const elements = data as unknown as ArrayLike<number | bigint>;
  return elements.length === bytes.length && bytes.every((byte, i) => elements[i] === byte);
}

function extensionsOf(members: ReadonlyMap<string, unknown>, path: string): Record<string, ExtensionInput> {
  const extensions: Record<string, ExtensionInput> = Object.create(null);
  for (const [name, value] of members) {
    if (value === undefined || value === null) continue;
    // An object is no value of the type system. Here it must not pass for the explicit form of an extension either.
    if (isPlainObject(value)) throw invalidEvent(memberPath(path, name), "must not be an object");
    extensions[name] = value as ExtensionInput;
  }
  return extensions;
}
