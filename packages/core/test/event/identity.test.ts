import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { EventRecord } from "../../src/event/event.ts";
import { compareIdentity, differingFields } from "../../src/event/identity.ts";

const RECORD: EventRecord = {
  stream: "orders",
  id: "1",
  source: "/shop",
  type: "order.placed",
  subject: "s",
  time: "2020-01-01T00:00:00Z",
  datacontenttype: "application/json",
  dataschema: "a:b",
  partitionkey: "k",
  extensions: '{"x":{"type":"integer","value":1}}',
  dataKind: "json",
  data: new Uint8Array([0x31, 0x32]),
};

describe("differingFields", () => {
  it("ID-02 finds no difference between equal records of other memory", () => {
    expect(differingFields(RECORD, { ...RECORD, data: Buffer.from([0x31, 0x32]) })).toEqual([]);
    expect(differingFields({ ...RECORD, data: null }, { ...RECORD, data: null })).toEqual([]);
  });

  it.each<[string, Partial<EventRecord>]>([
    ["stream", { stream: "other" }],
    ["type", { type: "order.Placed" }],
    ["subject", { subject: null }],
    ["time", { time: "2020-01-01T00:00:00+00:00" }],
    ["datacontenttype", { datacontenttype: "application/JSON" }],
    ["dataschema", { dataschema: "a:c" }],
    ["partitionkey", { partitionkey: "K" }],
    ["extensions", { extensions: null }],
    ["data", { dataKind: "text" }],
    ["data", { data: new Uint8Array([0x31, 0x33]) }],
    ["data", { data: new Uint8Array([0x31]) }],
    ["data", { data: new Uint8Array([0x31, 0x32, 0x20]) }],
    ["data", { data: new Uint8Array(0) }],
    ["data", { data: null }],
  ])("ID-03 names %s, both ways round", (field, other) => {
    expect(differingFields(RECORD, { ...RECORD, ...other })).toEqual([field]);
    expect(differingFields({ ...RECORD, ...other }, RECORD)).toEqual([field]);
  });

  it("ID-03 names every field that differs, and never the identity itself", () => {
    const empty = { subject: null, time: null, datacontenttype: null, dataschema: null, partitionkey: null };
    const other: EventRecord = {
      ...{ stream: "o", id: "2", source: "/o", type: "o", ...empty },
      ...{ extensions: null, dataKind: "absent", data: null },
    };
    const fields = [
      "stream",
      "type",
      "subject",
      "time",
      "datacontenttype",
      "dataschema",
      "partitionkey",
      "extensions",
    ];
    expect(differingFields(RECORD, other)).toEqual([...fields, "data"]);
  });
});

describe("compareIdentity", () => {
  const identity = fc.record({
    source: fc.string({ unit: "binary", maxLength: 3 }),
    id: fc.string({ maxLength: 3 }),
  });

  it.each([
    [
      { source: "a", id: "2" },
      { source: "b", id: "1" },
    ],
    [
      { source: "a", id: "1" },
      { source: "a", id: "2" },
    ],
    [
      { source: "a", id: "10" },
      { source: "a", id: "9" },
    ],
    [
      { source: "Z", id: "1" },
      { source: "a", id: "1" },
    ],
    [
      { source: "a", id: "1" },
      { source: "a\u0301", id: "1" },
    ],
    // by code units a surrogate pair comes before U+FF5E, by code points after it
    [
      { source: "a", id: "😀" },
      { source: "a", id: "\uff5e" },
    ],
  ])("ID-06 puts %j before %j", (first, second) => {
    expect(compareIdentity(first, second)).toBeLessThan(0);
    expect(compareIdentity(second, first)).toBeGreaterThan(0);
  });

  it("ID-06 is a total order", () => {
    fc.assert(
      fc.property(identity, identity, identity, (a, b, c) => {
        expect(compareIdentity(a, b) === 0).toBe(a.source === b.source && a.id === b.id);
        expect(Math.sign(compareIdentity(a, b)) + Math.sign(compareIdentity(b, a))).toBe(0);
        const [x = a, y = a, z = a] = [a, b, c].sort(compareIdentity);
        expect(compareIdentity(x, y)).toBeLessThanOrEqual(0);
        expect(compareIdentity(y, z)).toBeLessThanOrEqual(0);
        expect(compareIdentity(x, z)).toBeLessThanOrEqual(0);
      }),
    );
  });
});
