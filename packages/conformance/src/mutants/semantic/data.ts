import type { EnqueueRow, Entry, NewEvent } from "@dovecote/core";
import { breakingOutbox } from "./breaking.ts";
import { type SemanticMutant, storing } from "./define.ts";

export const data: readonly SemanticMutant[] = [
  storedAs("bytes-stored-as-text", /bytes must come back|come back as/, (bytes) =>
    Buffer.from(bytes.toString("utf8")),
  ),
  storedAs("json-written-anew", /byte for byte/, (bytes, { dataKind }) =>
    dataKind === "json" ? Buffer.from(JSON.stringify(JSON.parse(bytes.toString("utf8")))) : bytes,
  ),
  breakingOutbox("strings-mended-in-silence", "DATA-02", /must be refused with INVALID_EVENT/, (outbox) => ({
    enqueue: (tx, event, options) => outbox.enqueue(tx, mended(event) as NewEvent, options),
  })),
  breakingOutbox("answers-share-memory", "DATA-03", /share memory|shared between/, (outbox) => {
    const found = new Map<number, Entry>();
    const remembered = (entry: Entry): Entry => {
      const known = found.get(entry.rowId) ?? entry;
      found.set(entry.rowId, known);
      return known;
    };
    return {
      async page(options) {
        const page = await outbox.page(options);
        return { ...page, entries: page.entries.map(remembered) };
      },
    };
  }),
];

function storedAs(
  name: string,
  because: RegExp,
  change: (bytes: Buffer, event: EnqueueRow["event"]) => Buffer,
): SemanticMutant {
  return {
    name,
    breaks: "DATA-01",
    because,
    wrap: (session) =>
      storing(session, (event) => ({
        ...event,
        data: event.data === null ? null : change(Buffer.from(event.data), event),
      })),
  };
}

/** Without NUL and lone surrogates, wherever they are. */
function mended(value: unknown): unknown {
  if (typeof value === "string") return value.replaceAll("\0", "").toWellFormed();
  if (Array.isArray(value)) return value.map(mended);
  if (typeof value !== "object" || value === null || Object.getPrototypeOf(value) !== Object.prototype)
    return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [mended(key), mended(member)]));
}
