import { decodeData } from "./data.ts";
import type { EventRecord, OutboxEvent } from "./event.ts";
import { decodeExtensions } from "./extensions.ts";

type Optional = "subject" | "time" | "datacontenttype" | "dataschema" | "partitionkey";

const OPTIONAL: readonly Optional[] = ["subject", "time", "datacontenttype", "dataschema", "partitionkey"];

/**
 * Turns a stored record into what a reader gets, at once and completely, so that a broken record is found here and not
 * in a handler (CLAIM-15). Everything mutable in the event is a copy (DATA-03); `data` and `dataBytes` share no memory.
 *
 * @throws Error with a short reason, without any of the stored content, if the record cannot be decoded.
 */
export function decodeEvent(record: EventRecord): OutboxEvent {
  const data = decodeData(record.dataKind, record.data);
  const optional: { [name in Optional]?: string } = {};
  for (const name of OPTIONAL) {
    const value = record[name];
    if (value !== null) optional[name] = value;
  }
  return {
    specversion: "1.0",
    id: record.id,
    source: record.source,
    type: record.type,
    ...optional,
    extensions: decodeExtensions(record.extensions),
    dataKind: record.dataKind,
    data,
    dataBytes: new Uint8Array(record.data ?? []),
  };
}
