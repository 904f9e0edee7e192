import { describe, expect, it } from "vitest";
import { toTarget } from "../src/target.ts";

describe("the path of a target", () => {
  it.each([
    ["/", "/"],
    ["", "/"],
    ["/books", "/books"],
    ["/books/", "/books/"],
    ["/Books", "/Books"],
    ["//books", "//books"],
    ["/a/../b", "/a/../b"],
    ["/books?x=1", "/books"],
    ["/books?", "/books"],
    ["/books?a?b", "/books"],
    ["http://example.com/books?x", "/books"],
    ["HTTPS://example.com", "/"],
    ["http://example.com?x", "/"],
    ["/a:b@c/http://d", "/a:b@c/http://d"],
  ])("%s is %s: as it was asked for", (target, path) => {
    expect(toTarget(target).path).toBe(path);
  });

  it.each([
    ["/b%6fok%73", "/books"],
    ["/%7Euser", "/~user"],
    ["/%2f", "/%2F"],
    ["/%c3%a9", "/%C3%A9"],
    ["/é", "/%C3%A9"],
    ["/a b", "/a%20b"],
    ["/100%", "/100%25"],
    ["/\ud800", "/%EF%BF%BD"],
  ])("%s is %s: percent-encoding has one form", (target, path) => {
    expect(toTarget(target).path).toBe(path);
  });

  it("is decoded once", () => {
    expect(toTarget("/%2561").path).toBe("/%2561");
    expect(toTarget("/%2561").path).not.toBe(toTarget("/%61").path);
  });

  it("keeps what is encoded apart from what is not", () => {
    expect(toTarget("/a%2Fb").path).not.toBe(toTarget("/a/b").path);
    expect(toTarget("/a%3Fb").path).toBe("/a%3Fb");
  });
});

describe("the parameters of a target", () => {
  const parameters = (target: string) => toTarget(target).parameters;

  it("are the same in another order", () => {
    expect(parameters("/?b=1&a=2")).toEqual(parameters("/?a=2&b=1"));
  });

  it("are no others, whatever bytes they are of", () => {
    const queries = [
      "a=1",
      "?a=1",
      "a=%FF",
      "a=%FE",
      "a=%EF%BF%BD",
      "a=%25FF",
      "a=%C3%A9",
      "a",
      "a=+",
      "a=%2B",
    ];
    const seen = new Set(queries.map((query) => JSON.stringify(parameters(`/?${query}`))));
    expect(seen.size).toBe(queries.length);
    expect(parameters("/?a=é")).toEqual(parameters("/?a=%c3%a9"));
    expect(parameters("/?&a&&")).toEqual([["a", ""]]);
  });

  it("keep duplicates, and their order", () => {
    expect(parameters("/?a=2&b=0&a=1")).toEqual([
      ["a", "2"],
      ["a", "1"],
      ["b", "0"],
    ]);
  });

  it.each([
    ["/?a=&a=b", "/?a=b"],
    ["/?a=%26b%3D1", "/?a=&b=1"],
    ["/?a=1%26a=2", "/?a=1&a=2"],
    ["/?a=1,2", "/?a=1&a=2"],
    ["/?a=x", "/?A=x"],
  ])("%s is not %s", (one, other) => {
    expect(parameters(one)).not.toEqual(parameters(other));
  });

  it("are the same in another encoding", () => {
    expect(parameters("/?n%61me=a+b")).toEqual(parameters("/?name=a%20b"));
  });
});
