/** The Idempotency-Key header (draft-ietf-httpapi-idempotency-key-header-07, section 2.1): an RFC 9651 Item that is a String. */
import { BOUNDS } from "@dovecote/core";
import { parseItem } from "structured-headers";

export type KeyHeader =
  | { readonly outcome: "key"; readonly key: string }
  | { readonly outcome: "missing" }
  /** For people. It never quotes the header, which may be somebody's key. */
  | { readonly outcome: "malformed"; readonly reason: string };

/** What can be sent without quotes: visible ASCII, without what would give the value a structure. */
const BARE = /^[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]+$/;
/** What RFC 9110 allows around a field value, and nothing else: `trim` would take other spaces for it. */
const SURROUNDING = /^[ \t]+|[ \t]+$/g;

/**
 * Reads the key from the values of a request's `Idempotency-Key` lines. Unless `strict`, a key may also come without its
 * quotes, as most clients send it: `8e03978e` and `"8e03978e"` are one key. Parameters are ignored, as RFC 9651 has it.
 *
 * @example
 * readKeyHeader(['"8e03978e"'], { strict: false }); // { outcome: "key", key: "8e03978e" }
 */
export function readKeyHeader(lines: readonly string[], { strict }: { readonly strict: boolean }): KeyHeader {
  const [line, ...others] = lines;
  if (line === undefined) return { outcome: "missing" };
  if (others.length > 0) return malformed("it is there more than once");
  const value = line.replace(SURROUNDING, "");
  if (value === "") return malformed("it is empty");
  const key = !strict && !value.startsWith('"') ? bareKey(value) : quotedKey(value);
  if (key === undefined) {
    return malformed(
      strict
        ? "it is not one quoted string of printable ASCII"
        : "it is neither one quoted string of printable ASCII nor one word of it",
    );
  }
  if (key === "") return malformed("the key is empty");
  // Of ASCII, a character is a byte.
  const { idempotencyKeyBytes: max } = BOUNDS;
  if (key.length > max) return malformed(`the key is longer than ${max} bytes`);
  return { outcome: "key", key };
}

function malformed(reason: string): KeyHeader {
  return { outcome: "malformed", reason };
}

function bareKey(value: string): string | undefined {
  return BARE.test(value) ? value : undefined;
}

function quotedKey(value: string): string | undefined {
  try {
    const [item] = parseItem(value);
    return typeof item === "string" ? item : undefined;
  } catch {
    return undefined;
  }
}
