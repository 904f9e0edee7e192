/** Which headers of an answer are recorded, and so given to whoever asks again. */
import { invalid } from "@dovecote/core";

/** What describes the answer itself. The server counts Content-Length anew. */
const RECORDED = /^(?:content-(?!length$).+|location|etag|last-modified|link|retry-after)$/;

/** What belongs to one connection, or to one caller (RFC 9110, sections 7.6.1 and 11). */
const NEVER: ReadonlySet<string> = new Set([
  "authentication-info",
  "authorization",
  "connection",
  "content-length",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authentication-info",
  "proxy-authorization",
  "proxy-connection",
  "set-cookie",
  "set-cookie2",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "www-authenticate",
]);

const NAME = /^[!#$%&'*+.^_`|~0-9a-z-]+$/;

export type HeaderList = readonly (readonly [name: string, value: string])[];

/**
 * The filter of an answer's headers, order and repetitions kept: `content-*`, `location`, `etag`, `last-modified`, `link`,
 * `retry-after`, and the ones that are named.
 *
 * @throws `INVALID_ARGUMENT` for what is no header, and for one that must not be given to another caller or connection.
 * @example
 * recordedHeaders(["x-request-cost"])([["Set-Cookie", "s=1"], ["X-Request-Cost", "3"]]); // [["X-Request-Cost", "3"]]
 */
export function recordedHeaders(additions: readonly string[]): (headers: HeaderList) => HeaderList {
  const added = new Set(additions.map((name, index) => checkName(name, `options.recordHeaders[${index}]`)));
  return (headers) =>
    headers.filter(([given]) => {
      const name = given.toLowerCase();
      return !NEVER.has(name) && (RECORDED.test(name) || added.has(name));
    });
}

function checkName(given: unknown, path: string): string {
  if (typeof given !== "string") throw invalid(path, "the name of a header", given);
  const name = given.toLowerCase();
  if (!NAME.test(name)) throw invalid(path, "the name of a header", given);
  if (NEVER.has(name)) throw invalid(path, "a header that may be given to another caller", given);
  return name;
}
