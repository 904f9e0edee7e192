/** What may stand between the brackets of a URI's host (RFC 3986 section 3.2.2). */

const DEC_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
const IPV4 = new RegExp(`^${DEC_OCTET}(?:\\.${DEC_OCTET}){3}$`);
const H16 = /^[0-9A-Fa-f]{1,4}$/;
const IPV_FUTURE = /^[Vv][0-9A-Fa-f]+\.[A-Za-z0-9\-._~!$&'()*+,;=:]+$/;

/** The longest IPv6 address: six groups and a dotted IPv4 address. */
const IPV6_MAX_CHARS = 45;

/** Whether a text is an IPv6address or an IPvFuture. Zone ids (RFC 6874) are no part of RFC 3986. */
export function isIpLiteral(text: string): boolean {
  return IPV_FUTURE.test(text) || isIpv6(text);
}

function isIpv6(text: string): boolean {
  if (text.length > IPV6_MAX_CHARS) return false;
  const [head = "", tail, ...more] = text.split("::");
  if (more.length > 0) return false;
  if (tail === undefined) return groups(head, true) === 8;
  // "::" stands for one group or more. NaN, from a malformed part, is not <= 7 either.
  return groups(head, false) + groups(tail, true) <= 7;
}

/** How many 16-bit groups a part of an address fills, NaN if it is malformed. */
function groups(part: string, mayEndInIpv4: boolean): number {
  if (part === "") return 0;
  let count = 0;
  const pieces = part.split(":");
  for (const [i, piece] of pieces.entries()) {
    if (H16.test(piece)) count += 1;
    else if (mayEndInIpv4 && i === pieces.length - 1 && IPV4.test(piece)) count += 2;
    else return Number.NaN;
  }
  return count;
}
