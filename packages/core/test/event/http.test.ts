import { CloudEvent, HTTP } from "cloudevents";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { toBinary } from "../../src/event/binary.ts";
import type { NewEvent, OutboxEvent } from "../../src/event/event.ts";
import { fromHttp, type HttpHeaders, toHttpHeaders } from "../../src/event/http.ts";
import type { InboundCaps } from "../../src/event/inbound.ts";
import { STRUCTURED_JSON, toStructuredJson } from "../../src/event/project.ts";
import { codeAndPath } from "./errors.ts";
import { anyEvent, stored, withTextExtensions } from "./inbound-events.ts";

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);
const REQUIRED = { "ce-specversion": "1.0", "ce-id": "1", "ce-source": "/shop", "ce-type": "order.placed" };

function received(event: OutboxEvent): OutboxEvent {
  const binary = toBinary(event);
  return fromHttp(toHttpHeaders(binary), binary.body);
}

describe("the binary mode: golden vectors", () => {
  it("every attribute and type, in a fixed order", () => {
    const binary = toBinary(
      stored({
        data: { order: 17 },
        partitionkey: "key",
        dataschema: "https://example.com/schema",
        time: "2020-01-01T00:00:00.120+01:00",
        subject: 'Euro € 😀, "100%"',
        extensions: { zone: "EU", urgent: true, digest: new Uint8Array([0, 255]), attempt: -3, "9": "nine" },
      }),
    );
    expect(Object.entries(toHttpHeaders(binary))).toEqual([
      ["ce-specversion", "1.0"],
      ["ce-id", "1"],
      ["ce-source", "/shop"],
      ["ce-type", "order.placed"],
      ["ce-subject", "Euro%20%E2%82%AC%20%F0%9F%98%80,%20%22100%25%22"],
      ["ce-time", "2020-01-01T00:00:00.120+01:00"],
      ["ce-dataschema", "https://example.com/schema"],
      ["ce-9", "nine"],
      ["ce-attempt", "-3"],
      ["ce-digest", "AP8="],
      ["ce-partitionkey", "key"],
      ["ce-urgent", "true"],
      ["ce-zone", "EU"],
      ["content-type", "application/json"],
    ]);
    expect(binary.attributes.get("subject")).toBe('Euro € 😀, "100%"');
    expect(binary.body).toEqual(utf8('{"order":17}'));
  });

  it.each<[string, Partial<NewEvent>, string | undefined, Uint8Array | undefined]>([
    ["no data", {}, undefined, undefined],
    ["no data of a type", { datacontenttype: "image/png" }, "image/png", undefined],
    ["JSON", { data: [1] }, "application/json", utf8("[1]")],
    ["JSON of a type", { data: null, datacontenttype: "a/b+json" }, "a/b+json", utf8("null")],
    ["text", { data: "ä", datacontenttype: "text/plain" }, "text/plain", utf8("ä")],
    ["bytes", { data: new Uint8Array([255]) }, undefined, new Uint8Array([255])],
    ["no bytes", { data: new Uint8Array(0) }, undefined, new Uint8Array(0)],
  ])("%s", (_, more, contentType, body) => {
    expect(toBinary(stored(more))).toMatchObject({ contentType, body });
  });

  it("what it carries is what it was given, for any event", () => {
    fc.assert(
      fc.property(anyEvent, (event) => {
        const implied = event.dataKind === "json" ? { datacontenttype: "application/json" } : {};
        expect(received(event)).toEqual({ ...implied, ...withTextExtensions(event) });
      }),
    );
  });
});

