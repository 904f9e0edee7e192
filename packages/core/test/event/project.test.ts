import { CloudEvent, HTTP } from "cloudevents";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeEvent } from "../../src/event/decode.ts";
import type { NewEvent } from "../../src/event/event.ts";
import { STRUCTURED_JSON, toStructuredJson } from "../../src/event/project.ts";
import { normalizeEvent } from "../../src/event/validate.ts";

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);
const HEAD = '"specversion":"1.0","id":"1","source":"/shop","type":"order.placed"';

function project(more: Partial<NewEvent>): string {
  const event = { stream: "orders", id: "1", source: "/shop", type: "order.placed", ...more };
  const stored = normalizeEvent(event, { maxEventBytes: 1024 * 1024 });
  return new TextDecoder("utf-8", { fatal: true }).decode(toStructuredJson(decodeEvent(stored)));
}

/** The independent reader: the SDK's parser of the structured mode, then its validation. */
function readBack(body: string): CloudEvent<unknown> {
  const received = HTTP.toEvent({ headers: { "content-type": STRUCTURED_JSON }, body });
  if (Array.isArray(received)) throw new Error("a single event was sent");
  return new CloudEvent({ ...received }, true);
}

/** The SDK's constructor with validation, on parsed JSON: its parser drops data that is falsy. */
function construct(body: string): CloudEvent<unknown> {
  return new CloudEvent(JSON.parse(body), true);
}

describe("toStructuredJson: golden vectors", () => {
  it.each<[string, Partial<NewEvent>, string]>([
    ["no data", {}, ""],
    ["JSON", { data: { b: [1, "ä"], a: null } }, ',"data":{"b":[1,"ä"],"a":null}'],
    [
      "JSON under its media type",
      { datacontenttype: "application/json", data: [1] },
      ',"datacontenttype":"application/json","data":[1]',
    ],
    ["a JSON string", { data: 'a"b' }, ',"data":"a\\"b"'],
    ["null", { data: null }, ',"data":null'],
    ["zero", { data: 0 }, ',"data":0'],
    ["false", { data: false }, ',"data":false'],
    ["an empty string", { data: "" }, ',"data":""'],
    [
      "exact JSON bytes",
      { data: { json: utf8(' { "n": 12345678901234567890 , "a":1.0}\n') } },
      ',"data": { "n": 12345678901234567890 , "a":1.0}\n',
    ],
    [
      "text",
      { datacontenttype: "text/plain", data: 'say "ä"\n\u2028😀' },
      ',"datacontenttype":"text/plain","data":"say \\"ä\\"\\n\u2028😀"',
    ],
    ["empty text", { datacontenttype: "text/plain", data: "" }, ',"datacontenttype":"text/plain","data":""'],
    ["bytes", { data: new Uint8Array([0, 1, 255]) }, ',"data_base64":"AAH/"'],
    ["no bytes", { data: new Uint8Array(0) }, ',"data_base64":""'],
    [
      "bytes under a JSON media type",
      { datacontenttype: "application/json", data: utf8("[1]") },
      ',"datacontenttype":"application/json","data_base64":"WzFd"',
    ],
  ])("ID-09 writes %s", (_, more, tail) => {
    const body = project(more);
    expect(body).toBe(`{${HEAD}${tail}}`);
    expect(construct(body)).toMatchObject({
      id: "1",
      source: "/shop",
      type: "order.placed",
      specversion: "1.0",
    });
  });

  it("ID-09 writes every attribute and extension type in a fixed order", () => {
    const body = project({
      data: { order: 17 },
      partitionkey: "key",
      dataschema: "https://example.com/schema",
      datacontenttype: "application/json",
      time: "2020-01-01T00:00:00.120+01:00",
      subject: 'order "17"',
      extensions: {
        zone: "EU",
        when: { type: "timestamp", value: "2020-01-01T00:00:00Z" },
        urgent: true,
        ref: { type: "uri-reference", value: "../a" },
        link: new URL("https://example.com/a"),
        digest: new Uint8Array([0, 255]),
        attempt: -3,
        "10": "ten",
        "9": "nine",
      },
    });
    expect(body).toBe(
      `{${HEAD},"subject":"order \\"17\\"","time":"2020-01-01T00:00:00.120+01:00",` +
        '"datacontenttype":"application/json","dataschema":"https://example.com/schema",' +
        '"10":"ten","9":"nine","attempt":-3,"digest":"AP8=","link":"https://example.com/a","partitionkey":"key",' +
        '"ref":"../a","urgent":true,"when":"2020-01-01T00:00:00Z","zone":"EU","data":{"order":17}}',
    );
    expect(readBack(body)).toMatchObject({
      id: "1",
      source: "/shop",
      type: "order.placed",
      specversion: "1.0",
      subject: 'order "17"',
      time: "2019-12-31T23:00:00.120Z",
      datacontenttype: "application/json",
      dataschema: "https://example.com/schema",
      partitionkey: "key",
      zone: "EU",
      when: "2020-01-01T00:00:00Z",
      urgent: true,
      ref: "../a",
      link: "https://example.com/a",
      digest: "AP8=",
      attempt: -3,
      "10": "ten",
      "9": "nine",
      data: { order: 17 },
    });
  });
});

