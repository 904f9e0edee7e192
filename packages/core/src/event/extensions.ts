/** Extension attributes: typed values of CloudEvents 1.0.2, stored as one canonical JSON text. */

import { decodeBase64 } from "./base64.ts";
import { isPlainObject } from "./builtins.ts";
import type { Extension } from "./event.ts";
import { type CanonicalExtension, canonicalValue } from "./extension-value.ts";
import { readMembers } from "./members.ts";
import { invalidEvent, kindOf, memberPath } from "./refusal.ts";

/** CloudEvents 1.0.2, section "Naming Conventions": the length is a SHOULD there, and a rule here. */
const NAME = /^[a-z0-9]{1,20}$/;

/** What an extension cannot be called: the attributes of CloudEvents itself, and members of its JSON format. */
const RESERVED: ReadonlySet<string> = new Set([
  "id",
  "source",
  "specversion",
  "type",
  "datacontenttype",
  "dataschema",
  "subject",
  "time",
  "data",
  "data_base64",
]);

/**
 * The canonical JSON text of extension attributes: members ordered by name (code units), each `{"type":…,"value":…}`,
 * a binary value as base64. `null` without extensions; one whose value is `undefined` counts as absent. Each member is
 * read once.
 *
 * @param path where the extensions stand, for messages.
 * @throws DovecoteError `INVALID_EVENT` that names the extension, such as `event.extensions.ratio`.
 */
export function encodeExtensions(input: unknown, path: string): string | null {
  if (input === undefined) return null;
  if (!isPlainObject(input)) throw invalidEvent(path, `must be a plain object, received ${kindOf(input)}`);
  const encoded: [string, CanonicalExtension][] = [];
  for (const [name, value] of readMembers(input, path)) {
    const at = memberPath(path, name);
    const fault = nameFault(name);
    if (fault !== undefined) throw invalidEvent(at, fault);
    if (value !== undefined) encoded.push([name, canonicalValue(value, at)]);
  }
  return canonicalText(encoded);
}

/**
 * The extension attributes of a canonical text, in an object without a prototype: `constructor` is a legal name, and
 * one that is not there must not be found. Binary values are fresh.
 *
 * @throws Error with a short reason if the text is not exactly what {@link encodeExtensions} writes.
 */
export function decodeExtensions(text: string | null): Record<string, Extension> {
  const extensions: Record<string, Extension> = Object.create(null);
  if (text === null) return extensions;
  for (const [name, member] of Object.entries(parseObject(text))) {
    if (nameFault(name) !== undefined) throw new Error("extensions have an illegal name");
    extensions[name] = decodeValue(member);
  }
  // Also catches members that JSON.parse overlooks, such as a name given twice.
  if (encodeExtensions(extensions, "extensions") !== text)
    throw new Error("extensions are not in canonical form");
  return extensions;
}

function canonicalText(encoded: [string, CanonicalExtension][]): string | null {
  if (encoded.length === 0) return null;
  encoded.sort(([a], [b]) => (a < b ? -1 : 1));
  const members = encoded.map(([name, { type, value }]) => `"${name}":${JSON.stringify({ type, value })}`);
  return `{${members.join(",")}}`;
}

function nameFault(name: string): string | undefined {
  if (name === "partitionkey") return "is an attribute of its own: give it as `partitionkey` of the event";
  if (RESERVED.has(name))
    return "is a name that CloudEvents reserves: give it as a member of the event itself";
  return NAME.test(name) ? undefined : "is not a legal name: 1 to 20 characters of a-z and 0-9";
}

function parseObject(text: string): object {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    throw new Error("extensions are not JSON"); // the message of JSON.parse quotes the text
  }
  if (!isPlainObject(parsed)) throw new Error("extensions are not a JSON object");
  return parsed;
}

function decodeValue(member: unknown): Extension {
  if (!isPlainObject(member)) throw new Error("an extension is not an object");
  const { type, value } = member;
  const bytes = type === "binary" && typeof value === "string";
  const explicit: unknown = bytes ? { type, value: decodeBase64(value) } : { type, value };
  try {
    canonicalValue(explicit, "extension");
  } catch {
    throw new Error("an extension has a value that does not fit its type");
  }
  return explicit as Extension; // which is what was just checked
}
