/** Base64 by RFC 4648 section 4: the standard alphabet, padded. */

// A multiple of 3, so that only the last chunk is padded; small enough for one `apply`.
const CHUNK_BYTES = 24_576;

/** The base64 text of bytes. */
export function encodeBase64(bytes: Uint8Array): string {
  let text = "";
  for (let start = 0; start < bytes.length; start += CHUNK_BYTES) {
    const chunk = bytes.subarray(start, start + CHUNK_BYTES);
    text += btoa(Reflect.apply(String.fromCharCode, undefined, chunk));
  }
  return text;
}

/**
 * The bytes of a base64 text, or `undefined` if it is not exactly what {@link encodeBase64} writes: `atob` overlooks
 * white space, missing padding and stray bits, two texts for the same bytes would be two events (ID-03).
 */
export function decodeBase64(text: string): Uint8Array | undefined {
  let binary: string;
  try {
    binary = atob(text);
  } catch {
    return undefined;
  }
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return encodeBase64(bytes) === text ? bytes : undefined;
}
