/** The members of a JSON object with their values as they are written, so that a large number comes through unchanged. */

/**
 * Members in the order of the text, each value as its own text without white space around it; `undefined` if the text is
 * not one JSON object. A name that stands twice is in the list twice: `JSON.parse` would silently take the last.
 */
export function jsonMembers(text: string): readonly (readonly [string, string])[] | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  } catch {
    return undefined;
  }
  // From here on the text is known to be an object: only where members end has to be found.
  const members: [string, string][] = [];
  let at = text.indexOf("{") + 1;
  for (;;) {
    const opening = text.indexOf('"', at);
    // Between members there are only commas and white space: a string that starts behind the end is not ours.
    if (opening < 0) return members;
    const closing = stringEnd(text, opening);
    const colon = text.indexOf(":", closing);
    const end = valueEnd(text, colon + 1);
    members.push([JSON.parse(text.slice(opening, closing)), text.slice(colon + 1, end).trim()]);
    at = end;
  }
}

/** Behind the closing quote of the string that opens here. */
function stringEnd(text: string, opening: number): number {
  const escapeOrQuote = /\\.|"/gs;
  escapeOrQuote.lastIndex = opening + 1;
  while (escapeOrQuote.exec(text)?.[0] !== '"');
  return escapeOrQuote.lastIndex;
}

/** The comma or bracket behind the value that starts here. */
function valueEnd(text: string, start: number): number {
  const mark = /["{}[\],]/g;
  mark.lastIndex = start;
  let depth = 0;
  for (;;) {
    const match = mark.exec(text);
    if (match === null) return text.length;
    const [character] = match;
    if (character === '"') mark.lastIndex = stringEnd(text, match.index);
    else if (character === "{" || character === "[") depth += 1;
    else if (depth === 0) return match.index;
    else if (character !== ",") depth -= 1;
  }
}
