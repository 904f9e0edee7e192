/** Media types by RFC 2046, in the token grammar of RFC 9110 section 8.3.1; `datacontenttype` is one. */

const TOKEN = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]+";
const QUOTED = '"((?:[\\t !#-\\[\\]-~]|\\\\[\\t -~])*)"';
const ESSENCE = new RegExp(`^(${TOKEN})/(${TOKEN})`);
const PARAMETER = `[ \\t]*;[ \\t]*(?:(${TOKEN})=(?:(${TOKEN})|${QUOTED}))?`;

/** A parsed media type: type, subtype and parameter names in lower case, parameter values as given, unquoted. */
export interface MediaType {
  readonly type: string;
  readonly subtype: string;
  readonly parameters: ReadonlyMap<string, string>;
}

/**
 * Parses a media type such as `text/plain; charset="utf-8"`; `undefined` if it is malformed, not ASCII, or names a
 * parameter twice (RFC 6838 section 4.3). An empty parameter (`text/plain;`) is legal by RFC 9110.
 */
export function parseMediaType(text: string): MediaType | undefined {
  const essence = ESSENCE.exec(text);
  if (essence === null) return undefined;
  const [whole, type = "", subtype = ""] = essence;
  const parameters = new Map<string, string>();
  const next = new RegExp(PARAMETER, "y");
  next.lastIndex = whole.length;
  while (next.lastIndex < text.length) {
    const match = next.exec(text);
    if (match === null) return undefined;
    const [, name, token, quoted = ""] = match;
    if (name === undefined) continue;
    const key = name.toLowerCase();
    if (parameters.has(key)) return undefined;
    parameters.set(key, token ?? quoted.replace(/\\(.)/g, "$1"));
  }
  return { type: type.toLowerCase(), subtype: subtype.toLowerCase(), parameters };
}

/**
 * Whether a media type declares JSON: its subtype is `json` or ends in `+json` (CloudEvents JSON format 1.0.2, section
 * 3.1.1). By that rule `text/json` is JSON too.
 */
export function isJsonMediaType(text: string): boolean {
  const subtype = parseMediaType(text)?.subtype;
  return subtype !== undefined && (subtype === "json" || subtype.endsWith("+json"));
}

/** Whether a media type declares text: `text/*`, except what declares JSON. */
export function isTextMediaType(text: string): boolean {
  return parseMediaType(text)?.type === "text" && !isJsonMediaType(text);
}
