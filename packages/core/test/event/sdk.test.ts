import { CloudEvent, HTTP } from "cloudevents";
import { describe, expect, it } from "vitest";
import { BOUNDS } from "../../src/bounds.ts";
import type { EventRecord } from "../../src/event/event.ts";
import { type CloudEventLike, fromCloudEvent } from "../../src/event/sdk.ts";
import { normalizeEvent } from "../../src/event/validate.ts";
import { codeAndPath, refusalOf } from "./errors.ts";

const BASE = { id: "1", source: "/shop", type: "order.placed", time: "2020-01-01T00:00:00Z" };
const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);
const normalize = (event: unknown, path?: string): EventRecord =>
  normalizeEvent(event, { maxEventBytes: BOUNDS.eventBytes, stream: "orders", path });

describe("a CloudEvent of the cloudevents package", () => {
  it("is accepted as it is, with every attribute", () => {
    const event: CloudEventLike = new CloudEvent({
      ...BASE,
      subject: "order-17",
      datacontenttype: "application/json",
      dataschema: "https://example.com/schema",
      partitionkey: "key",
      traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
      attempt: 3,
      urgent: true,
      stream: "an extension",
      digest: new Uint8Array([0, 255]),
      at: new Date(0),
      data: { order: 17 },
    });
    expect(normalize(event)).toEqual({
      stream: "orders",
      ...BASE,
      subject: "order-17",
      datacontenttype: "application/json",
      dataschema: "https://example.com/schema",
      partitionkey: "key",
      extensions: JSON.stringify({
        at: { type: "timestamp", value: "1970-01-01T00:00:00.000Z" },
        attempt: { type: "integer", value: 3 },
        digest: { type: "binary", value: "AP8=" },
        stream: { type: "string", value: "an extension" },
        traceparent: { type: "string", value: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" },
        urgent: { type: "boolean", value: true },
      }),
      dataKind: "json",
      data: utf8('{"order":17}'),
    });
    expect(normalizeEvent(fromCloudEvent(event, "orders"), { maxEventBytes: 1000 })).toEqual(
      normalize(event),
    );
  });

  it("ID-09 is the same record as the plain event", () => {
    const plain = { ...BASE, stream: "orders", extensions: { x: 1 }, data: null };
    expect(normalize(new CloudEvent({ ...BASE, x: 1, data: null as unknown }))).toEqual(
      normalizeEvent(plain, { maxEventBytes: 1000 }),
    );
  });

  it.each<[string, object, string, Uint8Array | null]>([
    ["no data", {}, "absent", null],
    ["null", { data: null }, "json", utf8("null")],
    ["zero", { data: 0 }, "json", utf8("0")],
    ["a string", { data: "x" }, "json", utf8('"x"')],
    ["a string of JSON", { data: "[1]", datacontenttype: "application/json" }, "json", utf8('"[1]"')],
    ["text", { data: "déjà", datacontenttype: "text/plain" }, "text", utf8("déjà")],
    ["bytes", { data: new Uint8Array([1, 255]) }, "binary", new Uint8Array([1, 255])],
    ["no bytes", { data: new Uint8Array(0) }, "binary", new Uint8Array(0)],
    ["a Buffer", { data: Buffer.from([7]), datacontenttype: "image/png" }, "binary", new Uint8Array([7])],
    ["base64", { data_base64: "AP8=" }, "binary", new Uint8Array([0, 255])],
    ["base64 that the SDK has mended", { data_base64: "AP8" }, "binary", new Uint8Array([0, 255])],
    ["small numbers in a wide view", { data: new Uint32Array([1, 255]) }, "binary", new Uint8Array([1, 255])],
  ])("ID-09 keeps the kind of its data: %s", (_, more, dataKind, data) => {
    expect(normalize(new CloudEvent({ ...BASE, ...more }))).toMatchObject({ dataKind, data });
  });

  it("ID-09 keeps binary data that the SDK itself has received", () => {
    const sent = HTTP.structured(new CloudEvent({ ...BASE, data: new Uint8Array([0, 200, 255]) }));
    const received = HTTP.toEvent(sent);
    expect(normalize(received)).toMatchObject({ dataKind: "binary", data: new Uint8Array([0, 200, 255]) });
  });

  it.each<[string, object, string]>([
    ["a fraction", { ratio: 1.5 }, "event.extensions.ratio"],
    ["an integer beyond 32 bits", { big: 2 ** 40 }, "event.extensions.big"],
    ["an object as extension", { obj: { a: 1 } }, "event.extensions.obj"],
    ["an object in the explicit form", { obj: { type: "string", value: "x" } }, "event.extensions.obj"],
    ["a long name", { abcdefghij01234567890: "x" }, "event.extensions.abcdefghij01234567890"],
    ["an illegal name", { traceParent: "x" }, "event.extensions.traceParent"],
    ["another specversion", { specversion: "0.3" }, "event.specversion"],
    ["schemaurl", { specversion: "0.3", schemaurl: "/x" }, "event.schemaurl"],
    ["datacontentencoding", { datacontentencoding: "base64" }, "event.datacontentencoding"],
    ["no source", { source: undefined }, "event.source"],
    ["a broken source", { source: "a b" }, "event.source"],
    ["a fragment in dataschema", { dataschema: "https://example.com/#x" }, "event.dataschema"],
    ["a broken time", { time: "yesterday" }, "event.time"],
    ["broken base64", { data: "x", data_base64: "AP8" }, "event.data_base64"],
    ["data besides base64", { data: "x", data_base64: "AP8=" }, "event.data"],
    ["a view that base64 cut short", { data: new Uint16Array([256]) }, "event.data"],
    ["a view that base64 lost", { data: new DataView(new ArrayBuffer(3)) }, "event.data"],
    ["a string under another media type", { data: "<a/>", datacontenttype: "application/xml" }, "event.data"],
    ["NUL in data", { data: { a: "\0" } }, "event.data.a"],
  ])("is refused with %s", (_, more, path) => {
    const event = new CloudEvent({ ...BASE, ...more }, false);
    expect(codeAndPath(() => normalize(event))).toEqual({ code: "INVALID_EVENT", path });
    expect(codeAndPath(() => normalize(event, "events[1]")).path).toBe(path.replace("event", "events[1]"));
  });

  it("counts attributes that are null as absent, as its JSON format says", () => {
    const nulls = { subject: null, dataschema: null, datacontenttype: null, x: null } as unknown as object;
    expect(normalize(new CloudEvent({ ...BASE, ...nulls }, false))).toEqual(normalize(new CloudEvent(BASE)));
  });

  it("needs a stream from the options", () => {
    const event = new CloudEvent({ ...BASE, stream: "an extension" });
    const refusal = refusalOf(() => normalizeEvent(event, { maxEventBytes: 1000 }));
    expect(refusal).toMatchObject({ code: "INVALID_EVENT", path: "event.stream" });
    expect(codeAndPath(() => normalizeEvent(event, { maxEventBytes: 1000, stream: "" }))).toEqual({
      code: "INVALID_ARGUMENT",
      path: "options.stream",
    });
  });
});

describe("fromCloudEvent", () => {
  it.each([[null], [{ ...BASE, specversion: "1.0" }], [[]], ["x"], [new Date()]])("refuses %j", (value) => {
    expect(codeAndPath(() => fromCloudEvent(value, "orders"))).toEqual({
      code: "INVALID_EVENT",
      path: "event",
    });
  });

  it("DATA-02 reads each member once", () => {
    const reads: string[] = [];
    const event = new CloudEvent({ ...BASE, x: 1, data: { a: 1 } });
    const spy = new Proxy(event, {
      get(target, key, receiver) {
        if (Object.hasOwn(target, key)) reads.push(String(key));
        return Reflect.get(target, key, receiver);
      },
    });
    fromCloudEvent(spy, "orders");
    expect(reads.toSorted()).toEqual(Object.keys(event).toSorted());
  });

  it("is not fooled by a member named __proto__", () => {
    const event = Object.assign(Object.create(CloudEvent.prototype), BASE, { specversion: "1.0" });
    Object.defineProperty(event, "__proto__", { value: { type: "x" }, enumerable: true });
    expect(codeAndPath(() => normalize(event))).toEqual({
      code: "INVALID_EVENT",
      path: "event.extensions.__proto__",
    });
  });
});
