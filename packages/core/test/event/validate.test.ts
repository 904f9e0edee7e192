import { describe, expect, it } from "vitest";
import { BOUNDS } from "../../src/bounds.ts";
import type { NewEvent } from "../../src/event/event.ts";
import { eventBytes, normalizeEvent } from "../../src/event/validate.ts";
import { codeAndPath, refusalOf } from "./errors.ts";

const OPTIONS = { maxEventBytes: BOUNDS.eventBytes };
const MINIMAL = { stream: "orders", source: "/shop", type: "order.placed" };
const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);
const normalize = (more: object): ReturnType<typeof normalizeEvent> =>
  normalizeEvent({ ...MINIMAL, id: "1", ...more }, OPTIONS);

describe("normalizeEvent", () => {
  it("stores the minimal event and fills in nothing but an id", () => {
    const record = normalizeEvent(MINIMAL, OPTIONS);
    expect(record).toEqual({
      ...MINIMAL,
      id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-7/),
      subject: null,
      time: null,
      datacontenttype: null,
      dataschema: null,
      partitionkey: null,
      extensions: null,
      dataKind: "absent",
      data: null,
    });
    expect(normalizeEvent(MINIMAL, OPTIONS).id).not.toBe(record.id);
  });

  it("stores every attribute as it was given", () => {
    const event: NewEvent = {
      ...MINIMAL,
      id: "é 1",
      specversion: "1.0",
      subject: "sub/😀",
      time: "2020-01-01t00:00:00.000000001+01:00",
      datacontenttype: "Application/JSON ; charset=utf-8",
      dataschema: "https://example.com/schema?v=1",
      partitionkey: "key",
      extensions: { b: 1, a: "x" },
      data: { z: 1, a: [null] },
    };
    expect(normalizeEvent(event, OPTIONS)).toEqual({
      ...MINIMAL,
      id: "é 1",
      subject: "sub/😀",
      time: "2020-01-01t00:00:00.000000001+01:00",
      datacontenttype: "Application/JSON ; charset=utf-8",
      dataschema: "https://example.com/schema?v=1",
      partitionkey: "key",
      extensions: '{"a":{"type":"string","value":"x"},"b":{"type":"integer","value":1}}',
      dataKind: "json",
      data: utf8('{"z":1,"a":[null]}'),
    });
  });

  it("ID-03 treats attributes that are undefined as absent", () => {
    const names = [
      "specversion",
      "subject",
      "time",
      "datacontenttype",
      "dataschema",
      "partitionkey",
      "extensions",
    ];
    const undefinedOnes = Object.fromEntries([...names, "data"].map((name) => [name, undefined]));
    expect(normalize(undefinedOnes)).toEqual(normalize({}));
    expect(normalizeEvent({ ...MINIMAL, id: undefined }, OPTIONS).id).toHaveLength(36);
  });

  it("takes a Date as time", () => {
    expect(normalize({ time: new Date(0) }).time).toBe("1970-01-01T00:00:00.000Z");
  });

  it("DATA-03 shares nothing with what it was given", () => {
    const bytes = new Uint8Array([1]);
    const extensions = { x: "a" };
    const record = normalize({ data: bytes, extensions });
    bytes[0] = 9;
    extensions.x = "b";
    expect(record.data).toEqual(new Uint8Array([1]));
    expect(record.extensions).toContain('"a"');
  });

  it.each(["source", "type", "stream"])("requires %s", (name) => {
    for (const event of [{ ...MINIMAL, [name]: undefined }, omit(MINIMAL, name)]) {
      const refusal = refusalOf(() => normalizeEvent(event, OPTIONS));
      expect(refusal).toMatchObject({
        code: "INVALID_EVENT",
        path: `event.${name}`,
        message: `event.${name} is required`,
      });
    }
  });

  it.each<[string, unknown]>(
    [
      "id",
      "source",
      "type",
      "subject",
      "partitionkey",
      "dataschema",
      "datacontenttype",
      "time",
      "stream",
    ].flatMap((name) =>
      ["", null, 1, true, 1n, Symbol("x"), {}, ["a"], new String("a"), () => "a"].map(
        (value): [string, unknown] => [name, value],
      ),
    ),
  )("refuses %s of a wrong type or empty: %s", (name, value) => {
    expect(codeAndPath(() => normalize({ [name]: value }))).toEqual({
      code: "INVALID_EVENT",
      path: `event.${name}`,
    });
  });

  it.each([
    ["specversion", null],
    ["specversion", ""],
    ["specversion", "0.3"],
    ["specversion", "1.0.2"],
    ["specversion", 1],
    ["extensions", null],
    ["extensions", []],
    ["source", "a b"],
    ["source", "/ä"],
    ["source", "http://[::1"],
    ["dataschema", "/relative"],
    ["dataschema", "schema.json"],
    ["dataschema", "https://example.com/#fragment"],
    ["datacontenttype", "json"],
    ["datacontenttype", "application/json\n"],
    ["time", "2020-01-01"],
    ["time", new Date(Number.NaN)],
    ["time", 0],
  ])("refuses %s: %j", (name, value) => {
    expect(codeAndPath(() => normalize({ [name]: value }))).toEqual({
      code: "INVALID_EVENT",
      path: `event.${name}`,
    });
  });

  it("says how to leave an attribute out", () => {
    expect(refusalOf(() => normalize({ subject: null })).message).toMatch(/received null; leave out/);
  });

  it.each(["id", "type", "subject", "partitionkey"])(
    "DATA-02 refuses NUL, controls and lone surrogates in %s",
    (name) => {
      for (const text of ["\0", "a\nb", "\u0085", "\ud800", "\uffff"]) {
        expect(codeAndPath(() => normalize({ [name]: text }))).toEqual({
          code: "INVALID_EVENT",
          path: `event.${name}`,
        });
      }
    },
  );

  const uri = (bytes: number): string => `a:${"b".repeat(bytes - 2)}`;
  const wide = (bytes: number): string => "é".repeat(bytes / 2) + "x".repeat(bytes % 2);
  it.each<[string, number, (bytes: number) => string]>([
    ["id", BOUNDS.idBytes, wide],
    ["type", BOUNDS.typeBytes, wide],
    ["subject", BOUNDS.subjectBytes, wide],
    ["partitionkey", BOUNDS.partitionkeyBytes, wide],
    ["dataschema", BOUNDS.dataschemaBytes, uri],
    ["datacontenttype", BOUNDS.datacontenttypeBytes, (bytes) => `a/${"b".repeat(bytes - 2)}`],
    ["stream", BOUNDS.streamBytes, (bytes) => "s".repeat(bytes)],
  ])("takes %s of %i bytes and refuses one more", (name, max, text) => {
    expect(normalize({ [name]: text(max) })).toMatchObject({ [name]: text(max) });
    const refusal = refusalOf(() => normalize({ [name]: text(max + 1) }));
    expect(refusal).toMatchObject({ code: "INVALID_EVENT", path: `event.${name}` });
    if (name !== "stream") expect(refusal.message).toContain(`${max + 1} bytes`);
  });

  it("ID-07 takes an identity of 2,048 bytes and refuses one more", () => {
    const id = wide(BOUNDS.idBytes);
    const rest = BOUNDS.identityBytes - BOUNDS.idBytes;
    expect(normalize({ id, source: uri(rest) }).id).toBe(id);
    const refusal = refusalOf(() => normalize({ id, source: uri(rest + 1) }));
    expect(refusal).toMatchObject({ code: "INVALID_EVENT", path: "event.id" });
    expect(refusal.message).toMatch(/2049.*2048/);
    expect(normalize({ id: "1", source: uri(2047) }).source).toBe(uri(2047));
    expect(codeAndPath(() => normalize({ id: "1", source: uri(2048) })).path).toBe("event.id");
    expect(codeAndPath(() => normalize({ id: "1", source: uri(2049) })).path).toBe("event.source");
  });

  it("counts attributes, extensions and data, and refuses one byte more with both figures", () => {
    const event = {
      ...MINIMAL,
      id: "é",
      subject: "s",
      time: "2020-01-01T00:00:00Z",
      datacontenttype: "text/plain",
      dataschema: "a:b",
      partitionkey: "k",
      extensions: { x: "é" },
      data: "déjà",
    };
    const extensions = '{"x":{"type":"string","value":"é"}}';
    const counted = [
      "é",
      event.source,
      event.type,
      "s",
      event.time,
      "text/plain",
      "a:b",
      "k",
      extensions,
      "déjà",
    ];
    const size = utf8(counted.join("")).length;
    expect(eventBytes(normalizeEvent(event, { maxEventBytes: size }))).toBe(size);
    const refusal = refusalOf(() => normalizeEvent(event, { maxEventBytes: size - 1 }));
    expect(refusal).toMatchObject({ code: "EVENT_TOO_LARGE", path: "event" });
    expect(refusal.message).toMatch(new RegExp(`is ${size} bytes .* limit is ${size - 1} bytes`));
  });

  it("takes an event of 65,536 bytes by default and refuses one more", () => {
    const attributes = eventBytes(normalize({}));
    const data = new Uint8Array(65_536 - attributes);
    expect(eventBytes(normalize({ data }))).toBe(65_536);
    expect(codeAndPath(() => normalize({ data: new Uint8Array(data.length + 1) }))).toEqual({
      code: "EVENT_TOO_LARGE",
      path: "event",
    });
  });

  it.each(["subjct", "Source", "tenant", "data_base64", "constructor", "0", "traceparent"])(
    "refuses the unknown member %s, even if it is undefined, and says where extensions go",
    (name) => {
      for (const value of ["x", undefined]) {
        const refusal = refusalOf(() => normalize({ [name]: value }));
        expect(refusal).toMatchObject({ code: "INVALID_EVENT", path: expect.stringContaining(name) });
        expect(refusal.message).toContain("`extensions`");
      }
    },
  );

  it("refuses __proto__ as a member and takes nothing from a prototype", () => {
    expect(codeAndPath(() => normalizeEvent(JSON.parse('{"__proto__":{"source":"/x"}}'), OPTIONS)).path).toBe(
      "event.__proto__",
    );
    expect(codeAndPath(() => normalizeEvent(Object.create(MINIMAL), OPTIONS)).path).toBe("event.stream");
  });

  it.each([[undefined], [null], ["x"], [1], [[]], [[MINIMAL]], [() => MINIMAL]])(
    "refuses %s as an event",
    (input) => {
      expect(codeAndPath(() => normalizeEvent(input, OPTIONS))).toEqual({
        code: "INVALID_EVENT",
        path: "event",
      });
    },
  );

  it("overlooks members that are not enumerable or have a symbol as name", () => {
    const event = Object.defineProperty({ ...MINIMAL, id: "1", [Symbol("x")]: 1 }, "hidden", { value: 1 });
    expect(normalizeEvent(event, OPTIONS)).toEqual(normalize({}));
  });

  it("takes an object of a class by its own members", () => {
    class Placed {
      stream = "orders";
      source = "/shop";
      type = "order.placed";
      id = "1";
    }
    expect(normalizeEvent(new Placed(), OPTIONS)).toEqual(normalize({}));
  });

  it("reads every member exactly once", () => {
    const event = {
      ...MINIMAL,
      id: "1",
      specversion: "1.0",
      subject: "s",
      time: "2020-01-01T00:00:00Z",
      datacontenttype: "application/json",
      dataschema: "a:b",
      partitionkey: "k",
      extensions: { x: 1 },
      data: { a: 1 },
    };
    const reads: (string | symbol)[] = [];
    const input = new Proxy(event, {
      get(target, key, receiver) {
        reads.push(key);
        return Reflect.get(target, key, receiver);
      },
    });
    expect(normalizeEvent(input, OPTIONS)).toEqual(normalizeEvent(event, OPTIONS));
    expect(reads.toSorted()).toEqual(Object.keys(event).toSorted());
  });

  it("names the member whose getter throws, and survives hostile proxies", () => {
    const bad = Object.defineProperty({ ...MINIMAL }, "subject", { enumerable: true, get: boom });
    expect(refusalOf(() => normalizeEvent(bad, OPTIONS))).toMatchObject({
      code: "INVALID_EVENT",
      path: "event.subject",
      cause: { message: "boom" },
    });
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    for (const hostile of [
      proxy,
      new Proxy({}, { ownKeys: boom }),
      new Proxy({}, { getPrototypeOf: boom }),
    ]) {
      expect(refusalOf(() => normalizeEvent(hostile, OPTIONS)).code).toBe("INVALID_EVENT");
    }
    for (const name of ["id", "time", "extensions", "stream", "data"]) {
      expect(codeAndPath(() => normalize({ [name]: proxy }))).toEqual({
        code: "INVALID_EVENT",
        path: `event.${name}`,
      });
    }
  });

  it("puts the path of a batch before every message", () => {
    const options = { ...OPTIONS, path: "events[3]" };
    const at = (more: object): string | undefined =>
      codeAndPath(() => normalizeEvent({ ...MINIMAL, ...more }, options)).path;
    expect(at({ source: "" })).toBe("events[3].source");
    expect(at({ subjct: "" })).toBe("events[3].subjct");
    expect(at({ extensions: { ratio: 1.5 } })).toBe("events[3].extensions.ratio");
    expect(at({ data: { items: [1, Number.NaN] } })).toBe("events[3].data.items[1]");
    expect(at({ data: new Uint8Array(70_000) })).toBe("events[3]");
  });

  it("takes the stream from the options, but not twice", () => {
    const streamless = omit(MINIMAL, "stream");
    expect(normalizeEvent(streamless, { ...OPTIONS, stream: "other" }).stream).toBe("other");
    expect(normalizeEvent(MINIMAL, { ...OPTIONS, stream: undefined }).stream).toBe("orders");
    for (const stream of ["other", "orders"]) {
      expect(codeAndPath(() => normalizeEvent(MINIMAL, { ...OPTIONS, stream }))).toEqual({
        code: "INVALID_ARGUMENT",
        path: "options.stream",
      });
    }
    expect(codeAndPath(() => normalizeEvent(streamless, { ...OPTIONS, stream: "a b" }))).toEqual({
      code: "INVALID_ARGUMENT",
      path: "options.stream",
    });
  });

  it("never shows content in a message", () => {
    const secret = "https://user:secret@example.com/ x";
    for (const more of [
      { source: secret },
      { dataschema: secret },
      { subject: `${secret}\n` },
      { id: `${secret}\0` },
    ]) {
      expect(refusalOf(() => normalize(more)).message).not.toContain("secret");
    }
  });
});

function omit(source: Readonly<Record<string, unknown>>, name: string): object {
  return Object.fromEntries(Object.entries(source).filter(([key]) => key !== name));
}

function boom(): never {
  throw new Error("boom");
}