describe("fromHttp: the binary mode", () => {
  it.each<[string, string | undefined, Uint8Array | string | undefined, Partial<OutboxEvent>]>([
    ["no body", "application/json", undefined, { dataKind: "absent", datacontenttype: "application/json" }],
    ["an empty body", "application/json", "", { dataKind: "absent" }],
    ["JSON", "application/json; charset=UTF-8", "[1]", { dataKind: "json", data: [1] }],
    ["JSON that is a string", "application/json", '"x"', { dataKind: "json", data: "x" }],
    [
      "JSON in UTF-16",
      "application/json; charset=utf-16",
      new Uint8Array([0x5b, 0, 0x5d, 0]),
      { dataKind: "binary" },
    ],
    ["text", "text/plain", "ä", { dataKind: "text", data: "ä" }],
    ["text in Latin-1", "text/plain; charset=iso-8859-1", new Uint8Array([0xe4]), { dataKind: "binary" }],
    [
      "text that does not say that it is Latin-1",
      "text/plain",
      new Uint8Array([0xe4]),
      { dataKind: "binary" },
    ],
    ["text that is no ASCII", "text/plain; charset=us-ascii", "ä", { dataKind: "binary", data: utf8("ä") }],
    ["text with NUL", "text/plain", "a\0", { dataKind: "binary", data: utf8("a\0") }],
    ["bytes", "image/png", new Uint8Array([255]), { dataKind: "binary", data: new Uint8Array([255]) }],
    ["bytes of no type", undefined, "[1]", { dataKind: "binary", data: utf8("[1]") }],
  ])("reads %s", (_, contentType, body, expected) => {
    const type = contentType === undefined ? {} : { "content-type": contentType };
    expect(fromHttp({ ...REQUIRED, ...type }, body)).toMatchObject({ id: "1", ...expected });
  });

  it.each<[string, HttpHeaders]>([
    ["an object", { ...REQUIRED, "CE-Subject": "%C3%A4", "x-more": ["1", "2"], absent: undefined }],
    [
      "an object without a prototype",
      Object.assign(Object.create(null), REQUIRED, { "ce-subject": '"%C3%A4"' }),
    ],
    ["Headers", new Headers({ ...REQUIRED, "ce-subject": "%c3%a4" })],
    ["pairs", new Map(Object.entries({ ...REQUIRED, "ce-subject": " %C3%A4 " }))],
    ["rawHeaders", Object.entries({ ...REQUIRED, "Ce-Subject": "%C3%A4", Host: "a", host: "b" }).flat()],
  ])("takes headers as %s", (_, headers) => {
    const event = fromHttp(headers, undefined);
    expect(event).toMatchObject({ id: "1", source: "/shop", type: "order.placed", subject: "ä" });
    expect(Object.keys(event.extensions)).toEqual([]);
  });

  it.each<[string, HttpHeaders, string]>([
    ["no specversion", { ...REQUIRED, "ce-specversion": undefined }, "event.specversion"],
    ["specversion 0.3", { ...REQUIRED, "ce-specversion": "0.3" }, "event.specversion"],
    ["no id", { ...REQUIRED, "ce-id": undefined }, "event.id"],
    ["an empty id", { ...REQUIRED, "ce-id": "" }, "event.id"],
    ["no headers at all", {}, "event.specversion"],
    ["ce-datacontenttype", { ...REQUIRED, "ce-datacontenttype": "a/b" }, 'headers["ce-datacontenttype"]'],
    ["ce-data", { ...REQUIRED, "ce-data": "x" }, "event.extensions.data"],
    ["ce-__proto__", { ...REQUIRED, "ce-__proto__": "x" }, "event.extensions.__proto__"],
    ["a name with a dash", { ...REQUIRED, "ce-a-b": "x" }, 'event.extensions["a-b"]'],
    ["an empty name", { ...REQUIRED, "ce-": "x" }, 'event.extensions[""]'],
    ["invalid UTF-8", { ...REQUIRED, "ce-subject": "%C0%A0" }, 'headers["ce-subject"]'],
    ["a control character", { ...REQUIRED, "ce-subject": "%0A" }, "event.subject"],
    ["a header sent twice", { ...REQUIRED, "ce-x": ["1", "1"] }, 'headers["ce-x"]'],
    ["a header in two spellings", { ...REQUIRED, "CE-ID": "1" }, 'headers["ce-id"]'],
    ["a raw header sent twice", [...Object.entries(REQUIRED).flat(), "ce-id", "2"], 'headers["ce-id"]'],
    ["a pair sent twice", [...Object.entries(REQUIRED), ["Ce-Id", "2"]], 'headers["ce-id"]'],
    ["two types", { ...REQUIRED, "content-type": ["a/b", "a/b"] }, 'headers["content-type"]'],
    [
      "joined values of specversion",
      new Headers([...Object.entries(REQUIRED), ["ce-specversion", "1.0"]]),
      "event.specversion",
    ],
    ["a broken type", { ...REQUIRED, "content-type": "json" }, "event.datacontenttype"],
    ["a batch", { "content-type": "application/cloudevents-batch+json" }, 'headers["content-type"]'],
    ["another format", { "content-type": "application/cloudevents+xml" }, 'headers["content-type"]'],
    ["no format", { ...REQUIRED, "content-type": "application/cloudevents" }, 'headers["content-type"]'],
    [
      "another charset",
      { "content-type": "application/cloudevents+json; charset=utf-16" },
      'headers["content-type"]',
    ],
  ])("refuses %s", (_, headers, path) => {
    expect(codeAndPath(() => fromHttp(headers, "{}"))).toEqual({ code: "INVALID_EVENT", path });
  });

  it.each(["{", "\uFEFF1", "1 2"])("refuses JSON that is none: %j", (body) => {
    const headers = { ...REQUIRED, "content-type": "application/json" };
    expect(codeAndPath(() => fromHttp(headers, body))).toEqual({
      code: "INVALID_EVENT",
      path: "event.data.json",
    });
  });

  it.each<[string, HttpHeaders, string, InboundCaps, string]>([
    ["a body above its cap", REQUIRED, "12", { maxBodyBytes: 1 }, "body"],
    ["too many headers", { ...REQUIRED, a: "", b: "" }, "", { maxHeaders: 5 }, "headers"],
    ["long headers", { ...REQUIRED, a: "x".repeat(100) }, "", { maxHeaderBytes: 150 }, "headers"],
    ["many headers, by default", Array.from({ length: 101 }, () => ["a", "b"] as const), "", {}, "headers"],
    ["long headers, by default", { a: "x".repeat(65_536) }, "", {}, "headers"],
  ])("refuses %s", (_, headers, body, caps, path) => {
    expect(codeAndPath(() => fromHttp(headers, body, caps))).toEqual({ code: "EVENT_TOO_LARGE", path });
  });

  it.each<[string, unknown, unknown, string]>([
    ["no headers", undefined, "", "headers"],
    ["a text", "ce-id: 1", "", "headers"],
    ["a header that is a number", { "ce-id": 1 }, "", "headers"],
    ["half a pair", ["ce-id"], "", "headers"],
    ["pairs that are none", [["ce-id", "1"], 7], "", "headers"],
    ["another kind of body", REQUIRED, {}, "body"],
  ])("refuses %s", (_, headers, body, path) => {
    const call = (): unknown => fromHttp(headers as HttpHeaders, body as string);
    expect(codeAndPath(call)).toEqual({ code: "INVALID_ARGUMENT", path });
  });

  it("anything else is an event or a typed refusal, and no prototype is touched", () => {
    const hostile = fc.constantFrom(
      "__proto__",
      "constructor",
      "ce-id",
      "ce-__proto__",
      "content-type",
      "ce-type",
    );
    const headers = fc.array(fc.tuple(fc.oneof(hostile, fc.string()), fc.string({ unit: "binary" })));
    fc.assert(
      fc.property(headers, fc.string({ unit: "binary" }), (pairs, body) => {
        try {
          fromHttp([...Object.entries(REQUIRED), ...pairs], body);
        } catch (error) {
          expect(error).toMatchObject({ code: "INVALID_EVENT" });
        }
        expect(Object.keys(Object.prototype)).toEqual([]);
      }),
    );
  });
});

