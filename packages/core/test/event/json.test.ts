import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BOUNDS } from "../../src/bounds.ts";
import { DovecoteError } from "../../src/errors.ts";
import { checkParsedJson, JSON_MAX_DEPTH, serializeJson } from "../../src/event/json.ts";
import { codeAndPath, refusalOf } from "./errors.ts";

const json = (value: unknown): string => serializeJson(value, "event.data");

function nested(levels: number): unknown {
  let value: unknown = [];
  for (let i = 1; i < levels; i++) value = i % 2 === 0 ? [value] : { a: value };
  return value;
}

class Order {
  total = 1;
  #secret = 2;
  get secret(): number {
    return this.#secret;
  }
}

class Money {
  #cents = 250n;
  toJSON(key: string): unknown {
    return { key, amount: String(this.#cents) };
  }
}

class Tagged {
  total = 1;
  get [Symbol.toStringTag](): string {
    return "String";
  }
}

describe("serializeJson", () => {
  it("writes what JSON.stringify writes", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(json(value)).toBe(JSON.stringify(value));
      }),
    );
  });

  it.each<[string, unknown]>([
    ["null", null],
    ["zero", 0],
    ["minus zero", -0],
    ["false", false],
    ["an empty string", ""],
    ["exponents", [1e21, 1e-7, 5e-324, Number.MAX_VALUE]],
    ["control characters", "\n\u0001\u007f\u2028\uffff\ufeff"],
    ["members that are undefined", { a: undefined, b: 1, c: undefined }],
    ["only members that are undefined", { a: undefined }],
    ["members with a symbol as key", { [Symbol("s")]: 1, a: 2 }],
    ["members that are not enumerable", Object.defineProperty({ a: 1 }, "b", { value: 2 })],
    ["an object without a prototype", Object.assign(Object.create(null), { a: 1 })],
    ["a Date", { at: new Date(0) }],
    ["a URL", new URL("https://example.com/#x")],
    ["an object of a class", new Order()],
    ["an object with toJSON", { a: new Money(), b: [new Money()] }],
    ["toJSON that answers undefined in an object", { a: { toJSON: () => undefined }, b: 1 }],
    ["toJSON that is no function", { toJSON: 1 }],
    ["toJSON that answers an object with toJSON", { toJSON: () => ({ toJSON: 1, a: 2 }) }],
    ["a Map with toJSON", Object.assign(new Map(), { toJSON: () => [1] })],
    ["boxed primitives", [Object(1), Object("x"), Object(false), { n: new Number(2) }]],
    ["toJSON that answers a box", { toJSON: () => Object("x") }],
    ["an object that calls itself String", new Tagged()],
    ["an array with more members", Object.assign([1], { more: 2 })],
    ["an array of a subclass", new (class extends Array<number> {})(1, 2, 3)],
    ["the same object twice", ((shared) => [shared, { shared }])({ a: 1 })],
    ["a proxy", new Proxy({ a: [1] }, {})],
    ["a proxy of an array", new Proxy([1, 2], {})],
    ["integer-like names, which come first", { b: 1, 2: 2, 1: 1 }],
    ["odd names", { "": 1, "a b": 2, constructor: 3 }],
  ])("writes %s as JSON.stringify does", (_, value) => {
    expect(json(value)).toBe(JSON.stringify(value));
  });

  it("DATA-01 keeps __proto__ as an ordinary member", () => {
    const text = '{"__proto__":{"admin":true},"a":[{"__proto__":1}]}';
    expect(json(JSON.parse(text))).toBe(text);
  });

  it.each<[string, unknown, string]>([
    ["undefined in an array", { items: [1, undefined] }, ".items[1]"],
    ["a hole", { items: Object.assign(new Array(3), { 0: 1, 2: 3 }) }, ".items[1]"],
    ["toJSON that answers undefined in an array", [{ toJSON: () => undefined }], "[0]"],
    ["toJSON that answers undefined as a whole", { toJSON: () => undefined }, ""],
    ["a function", { items: [0, 1, 2, { price: () => 1 }] }, ".items[3].price"],
    ["a class", { Order }, ".Order"],
    ["a symbol", { a: Symbol("x") }, ".a"],
    ["a BigInt", { "unit price": 1n }, '["unit price"]'],
    ["a boxed BigInt", [Object(1n)], "[0]"],
    ["a boxed symbol", [Object(Symbol("x"))], "[0]"],
    ["a boxed NaN", [Object(Number.NaN)], "[0]"],
    ["NaN", { a: { b: Number.NaN } }, ".a.b"],
    ["infinity", [Number.POSITIVE_INFINITY], "[0]"],
    ["minus infinity", Number.NEGATIVE_INFINITY, ""],
    ["an invalid Date", { at: new Date(Number.NaN) }, ".at"],
    ["a Map", { a: new Map() }, ".a"],
    ["a Map with members", { a: Object.assign(new Map(), { size2: 1 }) }, ".a"],
    ["a Set", new Set([1]), ""],
    ["a WeakMap", [new WeakMap()], "[0]"],
    ["a WeakSet", [new WeakSet()], "[0]"],
    ["a WeakRef", [new WeakRef({})], "[0]"],
    ["a Promise", { later: Promise.resolve(1) }, ".later"],
    ["a RegExp", { re: /x/ }, ".re"],
    ["an Error", { error: Object.assign(new Error("x"), { code: 1 }) }, ".error"],
    ["an iterator", [[1].values()], "[0]"],
    ["a generator", [(function* () {})()], "[0]"],
    ["URLSearchParams", { query: new URLSearchParams("a=b") }, ".query"],
    ["a class without members", { empty: new (class Empty {})() }, ".empty"],
    ["an object that inherits all it has", Object.create({ a: 1 }), ""],
    ["a Buffer, although it has toJSON", { bytes: Buffer.from("x") }, ".bytes"],
    ["a Uint8Array", { bytes: new Uint8Array(1) }, ".bytes"],
    ["a Float64Array", new Float64Array(1), ""],
    ["a DataView", new DataView(new ArrayBuffer(1)), ""],
    ["an ArrayBuffer", new ArrayBuffer(1), ""],
    ["a SharedArrayBuffer", [new SharedArrayBuffer(1)], "[0]"],
    ["toJSON that answers a Map", { a: { toJSON: () => new Map() } }, ".a"],
    ["a proxy of a Map", { a: new Proxy(new Map(), {}) }, ".a"],
    ["NUL in a value", { a: ["x\0"] }, ".a[0]"],
    ["NUL in a name", { a: { "x\0": 1 } }, '.a["x\\u0000"]'],
    ["a lone surrogate in a value", "\ud83d", ""],
    ["a lone surrogate in a name", { "\udc00": 1 }, '["\\udc00"]'],
    ["NUL in a boxed string", [Object("\0")], "[0]"],
    ["NUL from toJSON", { toJSON: () => "\0" }, ""],
  ])("DATA-02 refuses %s and names its path", (_, value, below) => {
    expect(codeAndPath(() => json(value))).toEqual({ code: "INVALID_EVENT", path: `event.data${below}` });
  });

  it("refuses JSON.rawJSON, where the platform has it, instead of writing a member of that name", () => {
    const { rawJSON } = JSON as { rawJSON?: (text: string) => unknown };
    const value =
      rawJSON === undefined ? { stands: Symbol("for it") } : { stands: rawJSON("12345678901234567890") };
    expect(codeAndPath(() => json(value))).toEqual({ code: "INVALID_EVENT", path: "event.data.stands" });
  });

  it("refuses cycles, but not an object that merely occurs again", () => {
    const cycle: { list: unknown[] } = { list: [1] };
    cycle.list.push(cycle);
    expect(codeAndPath(() => json({ cycle }))).toEqual({
      code: "INVALID_EVENT",
      path: "event.data.cycle.list[1]",
    });
    const shared = [1];
    expect(json({ a: shared, b: { shared } })).toBe('{"a":[1],"b":{"shared":[1]}}');
  });

  it("DATA-01 takes exactly the documented depth, and refuses one more and a hundred thousand more", () => {
    expect(json(nested(JSON_MAX_DEPTH))).toBe(JSON.stringify(nested(JSON_MAX_DEPTH)));
    for (const levels of [JSON_MAX_DEPTH + 1, 100_000]) {
      const refusal = refusalOf(() => json(nested(levels)));
      expect(refusal).toMatchObject({
        code: "INVALID_EVENT",
        message: expect.stringContaining("1000 levels"),
      });
      expect(refusal.message.length).toBeLessThan(1000);
    }
  });

  it("refuses toJSON that goes on for ever", () => {
    const endless = (): unknown => ({ toJSON: () => ({ next: endless() }) });
    expect(refusalOf(() => json(endless())).code).toBe("INVALID_EVENT");
  });

  it.each<[string, unknown, string]>([
    ["a getter", Object.defineProperty({}, "bad", { enumerable: true, get: boom }), ".bad"],
    ["toJSON", { a: { toJSON: boom } }, ".a"],
    ["a getter of toJSON", { a: Object.defineProperty({}, "toJSON", { get: boom }) }, ".a"],
    ["a trap that lists members", [new Proxy({}, { ownKeys: boom })], "[0]"],
    ["a trap that reads", [new Proxy({ a: 1 }, { get: boom })], "[0]"],
    ["a trap for the prototype", [new Proxy({}, { getPrototypeOf: boom })], "[0]"],
  ])("refuses %s that throws and keeps the cause", (what, value, below) => {
    const refusal = refusalOf(() => json(value));
    expect(refusal).toMatchObject({ code: "INVALID_EVENT", path: `event.data${below}` });
    // A trap for the prototype is only asked to classify: it makes the object one of an unknown class.
    if (what !== "a trap for the prototype") expect(refusal).toMatchObject({ cause: { message: "boom" } });
  });

  it("does not let an error of a getter pass for its own, even a DovecoteError", () => {
    const value = {
      get a(): never {
        throw new DovecoteError("CLOSED", "elsewhere");
      },
    };
    expect(codeAndPath(() => json(value))).toEqual({ code: "INVALID_EVENT", path: "event.data.a" });
  });

  it("DATA-02 reads each member once, so that a second answer cannot pass unchecked", () => {
    const reads = new Map<string | symbol, number>();
    const value = new Proxy(
      { a: "good", list: ["good"] },
      {
        get(target, key, receiver) {
          const count = (reads.get(key) ?? 0) + 1;
          reads.set(key, count);
          return count === 1 ? Reflect.get(target, key, receiver) : "\0";
        },
      },
    );
    expect(json(value)).toBe('{"a":"good","list":["good"]}');
    expect(reads.get("a")).toBe(1);
    expect(reads.get("list")).toBe(1);
  });

  it("never shows data in a message", () => {
    for (const value of [
      { a: "secret\0" },
      { a: ["secret\ud800"] },
      { a: () => "secret" },
      [Symbol("secret")],
    ]) {
      expect(refusalOf(() => json(value)).message).not.toContain("secret");
    }
  });

  it("ends an array without an end as too large", () => {
    const long = "x".repeat(1024 * 1024);
    const endless = new Proxy([], {
      get: (_, key) => (key === "length" ? 2 ** 32 - 1 : key === "toJSON" ? 0 : long),
    });
    const refusal = refusalOf(() => json(endless));
    expect(refusal.code).toBe("EVENT_TOO_LARGE");
    expect(refusal.message).toContain(String(BOUNDS.maxEventBytes.max));
  });

  it("cuts long member names in paths", () => {
    const refusal = refusalOf(() => json({ ["k".repeat(1_000_000)]: 1n }));
    expect(refusal.path?.length).toBeLessThan(100);
  });
});

describe("checkParsedJson", () => {
  it("accepts whatever JSON.parse makes of legal strings", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(() => checkParsedJson(value, "event.data")).not.toThrow();
      }),
    );
    expect(() => checkParsedJson(nested(JSON_MAX_DEPTH), "event.data")).not.toThrow();
    expect(() => checkParsedJson(JSON.parse('{"__proto__":[1e999,"\\n"]}'), "event.data")).not.toThrow();
  });

  it.each([
    ['["a","\\u0000"]', "[1]"],
    ['{"a":{"b":"\\ud800"}}', ".a.b"],
    ['{"a":{"\\u0000":1}}', '.a["\\u0000"]'],
    ['"\\udc00"', ""],
  ])("DATA-02 refuses %s", (text, below) => {
    const check = (): void => checkParsedJson(JSON.parse(text), "event.data");
    expect(codeAndPath(check)).toEqual({ code: "INVALID_EVENT", path: `event.data${below}` });
  });

  it("refuses one level too deep", () => {
    const refusal = refusalOf(() => checkParsedJson(nested(JSON_MAX_DEPTH + 1), "event.data"));
    expect(refusal.code).toBe("INVALID_EVENT");
  });
});

function boom(): never {
  throw new Error("boom");
}