describe("toStructuredJson, read back by the cloudevents package", () => {
  it.each<[string, Partial<NewEvent>, unknown]>([
    ["JSON", { data: { a: [1, { b: "ä😀" }] } }, { a: [1, { b: "ä😀" }] }],
    ["a JSON string", { data: "x" }, "x"],
    ["exact JSON bytes", { data: { json: utf8(" [1.50]\n") } }, [1.5]],
    ["text", { datacontenttype: "text/plain", data: "déjà\nvu" }, "déjà\nvu"],
  ])("ID-09 keeps %s", (_, more, data) => {
    expect(readBack(project(more)).data).toEqual(data);
  });

  it("ID-09 keeps bytes", () => {
    const received = readBack(project({ datacontenttype: "image/png", data: new Uint8Array([0, 200, 255]) }));
    expect(received.data_base64).toBe("AMj/");
    expect(Array.from(received.data as Uint32Array)).toEqual([0, 200, 255]);
  });

  it("ID-09 keeps absent, null and empty apart", () => {
    expect("data" in JSON.parse(project({}))).toBe(false);
    expect(construct(project({})).data).toBeUndefined();
    expect(construct(project({ data: null })).data).toBeNull();
    expect(construct(project({ data: "" })).data).toBe("");
    expect(construct(project({ data: 0 })).data).toBe(0);
    expect(construct(project({ data: false })).data).toBe(false);
    expect(construct(project({ data: new Uint8Array(0) })).data_base64).toBe("");
  });

  it("DATA-01 keeps any JSON value and any bytes", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.uint8Array({ minLength: 1 }), (value, bytes) => {
        expect(construct(project({ data: value })).data).toEqual(JSON.parse(JSON.stringify(value)));
        expect(construct(project({ data: bytes })).data).toEqual(bytes);
      }),
    );
  });

  it("DATA-01 keeps __proto__ as a member of the data", () => {
    const body = project({ data: JSON.parse('{"__proto__":{"a":1}}') });
    expect(body).toContain('"data":{"__proto__":{"a":1}}');
  });

  it("takes what the SDK sends and sends the same event on", () => {
    const sent = new CloudEvent({
      ...{ id: "1", source: "/shop", type: "order.placed", time: "2020-01-01T00:00:00.000Z", subject: "s" },
      ...{ urgent: true, attempt: 2, zone: "EU", data: { order: 17 }, datacontenttype: "application/json" },
    });
    const stored = normalizeEvent(sent, { maxEventBytes: 1000, stream: "orders" });
    const body = new TextDecoder().decode(toStructuredJson(decodeEvent(stored)));
    expect(JSON.parse(body)).toEqual(JSON.parse(sent.toString()));
    expect(readBack(body)).toEqual(sent);
  });
});

it("STRUCTURED_JSON is the media type that the SDK takes for the structured mode", () => {
  expect(STRUCTURED_JSON).toBe("application/cloudevents+json; charset=utf-8");
  expect(HTTP.structured(new CloudEvent({ source: "/", type: "t" })).headers["content-type"]).toBe(
    STRUCTURED_JSON,
  );
});
