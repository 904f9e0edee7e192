/** The headers that an application adds to its requests. */
import { DovecoteError, invalid } from "@dovecote/core";

/** RFC 9110 section 5.6.2. */
const NAME = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/;
/** Printable ASCII with spaces and tabs within: what every server takes. */
const VALUE = /^[!-~](?:[\t -~]*[!-~])?$/;

/** What says who the event is, and what HTTP itself needs. */
const RESERVED: ReadonlySet<string> = new Set([
  ...[
    "content-type",
    "content-length",
    "content-encoding",
    "transfer-encoding",
    "host",
    "connection",
    "keep-alive",
  ],
  ...["te", "trailer", "upgrade", "expect", "dovecote-fence"],
]);
const RESERVED_PREFIX = /^(?:ce-|webhook-)/;

/**
 * Headers by their names in lower case. No message shows a value.
 *
 * @throws `INVALID_ARGUMENT`
 */
export function checkHeaders(given: unknown, path: string): ReadonlyMap<string, string> {
  if (typeof given !== "object" || given === null || Symbol.iterator in given)
    throw invalid(path, "an object of names and values", given);
  const headers = new Map<string, string>();
  for (const [member, value] of Object.entries(given)) {
    if (value === undefined) continue;
    const at = `${path}[${JSON.stringify(member)}]`;
    const name = member.toLowerCase();
    const fault = nameFault(name) ?? (headers.has(name) ? "is there twice" : valueFault(value));
    if (fault !== undefined) throw new DovecoteError("INVALID_ARGUMENT", `${at} ${fault}`, { path: at });
    headers.set(name, value as string);
  }
  return headers;
}

function nameFault(name: string): string | undefined {
  if (!NAME.test(name)) return "is not the name of a header";
  return RESERVED.has(name) || RESERVED_PREFIX.test(name)
    ? "cannot be set: the transport sets it"
    : undefined;
}

function valueFault(value: unknown): string | undefined {
  if (typeof value !== "string") return `must be a string, got a ${typeof value}`;
  return VALUE.test(value) ? undefined : "must be printable ASCII, and not empty";
}
