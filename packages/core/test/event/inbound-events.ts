/** Any event that an application may enqueue, for properties. */
import fc from "fast-check";
import { decodeEvent } from "../../src/event/decode.ts";
import type { ExtensionInput, NewEvent, OutboxEvent } from "../../src/event/event.ts";
import { normalizeEvent } from "../../src/event/validate.ts";

/** A legal CloudEvents string: no control characters, surrogates or noncharacters. */
const text = fc
  .string({ unit: "binary", minLength: 1, maxLength: 40 })
  .map((raw) => raw.replace(/[\p{Cc}\p{Cs}\p{Noncharacter_Code_Point}]/gu, "ä"));
const name = fc
  .stringMatching(/^[a-z0-9]{1,20}$/)
  .filter(
    (drawn) => !/^(id|source|specversion|type|time|subject|data|data(content|schem).*|trace.*)$/.test(drawn),
  )
  .filter((drawn) => drawn !== "partitionkey");
const extension: fc.Arbitrary<ExtensionInput> = fc.oneof(
  text,
  fc.boolean(),
  fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
);
const optional = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
  fc.option(value, { nil: undefined });
/** `JSON.stringify` writes -0 as 0. */
const json = fc.jsonValue().map((value) => JSON.parse(JSON.stringify(value)) as unknown);
const data = fc.oneof(
  fc.record({ data: json, datacontenttype: fc.constantFrom("application/json", "text/json", "a/b+json") }),
  fc.record({ data: text, datacontenttype: fc.constantFrom("text/plain", "text/plain; charset=utf-8") }),
  fc.record({ data: fc.uint8Array({ minLength: 1 }), datacontenttype: fc.constant("image/png") }),
  fc.constant({ datacontenttype: "image/png" }),
  fc.constant({}),
);

export const anyEvent: fc.Arbitrary<OutboxEvent> = fc
  .record({
    id: text,
    source: fc.constantFrom("/shop", "urn:x", "https://example.com/a?b=%20#c"),
    type: text,
    subject: optional(text),
    time: optional(fc.constantFrom("2020-01-01T00:00:00Z", "2020-01-01T00:00:00.120+01:00")),
    dataschema: optional(fc.constant("https://example.com/schema")),
    partitionkey: optional(text),
    extensions: fc.dictionary(name, extension),
    content: data,
  })
  .map(({ content, ...attributes }) => stored({ ...attributes, ...content }));

export function stored(event: Partial<NewEvent>): OutboxEvent {
  const given = { stream: "orders", id: "1", source: "/shop", type: "order.placed", ...event };
  return decodeEvent(normalizeEvent(given, { maxEventBytes: 1024 * 1024 }));
}

/** What no header can say: booleans and integers arrive as their canonical texts. */
export function withTextExtensions(event: OutboxEvent): OutboxEvent {
  const extensions: Record<string, { readonly type: "string"; readonly value: string }> = Object.create(null);
  for (const [key, { value }] of Object.entries(event.extensions)) {
    extensions[key] = { type: "string", value: String(value) };
  }
  return { ...event, extensions };
}
