/** An event as the payload of a job, which both libraries keep as JSON. */

import type { ProbedEvent } from "@dovecote/conformance";
import type { EventRecord } from "@dovecote/core";

export interface Payload {
  readonly tenant: string;
  /** With `data` in base64. */
  readonly event: Omit<EventRecord, "data"> & { readonly data: string | null };
}

export function toPayload(tenant: string, event: EventRecord): Payload {
  const data = event.data === null ? null : Buffer.from(event.data).toString("base64");
  return { tenant, event: { ...event, data } };
}

export function toEvent({ event }: Payload): EventRecord {
  return { ...event, data: event.data === null ? null : new Uint8Array(Buffer.from(event.data, "base64")) };
}

export function toProbed(rowId: number, payload: Payload, enqueuedAt: number): ProbedEvent {
  const { data, ...event } = payload.event;
  const hex = data === null ? null : Buffer.from(data, "base64").toString("hex");
  return { rowId, tenant: payload.tenant, ...event, data: hex, enqueuedAt };
}
