/** What of a request's target names its resource, and what of it belongs to the request. */

/** RFC 3986, section 2.3: these mean the same with and without percent-encoding. */
const UNRESERVED = /[A-Za-z0-9._~-]/;
const ENCODED = /%([0-9A-Fa-f]{2})/g;
/** What a path may not hold as it is, but clients send: everything beyond RFC 3986's `pchar` and `/`. */
const ILLEGAL = /[^A-Za-z0-9._~!$&'()*+,;=:@/%-]|%(?![0-9A-Fa-f]{2})/gu;

export interface Target {
  /** As it was asked for, with its mount prefix: no case folding, no dot segments resolved, a trailing slash counts. */
  readonly path: string;
  /** Name and value, decoded to a character per byte, sorted by name; values of one name in the order in which they were sent. */
  readonly parameters: readonly (readonly [name: string, value: string])[];
}

/**
 * Takes an origin-form target (`/books?title=x`) or an absolute one apart.
 *
 * @example
 * toTarget("/b%6Foks/%2f?b=1&a=2"); // { path: "/books/%2F", parameters: [["a", "2"], ["b", "1"]] }
 */
export function toTarget(target: string): Target {
  const origin = target.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, "").replace(/#.*$/s, "");
  const mark = origin.indexOf("?");
  const path = mark < 0 ? origin : origin.slice(0, mark);
  return {
    path: normalPath(path === "" ? "/" : path),
    parameters: sortedParameters(mark < 0 ? "" : origin.slice(mark + 1)),
  };
}

/** Percent-encoding in its one normal form (RFC 3986, section 6.2.2): once, so that `%2561` stays `%2561`. */
function normalPath(path: string): string {
  return path
    .toWellFormed()
    .replace(ILLEGAL, encodeURIComponent)
    .replace(ENCODED, (sequence, hex: string) => {
      const character = String.fromCharCode(Number.parseInt(hex, 16));
      return UNRESERVED.test(character) ? character : sequence.toUpperCase();
    });
}

function sortedParameters(query: string): Target["parameters"] {
  const parameters = query
    .split("&")
    .filter((part) => part !== "")
    .map((part): readonly [string, string] => {
      const mark = part.indexOf("=");
      return mark < 0 ? [decoded(part), ""] : [decoded(part.slice(0, mark)), decoded(part.slice(mark + 1))];
    });
  // By code units, not by a locale; the sort is stable.
  return parameters.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
}

/** A character per byte: bytes that are no UTF-8 differ from each other, too. */
function decoded(text: string): string {
  return Buffer.from(text.toWellFormed().replaceAll("+", " "))
    .toString("latin1")
    .replace(ENCODED, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}
