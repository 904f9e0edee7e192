import type { EventRecord } from "./event.ts";

const COMPARED = [
  ...([
    "stream",
    "type",
    "subject",
    "time",
    "datacontenttype",
    "dataschema",
    "partitionkey",
    "extensions",
  ] as const),
];

/**
 * Which fields make two records of the same identity different events, by their public names; empty if they are the
 * same event (ID-02, ID-03). Texts are compared as given, so `Z` and `+00:00` differ, and data by its exact bytes and
 * kind: the same JSON in another member order is other data.
 */
export function differingFields(given: EventRecord, stored: EventRecord): readonly string[] {
  const fields: string[] = COMPARED.filter((field) => given[field] !== stored[field]);
  if (given.dataKind !== stored.dataKind || !sameBytes(given.data, stored.data)) fields.push("data");
  return fields;
}

/**
 * A total order of identities: by source, then by id, in UTF-16 code units. Batches insert in this order, so that two
 * of them never wait for each other in a circle (ID-06).
 */
export function compareIdentity(
  a: Pick<EventRecord, "source" | "id">,
  b: Pick<EventRecord, "source" | "id">,
): number {
  return compareText(a.source, b.source) || compareText(a.id, b.id);
}

function compareText(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

function sameBytes(a: Uint8Array | null, b: Uint8Array | null): boolean {
  if (a === null || b === null) return a === b;
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}
