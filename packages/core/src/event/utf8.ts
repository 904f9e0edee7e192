/** UTF-8, strictly: what cannot be encoded or decoded without loss is an error, never U+FFFD. */

const encoder = new TextEncoder();
// `ignoreBOM: true` means that a byte order mark is kept as U+FEFF: stored text must come back exactly (ID-09).
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The UTF-8 bytes of a text that is known to be well-formed. */
export function encodeUtf8(text: string): Uint8Array {
  return encoder.encode(text);
}

/** The text of UTF-8 bytes, or `undefined` if they are not well-formed. A byte order mark stays in the text. */
export function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}
