/** From what a caller gives to the record that a driver stores, by CloudEvents 1.0.2 and the bounds of the contract. */

import { BOUNDS } from "../bounds.ts";
import { DovecoteError, type ErrorCode } from "../errors.ts";
import { checkMediaType, checkText, checkTime, checkUri, checkUriReference } from "./attributes.ts";
import { isArray, isObject } from "./builtins.ts";
import { encodeData } from "./data.ts";
import type { EventRecord } from "./event.ts";
import { encodeExtensions } from "./extensions.ts";
import { readMembers } from "./members.ts";
import { invalidEvent, kindOf, memberPath, received } from "./refusal.ts";
import { convertCloudEvent, isCloudEvent } from "./sdk.ts";
import { utf8Bytes } from "./text.ts";
import { uuidv7 } from "./uuid.ts";

const STREAM = /^[A-Za-z0-9][A-Za-z0-9._-]{0,254}$/;

const MEMBERS: ReadonlySet<string> = new Set([
  "stream",
  "source",
  "type",
  "id",
  "specversion",
  "subject",
  "time",
  "datacontenttype",
  "dataschema",
  "partitionkey",
  "extensions",
  "data",
]);

/** How an event is normalised. */
export interface NormalizeOptions {
  /** The limit of {@link eventBytes}; the contract's default is `BOUNDS.eventBytes`. */
  readonly maxEventBytes: number;
  /** The stream, if the event does not carry it. A `CloudEvent` of the SDK never does. */
  readonly stream?: string | undefined;
  /** Where the event stands, for messages and error paths. Default: `event`. */
  readonly path?: string | undefined;
}

/**
 * Checks an event completely and turns it into the record that is stored. Every member of the input is read exactly
 * once, and the record shares no memory with it (DATA-03). Nothing is filled in but the id (a UUIDv7): an absent
 * `time` stays absent (ID-03).
 *
 * @param input a `NewEvent`, or a `CloudEvent` of the `cloudevents` package.
 * @throws DovecoteError `INVALID_EVENT` with the path of what is wrong; `EVENT_TOO_LARGE`; `INVALID_ARGUMENT` if the
 *   stream is given both in the event and in the options, or is malformed in the options.
 */
export function normalizeEvent(input: unknown, options: NormalizeOptions): EventRecord {
  const path = options.path ?? "event";
  const { stream, members } = readEvent(input, options.stream, path);
  const at = (name: string): string => memberPath(path, name);
  const required = <T>(name: string, check: Check<T>, max: number): T =>
    check(members.get(name), at(name), max);
  const optional = <T>(name: string, check: Check<T>, max: number): T | null =>
    members.get(name) === undefined ? null : required(name, check, max);

  checkSpecversion(members.get("specversion"), at("specversion"));
  const source = required("source", checkUriReference, BOUNDS.sourceBytes);
  const datacontenttype = optional("datacontenttype", checkMediaType, BOUNDS.datacontenttypeBytes);
  const attributes = {
    stream,
    id: optional("id", checkText, BOUNDS.idBytes) ?? uuidv7(),
    source,
    type: required("type", checkText, BOUNDS.typeBytes),
    subject: optional("subject", checkText, BOUNDS.subjectBytes),
    time: optional("time", checkTime, Number.POSITIVE_INFINITY),
    datacontenttype,
    dataschema: optional("dataschema", checkUri, BOUNDS.dataschemaBytes),
    partitionkey: optional("partitionkey", checkText, BOUNDS.partitionkeyBytes),
    extensions: encodeExtensions(members.get("extensions"), at("extensions")),
  };
  checkIdentity(attributes.id, source, at("id"));
  const data = encodeData(members.get("data"), datacontenttype ?? undefined, at("data"));
  const record: EventRecord = { ...attributes, dataKind: data.kind, data: data.bytes };
  checkSize(record, options.maxEventBytes, path);
  return record;
}

/**
 * The name of a stream, checked: `[A-Za-z0-9][A-Za-z0-9._-]{0,254}`.
 *
 * @param code what a breach is: `INVALID_ARGUMENT` by default, `INVALID_EVENT` where the stream is part of an event.
 * @throws DovecoteError with that code.
 */
export function checkStream(value: unknown, path: string, code: ErrorCode = "INVALID_ARGUMENT"): string {
  if (typeof value === "string" && STREAM.test(value)) return value;
  const rule = "must be 1 to 255 characters of A-Z a-z 0-9 . _ - and start with a letter or a digit";
  const reason = value === undefined ? "is required" : `${rule}, received ${received(value)}`;
  throw new DovecoteError(code, `${path} ${reason}`, { path });
}

/**
 * The size of an event in bytes: UTF-8 of every attribute that is stored, of the canonical text of its extensions, and
 * its data. The stream is outside of the CloudEvent and `specversion` is not stored: neither counts.
 */
export function eventBytes(record: EventRecord): number {
  return attributeBytes(record) + (record.data?.length ?? 0);
}

type Check<T> = (value: unknown, path: string, max: number) => T;

interface Given {
  readonly stream: string;
  readonly members: ReadonlyMap<string, unknown>;
}

function readEvent(input: unknown, stream: string | undefined, path: string): Given {
  const named = stream === undefined ? undefined : checkStream(stream, "options.stream");
  if (isCloudEvent(input)) {
    if (named === undefined)
      throw invalidEvent(`${path}.stream`, "is required: give a CloudEvent its stream as option");
    return { stream: named, members: new Map(Object.entries(convertCloudEvent(input, named, path))) };
  }
  if (!isObject(input) || isArray(input)) throw invalidEvent(path, `must be an object, not ${kindOf(input)}`);
  const members = readMembers(input, path);
  for (const name of members.keys()) {
    if (!MEMBERS.has(name)) {
      const hint = "extension attributes go under `extensions`";
      throw invalidEvent(memberPath(path, name), `is no member of an event; ${hint}`);
    }
  }
  const own = members.get("stream");
  if (own !== undefined && named !== undefined) {
    const message = `stream is given in ${path} and in the options; give it once`;
    throw new DovecoteError("INVALID_ARGUMENT", message, { path: "options.stream" });
  }
  return { stream: named ?? checkStream(own, `${path}.stream`, "INVALID_EVENT"), members };
}

function checkSpecversion(value: unknown, path: string): void {
  if (value === undefined || value === "1.0") return;
  throw invalidEvent(path, `must be "1.0", received ${received(value)}`);
}

/** Both are within their own bounds by now; together they are the key of an index (ID-07). */
function checkIdentity(id: string, source: string, path: string): void {
  const bytes = utf8Bytes(id) + utf8Bytes(source);
  if (bytes <= BOUNDS.identityBytes) return;
  throw invalidEvent(
    path,
    `and source are ${bytes} bytes together, the limit is ${BOUNDS.identityBytes} bytes`,
  );
}

function checkSize(record: EventRecord, maxEventBytes: number, path: string): void {
  const bytes = eventBytes(record);
  if (bytes <= maxEventBytes) return;
  const parts = `${attributeBytes(record)} of attributes, ${record.data?.length ?? 0} of data`;
  const message = `${path} is ${bytes} bytes (${parts}), the limit is ${maxEventBytes} bytes`;
  throw new DovecoteError("EVENT_TOO_LARGE", message, { path });
}

function attributeBytes(record: EventRecord): number {
  const { id, source, type, subject, time, datacontenttype, dataschema, partitionkey, extensions } = record;
  const stored = [id, source, type, subject, time, datacontenttype, dataschema, partitionkey, extensions];
  return stored.reduce<number>((sum, text) => sum + utf8Bytes(text ?? ""), 0);
}
