/** A job of pg-boss in the words of the contract. */
import type { DeliveryState, StoredRow } from "@dovecote/core";
import type { JobWithMetadata } from "pg-boss";
import { type Payload, toEvent } from "../stored-event.ts";

const STATES: Readonly<Record<string, DeliveryState>> = {
  created: "pending",
  retry: "pending",
  active: "claimed",
  completed: "delivered",
  cancelled: "quarantined",
  failed: "quarantined",
};

export function stateOf(state: string): DeliveryState {
  const known = STATES[state];
  if (known === undefined) throw new Error(`pg-boss has a state ${state} that this harness does not know`);
  return known;
}

const micros = (time: Date): number => time.getTime() * 1000;

export function storedRow(job: JobWithMetadata<Payload>, rowId: number): StoredRow {
  const state = stateOf(job.state);
  const ended = job.completedOn === null ? null : micros(job.completedOn);
  const heartbeat = job.heartbeatOn === null ? 0 : micros(job.heartbeatOn);
  return {
    rowId,
    tenant: job.data.tenant,
    enqueuedAt: micros(job.createdOn),
    event: toEvent(job.data),
    delivery: {
      state,
      availableAt: micros(job.startAfter),
      attempt: job.startedOn === null ? 0 : job.retryCount + 1,
      forgiven: 0,
      worker: null,
      shared: state === "claimed" ? false : null,
      expiresAt: state === "claimed" ? heartbeat + (job.heartbeatSeconds ?? 0) * 1_000_000 : null,
      lastFailure: null,
      deliveredAt: state === "delivered" ? ended : null,
      quarantinedAt: state === "quarantined" ? ended : null,
      quarantineReason: null,
    },
  };
}