describe("fromHttp: the structured mode", () => {
  it.each([STRUCTURED_JSON, "application/cloudevents+json", "Application/CloudEvents+JSON;charset=UTF-8"])(
    "reads the body under %s, whatever the headers repeat",
    (contentType) => {
      const event = stored({ data: [1], extensions: { n: 1 } });
      const headers = { "content-type": contentType, "ce-id": "another" };
      expect(fromHttp(headers, toStructuredJson(event))).toEqual(event);
    },
  );

  it("refuses no body, and one above its cap", () => {
    const headers = { "content-type": STRUCTURED_JSON };
    expect(codeAndPath(() => fromHttp(headers, undefined))).toEqual({ code: "INVALID_EVENT", path: "body" });
    expect(codeAndPath(() => fromHttp(headers, "{}", { maxBodyBytes: 1 })).code).toBe("EVENT_TOO_LARGE");
  });
});

describe("the cloudevents package", () => {
  it("reads what the binary mode sends", () => {
    const binary = toBinary(
      stored({
        ...{ subject: "order-17", time: "2020-01-01T00:00:00.000Z", dataschema: "https://example.com/s" },
        ...{ partitionkey: "k", extensions: { urgent: true, n: 3 }, data: { a: "ä" } },
      }),
    );
    const body = new TextDecoder().decode(binary.body);
    const event = HTTP.toEvent<unknown>({ headers: toHttpHeaders(binary), body });
    if (Array.isArray(event)) throw new Error("a single event was sent");
    expect(new CloudEvent({ ...event }, true)).toMatchObject({
      ...{
        id: "1",
        source: "/shop",
        type: "order.placed",
        subject: "order-17",
        time: "2020-01-01T00:00:00.000Z",
      },
      ...{ dataschema: "https://example.com/s", datacontenttype: "application/json", data: { a: "ä" } },
      ...{ partitionkey: "k", urgent: "true", n: "3" },
    });
  });

  it("is read in both modes, as what it sent", () => {
    const sent = new CloudEvent({
      ...{ id: "1", source: "/shop", type: "t", time: "2020-01-01T00:00:00.000Z", subject: "s" },
      ...{ zone: "EU", datacontenttype: "application/json", data: { order: 17 } },
    });
    const expected = stored({
      ...{ id: "1", source: "/shop", type: "t", time: "2020-01-01T00:00:00.000Z", subject: "s" },
      ...{ extensions: { zone: "EU" }, datacontenttype: "application/json", data: { order: 17 } },
    });
    for (const mode of ["binary", "structured"] as const) {
      const { headers, body } = HTTP[mode](sent);
      expect(fromHttp(headers as HttpHeaders, String(body))).toEqual(expected);
    }
  });
});
