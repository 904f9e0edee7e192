import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isAbsoluteUri, isUriReference } from "../../src/event/uri.ts";

/** Absolute URIs by RFC 3986 section 4.3. */
const ABSOLUTE = [
  // the examples of section 1.1.2, without their fragments
  "ftp://ftp.is.co.za/rfc/rfc1808.txt",
  "http://www.ietf.org/rfc/rfc2396.txt",
  "ldap://[2001:db8::7]/c=GB?objectClass?one",
  "mailto:John.Doe@example.com",
  "news:comp.infosystems.www.servers.unix",
  "tel:+1-816-555-1212",
  "telnet://192.0.2.16:80/",
  "urn:oasis:names:specification:docbook:dtd:xml:4.1.2",
  // the corners of the grammar
  "a:",
  "a+-.1:",
  "A:b",
  "http:",
  "http://",
  "http://?",
  "http:///",
  "http://:",
  "http://:80",
  "http://h:",
  "http://@",
  "http://u:p:q@h:8080",
  "http://%41%2f@h%20h/%7e",
  "http://h//a//",
  "http://h/;=,:@&!$'()*+",
  "http://h/?a=/?:@&b=%F0",
  "http://999.999.999.999",
  "http://[::]",
  "http://[::1]:1",
  "http://[1:2:3:4:5:6:7:8]",
  "http://[1:2:3:4:5:6:1.2.3.4]",
  "http://[::ffff:255.255.255.255]",
  "http://[1::]",
  "http://[1:2:3:4:5:6:7::]",
  "http://[::2:3:4:5:6:7:8]",
  "http://[fe80::abcd:EF01]",
  "http://[v1.a:b~]",
  "http://[VF0.!]",
  "file:/a//b",
  "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66",
];

/** References that are not absolute URIs: relative ones, and those with a fragment. */
const RELATIVE = [
  "",
  "/",
  "//",
  "//h",
  "//h:1/p",
  "/a//b",
  ".",
  "..",
  "./a:b",
  "a/b:c",
  "?a:b",
  "?",
  "#",
  "#a:b/?",
  "1-555-123-4567",
  "/cloudevents/spec/pull/123",
  "@;,",
  "%41",
  "http://h/#",
  "urn:x#y",
  "http://h?a#b%20?/",
];

const NEITHER = [
  " ",
  "a b",
  " /a",
  "/a ",
  "/a\n",
  "\\",
  "http:\\\\h",
  "/a|b",
  "/a^b",
  "/a`b",
  "/{a}",
  "/<a>",
  '/"',
  "/a[1]",
  "/?a[1]",
  "/ä",
  "/😀",
  "/\u0000",
  "/\u007f",
  "/\u0080",
  "%",
  "%4",
  "%4g",
  "%%41",
  "/a%2",
  "#a#b",
  "##",
  "#a b",
  "#%",
  ":",
  ":a",
  "1a:b",
  "-a:b",
  "a_b:c",
  "a%41:b",
  "1-555:1",
  "ä:b",
  "http://h:8a",
  "http://h:-1",
  "http://h:80:80",
  "http://a@b@c",
  "http://a[b",
  "http://[",
  "http://[]",
  "http://[::1",
  "http://::1]",
  "http://[::1]x",
  "http://[::1]x:1",
  "http://u[@h",
  "http://[:::]",
  "http://[::1::]",
  "http://[1:2:3:4:5:6:7]",
  "http://[1:2:3:4:5:6:7:8:9]",
  "http://[1:2:3:4:5:6:7:8::]",
  "http://[::1:2:3:4:5:6:7:8]",
  "http://[1::2:3:4:5:6:7:8]",
  "http://[12345::]",
  "http://[g::]",
  "http://[:1]",
  "http://[1:]",
  "http://[1.2.3.4::]",
  "http://[::1.2.3.4:5]",
  "http://[::1.2.3]",
  "http://[::1.2.3.256]",
  "http://[::01.2.3.4]",
  "http://[1:2:3:4:5:6:7:1.2.3.4]",
  "http://[1.2.3.4]",
  "http://[fe80::1%25eth0]",
  "http://[v.a]",
  "http://[v1.]",
  "http://[v1a]",
  "http://[v1.ab",
  "http://[v1.a]b",
  "http://[v1.a/b]",
  "http://[vg.a]",
  "//[",
  "//h h",
];

describe("isUriReference", () => {
  it.each([...ABSOLUTE, ...RELATIVE])("accepts %j", (text) => {
    expect(isUriReference(text)).toBe(true);
  });

  it.each(NEITHER)("refuses %j", (text) => {
    expect(isUriReference(text)).toBe(false);
  });

  it("accepts what the platform's URL parser has written for an http URL with plain components", () => {
    fc.assert(
      fc.property(fc.webUrl({ withFragments: true, withQueryParameters: true }), (url) => {
        expect(isUriReference(url)).toBe(true);
      }),
    );
  });

  it("accepts any text once it is percent-encoded, in every component", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), (text) => {
        const encoded = encodeURIComponent(text);
        expect(isAbsoluteUri(`s://${encoded}@${encoded}:1/${encoded}?${encoded}`)).toBe(true);
        expect(isUriReference(`//h/${encoded}#${encoded}`)).toBe(true);
      }),
    );
  });

  it("never throws, and an absolute URI is always a URI-reference", () => {
    const pieces = fc.constantFrom(
      "http",
      "//",
      "[",
      "]",
      ":",
      "::",
      "@",
      "%41",
      "%",
      "#",
      "?",
      "/",
      "1",
      "ä",
      "v1.",
      " ",
    );
    const text = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.array(pieces).map((all) => all.join("")),
    );
    fc.assert(
      fc.property(text, (candidate) => {
        if (isAbsoluteUri(candidate)) expect(isUriReference(candidate)).toBe(true);
        else expect(isUriReference(candidate)).toBeTypeOf("boolean");
      }),
    );
  });

  it.each([":", "/", "@", "%41", "a", "[", "[::", "?", "#", "//", "::", "1.", "%", "v1."])(
    "comes to an end on a megabyte of %j",
    (piece) => {
      for (const prefix of ["", "a:", "//", "a://[", "a://[v1.", "a://h:", "a:?", "#"]) {
        const text = prefix + piece.repeat(1_000_000 / piece.length);
        expect(isUriReference(`${text}\\`)).toBe(false);
        expect(typeof isAbsoluteUri(text)).toBe("boolean");
      }
      // Quadratic would be a quarter of an hour: the test would never end.
    },
  );
});

describe("isAbsoluteUri", () => {
  it.each(ABSOLUTE)("accepts %j", (text) => {
    expect(isAbsoluteUri(text)).toBe(true);
  });

  it.each([...RELATIVE, ...NEITHER])("refuses %j", (text) => {
    expect(isAbsoluteUri(text)).toBe(false);
  });

  it.each(ABSOLUTE)("refuses %j with a fragment, of which RFC 3986 section 4.3 has none", (text) => {
    expect(isAbsoluteUri(`${text}#fragment`)).toBe(false);
    expect(isUriReference(`${text}#fragment`)).toBe(true);
  });
});
