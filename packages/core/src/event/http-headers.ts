/** Values of headers by the CloudEvents HTTP protocol binding 1.0.2, section 3.1.3.2. */

/** Printable ASCII without space, double quote and percent stays; `encodeURIComponent` escapes all of the rest. */
const TO_ENCODE = /[^\u0021-\u007e]|["%]/gu;
const NOT_PRINTABLE = /[^\u0020-\u007e\t]/;
const STRAY_PERCENT = /%(?![0-9A-Fa-f]{2})/;
/** RFC 7230 section 3.2.6, as the whole of a value. */
const QUOTED = /^"((?:[^"\\]|\\.)*)"$/;

/** The text of an attribute as the value of a header. */
export function encodeHeaderValue(text: string): string {
  return text.replace(TO_ENCODE, encodeURIComponent);
}

/**
 * The text of an attribute from the value of a header: unquoted, then percent-decoded once. What need not have been
 * encoded is accepted.
 *
 * @returns the text, or why there is none, as the end of a sentence.
 */
export function decodeHeaderValue(value: string): { readonly text: string } | { readonly fault: string } {
  if (NOT_PRINTABLE.test(value)) return { fault: "must be printable ASCII, the rest percent-encoded" };
  const quoted = QUOTED.exec(value)?.[1];
  const unquoted = quoted === undefined ? value : quoted.replace(/\\(.)/g, "$1");
  if (STRAY_PERCENT.test(unquoted)) return { fault: "has a percent sign that is not percent-encoded" };
  try {
    return { text: decodeURIComponent(unquoted) };
  } catch {
    return { fault: "is percent-encoded from something that is not UTF-8" };
  }
}
