/** Serialises data as JSON in one walk that reads every member once and refuses what `JSON.stringify` loses silently. */

import { BOUNDS } from "../bounds.ts";
import { DovecoteError } from "../errors.ts";
import { builtinTag, dateMs, isPlainObject } from "./builtins.ts";
import { invalidEvent, kindOf, memberPath } from "./refusal.ts";
import { storageFault } from "./text.ts";

/** How deep arrays and objects may be nested, the outermost counted. Far below where a JavaScript stack ends. */
export const JSON_MAX_DEPTH = 1000;

/** How much of a deep path a message shows. */
const SHOWN_SEGMENTS = 32;

/** Built-ins whose content `JSON.stringify` would drop even if somebody hung members on them. */
const OPAQUE: ReadonlySet<string> = new Set([
  "Map",
  "Set",
  "WeakMap",
  "WeakSet",
  "WeakRef",
  "Promise",
  "RegExp",
  "Error",
  "ArrayBuffer",
  "SharedArrayBuffer",
]);

const UNBOX: ReadonlyMap<string, () => unknown> = new Map(
  [Number, String, Boolean, BigInt, Symbol].map((box) => [box.name, box.prototype.valueOf]),
);

interface Walk {
  readonly path: string;
  readonly trail: (string | number)[];
  readonly open: Set<object>;
  readonly pieces: string[];
  chars: number;
  refusal?: DovecoteError;
}

/**
 * The JSON text of a value, as `JSON.stringify` writes it (member order, `toJSON`, boxed primitives, members that are
 * `undefined` or have a symbol as key left out), except that everything it would lose, change or choke on is refused:
 *
 * - `undefined` as an element or a hole of an array; functions, symbols and BigInts anywhere
 * - NaN and the infinities, an invalid `Date`
 * - `Map`, `Set`, `RegExp`, `Promise`, `Error`, typed arrays, buffers, and any object of a class that has no own
 *   enumerable members and no `toJSON`: all of them would become `{}`
 * - cycles, more than {@link JSON_MAX_DEPTH} levels, a getter, proxy or `toJSON` that throws
 * - strings and member names with NUL or a lone surrogate (DATA-02)
 *
 * @throws DovecoteError `INVALID_EVENT` with the path of the offender; `EVENT_TOO_LARGE` if the text is longer than any
 *   limit that can be configured, before all of it is built.
 */
export function serializeJson(value: unknown, path: string): string {
  const walk: Walk = { path, trail: [], open: new Set(), pieces: [], chars: 0 };
  try {
    const plain = unwrap(walk, "", value);
    if (plain === undefined) throw refuse(walk, "must be a JSON value, its toJSON returned undefined");
    writeValue(walk, plain);
    return walk.pieces.join("");
  } catch (error) {
    // Only our own refusal passes: an error of a getter stays the caller's, even if it is a DovecoteError.
    if (error === walk.refusal) throw error;
    throw refuse(walk, "could not be read: a getter, a proxy or toJSON threw", error);
  }
}

/**
 * Checks a value that `JSON.parse` made by the rules that concern it: strings and member names (DATA-02), and depth.
 *
 * @throws DovecoteError `INVALID_EVENT` with the path of the offender.
 */
export function checkParsedJson(value: unknown, path: string): void {
  const walk: Walk = { path, trail: [], open: new Set(), pieces: [], chars: 0 };
  checkParsed(walk, value);
}

function checkParsed(walk: Walk, value: unknown): void {
  if (typeof value === "string") checkString(walk, value);
  if (typeof value !== "object" || value === null) return;
  enter(walk, value);
  for (const [key, member] of Object.entries(value)) {
    walk.trail.push(Array.isArray(value) ? Number(key) : key);
    checkString(walk, key);
    checkParsed(walk, member);
    walk.trail.pop();
  }
  walk.open.delete(value);
}

/** What stands for a value: the answer of its `toJSON`, once, and the primitive in a box. */
function unwrap(walk: Walk, key: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  // Before toJSON: Buffer has one, and numbers in an array are not what anybody means.
  if (ArrayBuffer.isView(value)) throw refuse(walk, binaryInside(builtinTag(value)));
  const toJSON: unknown = (value as { toJSON?: unknown }).toJSON;
  if (typeof toJSON !== "function") return unbox(value);
  if (Number.isNaN(dateMs(value))) throw refuse(walk, "must not be an invalid Date");
  const plain: unknown = Reflect.apply(toJSON, value, [key]);
  return typeof plain === "object" && plain !== null ? unbox(plain) : plain;
}

