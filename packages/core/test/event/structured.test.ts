import { CloudEvent, HTTP } from "cloudevents";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { OutboxEvent } from "../../src/event/event.ts";
import type { InboundCaps } from "../../src/event/inbound.ts";
import { toStructuredJson } from "../../src/event/project.ts";
import { fromStructuredJson } from "../../src/event/structured.ts";
import { codeAndPath } from "./errors.ts";
import { anyEvent, stored } from "./inbound-events.ts";

const HEAD = '"specversion":"1.0","id":"1","source":"/shop","type":"order.placed"';
const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);
const read = (tail: string): OutboxEvent => fromStructuredJson(`{${HEAD}${tail}}`);
const refused = (body: string | Uint8Array, caps?: InboundCaps): object =>
  codeAndPath(() => fromStructuredJson(body, caps));

describe("fromStructuredJson: golden vectors", () => {
  it.each<[string, string, Partial<OutboxEvent>]>([
    ["no data", "", { dataKind: "absent", data: undefined, dataBytes: utf8("") }],
    ["null", ',"data":null', { dataKind: "json", data: null }],
    ["a JSON string that looks like JSON", ',"data":"[1]"', { dataKind: "json", data: "[1]" }],
    [
      "large numbers and white space within",
      ', "data" : { "n" : 12345678901234567890, "a":1.0 } ',
      { dataKind: "json", dataBytes: utf8('{ "n" : 12345678901234567890, "a":1.0 }') },
    ],
    [
      "brackets and quotes in strings",
      ',"data":["}\\"],{",{"a":"\\\\"}],"x":"y"',
      { data: ['}"],{', { a: "\\" }] },
    ],
    ["text", ',"datacontenttype":"text/plain","data":"ä\\n"', { dataKind: "text", data: "ä\n" }],
    ["empty text", ',"datacontenttype":"text/plain","data":""', { dataKind: "text", data: "" }],
    [
      "a document that is neither text nor JSON",
      ',"datacontenttype":"application/xml","data":"<ä/>"',
      { dataKind: "binary", data: utf8("<ä/>") },
    ],
    ["bytes", ',"data_base64":"AAH/"', { dataKind: "binary", data: new Uint8Array([0, 1, 255]) }],
    ["no bytes", ',"data_base64":""', { dataKind: "binary", data: new Uint8Array(0) }],
    ["data behind an absent data_base64", ',"data_base64":null,"data":1', { dataKind: "json", data: 1 }],
  ])("reads %s", (_, tail, expected) => {
    expect(read(tail)).toMatchObject({ id: "1", source: "/shop", type: "order.placed", ...expected });
  });

  it("reads attributes and extensions, and takes null for absent", () => {
    const event = read(
      ',"subject":"s","time":"2020-01-01T00:00:00Z","dataschema":"https://example.com/s","partitionkey":"k",' +
        '"yes":true,"n":-3,"t":"x","none":null,"constructor":"c"',
    );
    expect(event).toMatchObject({ subject: "s", time: "2020-01-01T00:00:00Z", partitionkey: "k" });
    expect({ ...event.extensions }).toEqual({
      constructor: { type: "string", value: "c" },
      n: { type: "integer", value: -3 },
      t: { type: "string", value: "x" },
      yes: { type: "boolean", value: true },
    });
    expect(read(',"subject":null')).not.toHaveProperty("subject");
  });

  it("reads bytes as well as text", () => {
    expect(fromStructuredJson(utf8(`{${HEAD},"subject":"ä"}`))).toEqual(read(',"subject":"ä"'));
  });
});

