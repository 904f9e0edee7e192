import { describe, expect, it } from "vitest";
import { isJsonMediaType, isTextMediaType, parseMediaType } from "../../src/event/media-type.ts";

describe("parseMediaType", () => {
  it.each<[string, string, string, Record<string, string>]>([
    ["application/json", "application", "json", {}],
    ["Text/HTML", "text", "html", {}],
    ["application/vnd.a+b.c-d_e+JSON", "application", "vnd.a+b.c-d_e+json", {}],
    ["*/*", "*", "*", {}],
    ["!#$%&'*+-.^_`|~/a", "!#$%&'*+-.^_`|~", "a", {}],
    ["text/plain;charset=UTF-8", "text", "plain", { charset: "UTF-8" }],
    ["text/plain ;\t Charset=utf-8 ; a=b", "text", "plain", { charset: "utf-8", a: "b" }],
    ['text/plain; charset="utf-8"', "text", "plain", { charset: "utf-8" }],
    ['a/b; c=" x;y=\\"\\\\ "', "a", "b", { c: ' x;y="\\ ' }],
    ['a/b; c=""', "a", "b", { c: "" }],
    ["a/b;", "a", "b", {}],
    ["a/b;;c=d;", "a", "b", { c: "d" }],
    ["a/b; ", "a", "b", {}],
    ["a/b; __proto__=c", "a", "b", { ["__proto__"]: "c" }],
  ])("parses %j", (text, type, subtype, parameters) => {
    const parsed = parseMediaType(text);
    expect(parsed).toEqual({ type, subtype, parameters: new Map(Object.entries(parameters)) });
  });

  it.each([
    "",
    "json",
    "/json",
    "application/",
    "application//json",
    "application/json/x",
    " application/json",
    "application/json ",
    "application /json",
    "application/json,text/plain",
    "a/b; c",
    "a/b; c=",
    "a/b; =d",
    "a/b; c =d",
    "a/b; c= d",
    "a/b c=d",
    'a/b; c="d',
    'a/b; c="d\\"',
    'a/b; c="d"e',
    'a/b; c=d"e"',
    "a/b; c=ä",
    'a/b; c="ä"',
    'a/b; c="\n"',
    "a/b; c=d; C=e",
    "a/(b)",
    "ä/b",
    "a/b\n",
  ])("refuses %j", (text) => {
    expect(parseMediaType(text)).toBeUndefined();
  });

  it("comes to an end on a megabyte of every kind of piece", () => {
    for (const piece of [" ", ";", "; ", "\\", '\\"', "a", ';a="', "; a=b"]) {
      const many = piece.repeat(1_000_000 / piece.length);
      expect(parseMediaType(`a/b${many}"`)).toBeUndefined();
      expect(parseMediaType(`a/b; c="${many}`)).toBeUndefined();
    }
  });
});

describe("what a media type declares", () => {
  it.each<[string, "json" | "text" | "neither"]>([
    ["application/json", "json"],
    ["APPLICATION/JSON; charset=utf-8", "json"],
    ["application/cloudevents+json", "json"],
    ["image/x+JSON", "json"],
    ["text/json", "json"],
    ["text/x+json", "json"],
    ["text/plain", "text"],
    ["Text/XML; charset=latin1", "text"],
    ["text/jsonx", "text"],
    ["application/xml", "neither"],
    ["application/jsonp", "neither"],
    ["application/x-json", "neither"],
    ["application/json-seq", "neither"],
    ["application/json+xml", "neither"],
    ["json", "neither"],
    ["text/", "neither"],
    ["application/json garbage", "neither"],
  ])("%s is %s", (text, declared) => {
    expect({ json: isJsonMediaType(text), text: isTextMediaType(text) }).toEqual({
      json: declared === "json",
      text: declared === "text",
    });
  });
});