function unbox(value: object): unknown {
  const primitive = Array.isArray(value) ? undefined : UNBOX.get(builtinTag(value));
  if (primitive === undefined) return value;
  try {
    return Reflect.apply(primitive, value, []);
  } catch {
    return value; // an object that only calls itself by that name
  }
}

function writeValue(walk: Walk, value: unknown): void {
  if (typeof value === "string") {
    checkString(walk, value);
    write(walk, JSON.stringify(value));
  } else if (typeof value === "number") {
    if (!Number.isFinite(value)) throw refuse(walk, `must be a finite number, received ${value}`);
    write(walk, JSON.stringify(value));
  } else if (typeof value === "boolean" || value === null) write(walk, String(value));
  else if (typeof value === "object") writeObject(walk, value);
  else throw refuse(walk, `must be a JSON value, received ${kindOf(value)}${hintFor(value)}`);
}

function writeObject(walk: Walk, value: object): void {
  enter(walk, value);
  if (Array.isArray(value)) writeElements(walk, value);
  else writeMembers(walk, value);
  walk.open.delete(value);
}

function writeElements(walk: Walk, array: readonly unknown[]): void {
  write(walk, "[");
  const length = array.length;
  for (let i = 0; i < length; i++) {
    walk.trail.push(i);
    if (i > 0) write(walk, ",");
    const element = unwrap(walk, String(i), array[i]);
    if (element === undefined) throw refuse(walk, "must not be undefined or a hole; give null");
    writeValue(walk, element);
    walk.trail.pop();
  }
  write(walk, "]");
}

function writeMembers(walk: Walk, object: object): void {
  const keys = Object.keys(object);
  checkClass(walk, object, keys.length);
  let separator = "{";
  for (const key of keys) {
    walk.trail.push(key);
    const member = unwrap(walk, key, (object as Record<string, unknown>)[key]);
    if (member !== undefined) {
      checkString(walk, key);
      write(walk, `${separator}${JSON.stringify(key)}:`);
      writeValue(walk, member);
      separator = ",";
    }
    walk.trail.pop();
  }
  write(walk, separator === "{" ? "{}" : "}");
}

/** Refuses objects that `JSON.stringify` would turn into `{}`, and the raw JSON that it alone would recognise. */
function checkClass(walk: Walk, object: object, members: number): void {
  const { isRawJSON } = JSON as { isRawJSON?: (value: unknown) => boolean };
  if (isRawJSON?.(object) === true)
    throw refuse(walk, "must not be JSON.rawJSON; give { json: bytes } as the data");
  if (isPlainObject(object)) return;
  const tag = builtinTag(object);
  if (tag.endsWith("ArrayBuffer")) throw refuse(walk, binaryInside(tag));
  if (!OPAQUE.has(tag) && members > 0) return;
  const what = tag === "Object" ? "an object of a class without members" : `a value of type ${tag}`;
  throw refuse(
    walk,
    `must be a JSON value, received ${what}, which would become {}; give a plain object or array`,
  );
}

function enter(walk: Walk, value: object): void {
  if (walk.open.has(value)) throw refuse(walk, "must not refer back to an object that contains it");
  if (walk.open.size >= JSON_MAX_DEPTH) throw refuse(walk, `is nested deeper than ${JSON_MAX_DEPTH} levels`);
  walk.open.add(value);
}

function checkString(walk: Walk, text: string): void {
  const fault = storageFault(text);
  if (fault !== undefined) throw refuse(walk, `${fault}; give such text as bytes or replace the character`);
}

function write(walk: Walk, piece: string): void {
  walk.chars += piece.length;
  // A character is a byte at least. Also what ends the walk of a proxy that has no end.
  if (walk.chars > BOUNDS.maxEventBytes.max) {
    const reason = `is longer than ${BOUNDS.maxEventBytes.max} bytes, the highest limit that can be set`;
    walk.refusal = new DovecoteError("EVENT_TOO_LARGE", `${walk.path} ${reason}`, { path: walk.path });
    throw walk.refusal;
  }
  walk.pieces.push(piece);
}

function refuse(walk: Walk, reason: string, cause?: unknown): DovecoteError {
  const shown = walk.trail.slice(0, SHOWN_SEGMENTS).reduce<string>(memberPath, walk.path);
  walk.refusal = invalidEvent(walk.trail.length > SHOWN_SEGMENTS ? `${shown}…` : shown, reason, cause);
  return walk.refusal;
}

function binaryInside(tag: string): string {
  return `must be a JSON value, received ${tag}; give a Uint8Array as the whole data, or base64 text`;
}

function hintFor(value: unknown): string {
  return typeof value === "bigint" ? "; give a string, or { json: bytes } as the whole data" : "";
}