describe("fromStructuredJson refuses", () => {
  it.each<[string, string | Uint8Array, string]>([
    ["no JSON", "{", "body"],
    ["no object", "[]", "body"],
    ["a batch", `[{${HEAD}}]`, "body"],
    ["nothing", "", "body"],
    ["a byte order mark", `\uFEFF{${HEAD}}`, "body"],
    ["what is not UTF-8", new Uint8Array([0x7b, 0xff, 0x7d]), "body"],
    ["no specversion", '{"id":"1","source":"/","type":"t"}', "event.specversion"],
    ["no id", '{"specversion":"1.0","source":"/","type":"t"}', "event.id"],
    ["an id that is null", '{"specversion":"1.0","id":null,"source":"/","type":"t"}', "event.id"],
    ["no source", '{"specversion":"1.0","id":"1","type":"t"}', "event.source"],
    ["no type", '{"specversion":"1.0","id":"1","source":"/"}', "event.type"],
    ["an id that is a number", '{"specversion":"1.0","id":1,"source":"/","type":"t"}', "event.id"],
    ["specversion 0.3", `{${HEAD.replace("1.0", "0.3")}}`, "event.specversion"],
    ["specversion as a number", `{${HEAD.replace('"1.0"', "1.0")}}`, "event.specversion"],
    ["an attribute that stands twice", `{${HEAD},"id":"2"}`, "event.id"],
    ["one that stands twice in other letters", `{${HEAD},"\\u0069d":"2"}`, "event.id"],
    ["data that stands twice", `{${HEAD},"data":1,"data":2}`, "event.data"],
    ["__proto__", `{${HEAD},"__proto__":"x"}`, "event.extensions.__proto__"],
    ["__proto__ as an object", `{${HEAD},"__proto__":{"id":"2"}}`, "event.extensions.__proto__"],
    ["an upper-case name", `{${HEAD},"traceParent":"x"}`, "event.extensions.traceParent"],
    ["an object as extension", `{${HEAD},"x":{"type":"integer","value":1}}`, "event.extensions.x"],
    ["a fraction as extension", `{${HEAD},"x":1.5}`, "event.extensions.x"],
    ["a large number as extension", `{${HEAD},"x":2147483648}`, "event.extensions.x"],
    ["a stream of its own", `{${HEAD},"extensions":{}}`, "event.extensions.extensions"],
    ["data and data_base64", `{${HEAD},"data":null,"data_base64":""}`, "event.data"],
    ["broken base64", `{${HEAD},"data_base64":"AAH"}`, "event.data_base64"],
    ["data_base64 that is no string", `{${HEAD},"data_base64":1}`, "event.data_base64"],
    ["NUL in data", `{${HEAD},"data":{"a":"\\u0000"}}`, "event.data.a"],
    ["a lone surrogate in a subject", `{${HEAD},"subject":"\\ud800"}`, "event.subject"],
    ["a lone surrogate in XML", `{${HEAD},"datacontenttype":"a/xml","data":"\\ud800"}`, "event.data"],
    ["an object under XML", `{${HEAD},"datacontenttype":"a/xml","data":{}}`, "event.data"],
    [
      "text in another charset",
      `{${HEAD},"datacontenttype":"text/plain;charset=l1","data":"x"}`,
      "event.data",
    ],
    ["XML in another charset", `{${HEAD},"datacontenttype":"a/xml;charset=l1","data":"x"}`, "event.data"],
    ["a broken time", `{${HEAD},"time":"today"}`, "event.time"],
    [
      "deep data",
      `{${HEAD},"data":${"[".repeat(1001)}${"]".repeat(1001)}}`,
      `event.data${"[0]".repeat(32)}…`,
    ],
  ])("%s", (_, body, path) => {
    expect(refused(body)).toEqual({ code: "INVALID_EVENT", path });
    expect(Object.prototype).not.toHaveProperty("id");
  });

  it("what is larger than the cap, before it is parsed", () => {
    const body = `{${HEAD},"subject":"ä"}`;
    const { length } = utf8(body);
    expect(fromStructuredJson(body, { maxBodyBytes: length }).subject).toBe("ä");
    for (const given of [body, utf8(body), "x".repeat(length)]) {
      expect(refused(given, { maxBodyBytes: length - 1 })).toEqual({ code: "EVENT_TOO_LARGE", path: "body" });
    }
  });

  it.each<[string, unknown, unknown, string]>([
    ["another kind of body", {}, undefined, "body"],
    ["an unknown cap", "{}", { maxBytes: 1 }, "caps.maxBytes"],
    ["a cap of nothing", "{}", { maxBodyBytes: 0 }, "caps.maxBodyBytes"],
  ])("%s", (_, body, caps, path) => {
    expect(refused(body as string, caps as InboundCaps)).toEqual({ code: "INVALID_ARGUMENT", path });
  });
});

describe("fromStructuredJson and others", () => {
  it("is the inverse of toStructuredJson", () => {
    fc.assert(
      fc.property(anyEvent, (event) => {
        expect(fromStructuredJson(toStructuredJson(event))).toEqual(event);
      }),
    );
  });

  it("keeps exact JSON bytes", () => {
    const event = stored({ data: { json: utf8('{ "n": 12345678901234567890 , "a":1.0}') } });
    expect(fromStructuredJson(toStructuredJson(event)).dataBytes).toEqual(event.dataBytes);
  });

  it("reads what the SDK sends", () => {
    const sent = new CloudEvent({
      ...{ id: "1", source: "/shop", type: "t", time: "2020-01-01T00:00:00.000Z", subject: "ä" },
      ...{ urgent: true, attempt: 2, zone: "EU", data: { order: 17 }, datacontenttype: "application/json" },
    });
    const event = fromStructuredJson(String(HTTP.structured(sent).body));
    expect(event).toMatchObject({ id: "1", time: sent.time, subject: "ä", data: { order: 17 } });
    expect(event.extensions).toMatchObject({
      urgent: { value: true },
      attempt: { value: 2 },
      zone: { value: "EU" },
    });
    const bytes = new CloudEvent({ source: "/", type: "t", data: new Uint8Array([0, 200, 255]) });
    expect(fromStructuredJson(String(HTTP.structured(bytes).body)).data).toEqual(
      new Uint8Array([0, 200, 255]),
    );
  });
});
