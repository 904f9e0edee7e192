/** The event model: what a caller gives, what a driver stores, what a reader gets. Source: CloudEvents 1.0.2. */

/** A JSON value. */
export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue };

/** The abstract type of an extension attribute (CloudEvents 1.0.2, section "Type System"). */
export type ExtensionType =
  | "boolean"
  | "integer"
  | "string"
  | "binary"
  | "uri"
  | "uri-reference"
  | "timestamp";

/**
 * An extension attribute in its explicit form. `value` is a boolean, a 32-bit integer, a `Uint8Array` for `binary`,
 * and a string for every other type.
 */
export type Extension =
  | { readonly type: "boolean"; readonly value: boolean }
  | { readonly type: "integer"; readonly value: number }
  | { readonly type: "binary"; readonly value: Uint8Array }
  | { readonly type: "string" | "uri" | "uri-reference" | "timestamp"; readonly value: string };

/**
 * An extension attribute as a caller gives it: the explicit form, or a JavaScript value that stands for one type:
 * boolean → boolean, whole number in 32 bits → integer, string → string, `Uint8Array` → binary, `URL` → uri,
 * `Date` → timestamp. Every other number must be given as a string.
 */
export type ExtensionInput = Extension | boolean | number | string | Uint8Array | URL | Date;

/**
 * What `enqueue` takes.
 *
 * @example
 * const event: NewEvent = {
 *   stream: "orders",
 *   source: "/shop",
 *   type: "com.example.order.placed",
 *   subject: "order-17",
 *   data: { order: 17, total: "99.90" },
 * };
 */
export interface NewEvent {
  /** The logical destination, outside the CloudEvent: `[A-Za-z0-9][A-Za-z0-9._-]{0,254}`. */
  readonly stream: string;
  /** URI-reference of the context in which the event happened. */
  readonly source: string;
  readonly type: string;
  /** Unique within `source` (and the tenant). Default: a UUIDv7. */
  readonly id?: string | undefined;
  readonly specversion?: "1.0" | undefined;
  readonly subject?: string | undefined;
  /** RFC 3339, kept as it was given, or a `Date`. Absent stays absent. */
  readonly time?: string | Date | undefined;
  /** RFC 2046 media type. Absent with JSON data means JSON. */
  readonly datacontenttype?: string | undefined;
  /** Absolute URI of the schema that the data adheres to. */
  readonly dataschema?: string | undefined;
  /** The CloudEvents `partitionkey` extension. */
  readonly partitionkey?: string | undefined;
  readonly extensions?: Readonly<Record<string, ExtensionInput>> | undefined;
  /**
   * Absent (`undefined`), a JSON value, a `Uint8Array` (binary), a string with a `text/*` media type (text), or
   * `{ json: bytes }` when the exact JSON bytes matter.
   */
  readonly data?: unknown;
}

/** How the data of an event is stored: the four kinds stay distinct (ID-09). */
export type DataKind = "absent" | "json" | "text" | "binary";

/**
 * A validated event as drivers store it, field by field. Two records with the same identity are the same event only
 * if every field is equal (ID-03).
 */
export interface EventRecord {
  readonly stream: string;
  readonly id: string;
  readonly source: string;
  readonly type: string;
  readonly subject: string | null;
  readonly time: string | null;
  readonly datacontenttype: string | null;
  readonly dataschema: string | null;
  readonly partitionkey: string | null;
  /** Canonical JSON text, members ordered by name, each `{"type":…,"value":…}`; null without extensions. */
  readonly extensions: string | null;
  readonly dataKind: DataKind;
  /** null exactly if `dataKind` is `absent`. */
  readonly data: Uint8Array | null;
}

/** A stored event as a reader gets it. Optional attributes that were not given are absent. */
export interface OutboxEvent {
  readonly specversion: "1.0";
  readonly id: string;
  readonly source: string;
  readonly type: string;
  readonly subject?: string;
  readonly time?: string;
  readonly datacontenttype?: string;
  readonly dataschema?: string;
  readonly partitionkey?: string;
  readonly extensions: Readonly<Record<string, Extension>>;
  readonly dataKind: DataKind;
  /** The decoded value: a JSON value, a string, a `Uint8Array`, or `undefined` when absent. */
  readonly data: unknown;
  /** The bytes as stored; empty when absent. */
  readonly dataBytes: Uint8Array;
}

/** Stands in for an event whose stored row cannot be decoded (CLAIM-15). */
export interface UndecodableEvent {
  readonly undecodable: string;
}
