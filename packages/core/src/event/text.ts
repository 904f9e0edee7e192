/** Text by the rules of CloudEvents 1.0.2, section "Type System" (`String`), and failure texts that are always storable. */

const REPLACEMENT = "\uFFFD";

/**
 * The length of a text in UTF-8 bytes. A lone surrogate counts 3 bytes, as the U+FFFD that an encoder writes for it.
 * Counts without encoding, so that a text of megabytes costs no second copy.
 */
export function utf8Bytes(text: string): number {
  let bytes = 0;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit < 0x80) bytes += 1;
    else if (unit < 0x800) bytes += 2;
    else if (isHighSurrogate(unit) && isLowSurrogate(text.charCodeAt(i + 1))) {
      bytes += 4;
      i++;
    } else bytes += 3;
  }
  return bytes;
}

/**
 * Why a text is not a legal CloudEvents `String`, as the end of a sentence about it; `undefined` if it is legal.
 * Illegal are control characters (U+0000-001F, U+007F-009F), lone surrogates and noncharacters (DATA-02). The text
 * itself is never part of the answer.
 */
export function textFault(text: string): string | undefined {
  for (let i = 0; i < text.length; i++) {
    const code = text.codePointAt(i) ?? 0;
    if (code < 0x20 || (code >= 0x7f && code <= 0x9f)) return fault("the control character", code, i);
    if (code >= 0xd800 && code <= 0xdfff) return fault("the lone surrogate", code, i);
    // Unicode 23.7: the last two code points of each plane, and 32 more in the Arabic Presentation Forms.
    if ((code & 0xfffe) === 0xfffe || (code >= 0xfdd0 && code <= 0xfdef))
      return fault("the noncharacter", code, i);
    if (code > 0xffff) i++;
  }
  return undefined;
}

/**
 * Why a text cannot be stored as data: NUL or a lone surrogate (DATA-02). Data is freer than an attribute: line breaks
 * and other control characters are ordinary there.
 */
export function storageFault(text: string): string | undefined {
  const nul = text.indexOf("\0");
  if (nul >= 0) return fault("the control character", 0, nul);
  const lone = text.search(/\p{Surrogate}/u);
  return lone < 0 ? undefined : fault("the lone surrogate", text.charCodeAt(lone), lone);
}

/**
 * A text that every database takes: NUL and lone surrogates become U+FFFD, and it is cut at a code-point boundary to
 * at most `maxBytes` UTF-8 bytes. For texts of failures, which must never block a settlement (RELAY-06).
 */
export function safeText(text: string, maxBytes: number): string {
  // No code unit takes less than a byte: cutting first bounds the work, whatever the length. A pair that this cut
  // parts cannot survive the second cut, since at most one byte would be left for it.
  const head = text
    .slice(0, maxBytes)
    .replaceAll("\0", REPLACEMENT)
    .replace(/\p{Surrogate}/gu, REPLACEMENT);
  let bytes = 0;
  let end = 0;
  for (const character of head) {
    bytes += utf8Bytes(character);
    if (bytes > maxBytes) break;
    end += character.length;
  }
  return head.slice(0, end);
}

function fault(what: string, code: number, index: number): string {
  return `has ${what} U+${code.toString(16).toUpperCase().padStart(4, "0")} at index ${index}`;
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}

function isLowSurrogate(unit: number): boolean {
  return unit >= 0xdc00 && unit <= 0xdfff;
}
