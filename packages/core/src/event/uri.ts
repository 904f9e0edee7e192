/**
 * URI syntax by RFC 3986, checked in one pass without backtracking. `URL` of the platform is no help: it repairs what
 * it reads (spaces, backslashes) and knows no relative references.
 */

import { isIpLiteral } from "./ip-literal.ts";

const UNRESERVED_AND_SUB_DELIMS =
  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,;=";

const REG_NAME = charset("");
const USERINFO = charset(":");
const PATH = charset(":@/");
const QUERY = charset(":@/?");

const SCHEME = /^[A-Za-z][A-Za-z0-9+.-]*$/;
const PORT = /^[0-9]*$/;

/**
 * Whether a text is a URI-reference (RFC 3986 section 4.1): a URI or a relative reference, the empty one included.
 * CloudEvents requires `source` to be one that is not empty.
 */
export function isUriReference(text: string): boolean {
  const hash = text.indexOf("#");
  if (hash >= 0 && !consistsOf(QUERY, text.slice(hash + 1))) return false;
  const rest = hash < 0 ? text : text.slice(0, hash);
  const scheme = schemeOf(rest);
  if (scheme === undefined) return isHierPart(rest);
  return SCHEME.test(scheme) && isHierPart(rest.slice(scheme.length + 1));
}

/**
 * Whether a text is an absolute URI (RFC 3986 section 4.3). CloudEvents defines its type `URI`, that of `dataschema`,
 * by exactly this section: a scheme is required and a fragment is *not* allowed.
 */
export function isAbsoluteUri(text: string): boolean {
  return !text.includes("#") && schemeOf(text) !== undefined && isUriReference(text);
}

/**
 * What stands before the first colon, if nothing hierarchical comes earlier. It has to be a scheme: the first segment
 * of a relative reference cannot hold a colon (section 4.2, path-noscheme).
 */
function schemeOf(text: string): string | undefined {
  const end = text.search(/[:/?]/);
  return end >= 0 && text[end] === ":" ? text.slice(0, end) : undefined;
}

/** hier-part or relative-part, with its query. */
function isHierPart(text: string): boolean {
  const mark = text.indexOf("?");
  if (mark >= 0 && !consistsOf(QUERY, text.slice(mark + 1))) return false;
  const rest = mark < 0 ? text : text.slice(0, mark);
  if (!rest.startsWith("//")) return consistsOf(PATH, rest);
  const slash = rest.indexOf("/", 2);
  const end = slash < 0 ? rest.length : slash;
  return isAuthority(rest.slice(2, end)) && consistsOf(PATH, rest.slice(end));
}

/** Section 3.2: `[ userinfo "@" ] host [ ":" port ]`. */
function isAuthority(text: string): boolean {
  const at = text.indexOf("@");
  if (at >= 0 && !consistsOf(USERINFO, text.slice(0, at))) return false;
  const hostPort = text.slice(at + 1);
  // Only an IP literal holds colons that do not start the port.
  const literalEnd = hostPort.startsWith("[") ? hostPort.indexOf("]") + 1 : 0;
  const colon = hostPort.indexOf(":", literalEnd);
  const host = colon < 0 ? hostPort : hostPort.slice(0, colon);
  if (colon >= 0 && !PORT.test(hostPort.slice(colon + 1))) return false;
  return host.startsWith("[")
    ? host.endsWith("]") && isIpLiteral(host.slice(1, -1))
    : consistsOf(REG_NAME, host);
}

/** Whether every character is in the set, or part of a percent-encoded octet (section 2.1). */
function consistsOf(set: Uint8Array, text: string): boolean {
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (set[unit] === 1) continue;
    if (unit !== 0x25 || !isHexDigit(text.charCodeAt(i + 1)) || !isHexDigit(text.charCodeAt(i + 2)))
      return false;
    i += 2;
  }
  return true;
}

function isHexDigit(unit: number): boolean {
  return (unit >= 0x30 && unit <= 0x39) || (unit >= 0x41 && unit <= 0x46) || (unit >= 0x61 && unit <= 0x66);
}

function charset(more: string): Uint8Array {
  const set = new Uint8Array(128);
  for (const character of UNRESERVED_AND_SUB_DELIMS + more) set[character.charCodeAt(0)] = 1;
  return set;
}
