import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { toBinary } from "../../src/event/binary.ts";
import { decodeEvent } from "../../src/event/decode.ts";
import type { ExtensionInput, OutboxEvent } from "../../src/event/event.ts";
import { toStructuredJson } from "../../src/event/project.ts";
import { checkTraceContext } from "../../src/event/trace-context.ts";
import { normalizeEvent } from "../../src/event/validate.ts";

const TRACE_ID = "0af7651916cd43dd8448eb211c80319c";
const PARENT_ID = "b7ad6b7169203331";
const VALID = `00-${TRACE_ID}-${PARENT_ID}-01`;

describe("checkTraceContext: traceparent", () => {
  it.each([
    ["version 00", VALID],
    ["not sampled", `00-${TRACE_ID}-${PARENT_ID}-00`],
    ["flags that are not known", `00-${TRACE_ID}-${PARENT_ID}-ff`],
    ["a version to come", `cc-${TRACE_ID}-${PARENT_ID}-01`],
    ["a version to come, with fields to come", `01-${TRACE_ID}-${PARENT_ID}-01-what-the-future-brings`],
  ])("takes %s", (_, traceparent) => {
    expect(checkTraceContext({ traceparent })).toEqual({ traceparent });
  });

  it.each<[string, unknown]>([
    ["nothing", undefined],
    ["an empty text", ""],
    ["version ff", `ff-${TRACE_ID}-${PARENT_ID}-01`],
    ["a trace id of zeros", `00-${"0".repeat(32)}-${PARENT_ID}-01`],
    ["a parent id of zeros", `00-${TRACE_ID}-${"0".repeat(16)}-01`],
    ["upper case", VALID.toUpperCase()],
    ["a short trace id", `00-${TRACE_ID.slice(1)}-${PARENT_ID}-01`],
    ["a long parent id", `00-${TRACE_ID}-${PARENT_ID}0-01`],
    ["no flags", `00-${TRACE_ID}-${PARENT_ID}`],
    ["more fields in version 00", `${VALID}-more`],
    ["more characters in a version to come", `01-${TRACE_ID}-${PARENT_ID}-01more`],
    ["a character that is no hex", `00-${TRACE_ID.replace("a", "g")}-${PARENT_ID}-01`],
    ["space around it", ` ${VALID}`],
    ["a line break behind it", `${VALID}\n`],
    ["a number", 1],
  ])("refuses %s, and the tracestate with it", (_, traceparent) => {
    expect(checkTraceContext({ traceparent, tracestate: "rojo=1" })).toBeUndefined();
  });
});

describe("checkTraceContext: tracestate", () => {
  const members = (count: number): string => Array.from({ length: count }, (_, n) => `k${n}=v`).join(",");

  it.each([
    ["one member", "rojo=00f067aa0ba902b7"],
    ["several", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"],
    ["white space and empty members", "rojo=1 ,\t, congo=2"],
    ["a key of two parts, and one that starts with a digit", "fw529a3039@dt=1,0x=2"],
    ["all characters of a key", "a_-*/@0=1"],
    ["spaces within a value", "a=  b c"],
    ["the longest key", `${"k".repeat(256)}=v`],
    ["the longest value", `k=${"v".repeat(256)}`],
    ["32 members", members(32)],
    ["512 characters", `a=${"v".repeat(250)},b=${"v".repeat(256)},`],
  ])("takes %s", (_, tracestate) => {
    expect(checkTraceContext({ traceparent: VALID, tracestate })).toEqual({ traceparent: VALID, tracestate });
  });

  it.each<[string, unknown]>([
    ["an empty text", ""],
    ["33 members", members(33)],
    ["33 members, all but one empty", `a=1${",".repeat(32)}`],
    ["513 characters", `a=${"v".repeat(251)},b=${"v".repeat(256)},`],
    ["a key that stands twice", "a=1,b=2,a=3"],
    ["an upper-case key", "Rojo=1"],
    ["no value", "a="],
    ["no key", "=1"],
    ["no equals sign", "a"],
    ["two equals signs", "a=b=c"],
    ["a long key", `${"k".repeat(257)}=v`],
    ["a long value", `k=${"v".repeat(257)}`],
    ["a value beyond ASCII", "a=ä"],
    ["a control character", "a=b\u0001c"],
    ["a number", 1],
  ])("refuses %s, and keeps the traceparent", (_, tracestate) => {
    expect(checkTraceContext({ traceparent: VALID, tracestate })).toEqual({ traceparent: VALID });
  });

  it("never answers with something that it would refuse", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), fc.string(), (traceparent, tracestate) => {
        const checked = checkTraceContext({ traceparent, tracestate });
        expect(checked && checkTraceContext(checked)).toEqual(checked);
      }),
    );
  });
});

describe("projections", () => {
  const event = (extensions: Record<string, ExtensionInput>): OutboxEvent =>
    decodeEvent(
      normalizeEvent(
        { stream: "orders", id: "1", source: "/shop", type: "t", extensions },
        { maxEventBytes: 10_000 },
      ),
    );
  const projected = (extensions: Record<string, ExtensionInput>): string[] => {
    const names = [...toBinary(event(extensions)).attributes.keys()].slice(4);
    const json = Object.keys(JSON.parse(new TextDecoder().decode(toStructuredJson(event(extensions)))));
    expect(json.slice(4)).toEqual(names);
    return names;
  };

  it("carry a valid trace context", () => {
    expect(projected({ tracestate: "a=1", traceparent: VALID, other: "x" })).toEqual([
      "other",
      "traceparent",
      "tracestate",
    ]);
  });

  it("leave out what is invalid", () => {
    expect(projected({ traceparent: VALID.toUpperCase(), tracestate: "a=1", other: "x" })).toEqual(["other"]);
    expect(projected({ traceparent: VALID, tracestate: "a=1,a=2" })).toEqual(["traceparent"]);
    expect(projected({ tracestate: "a=1" })).toEqual([]);
    expect(projected({ traceparent: new TextEncoder().encode(VALID) })).toEqual([]);
  });
});
