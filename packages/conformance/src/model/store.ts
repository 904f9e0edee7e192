/** The real store beside the model: handles of its tenants, and the look behind the driver's back. */
import assert from "node:assert/strict";
import type { AdminHandle, TenantHandle } from "@dovecote/core";
import type { Peer } from "../case.ts";
import type { ProbedDelivery } from "../define-harness.ts";
import { type Model, type ModelRow, type Stream, type Tenant, type Via, visibleRows } from "./state.ts";

export const FAR_MS: number = 30 * 24 * 3600 * 1000;
const DAY_US = 24 * 3600 * 1_000_000;

/** One run has tenants and streams of its own, so that runs share a space and nothing else. */
export class Store {
  readonly #peer: Peer;
  readonly #run: string;

  constructor(peer: Peer, run: string) {
    this.#peer = peer;
    this.#run = run;
  }

  get session(): Peer["session"] {
    return this.#peer.session;
  }

  tenant(tenant: Tenant): TenantHandle<unknown, boolean> {
    return this.#peer.outbox.tenant(this.tenantId(tenant));
  }

  via(via: Via): TenantHandle<unknown, boolean> | AdminHandle<unknown, boolean> {
    return via === "admin" ? this.#peer.outbox.admin() : this.tenant(via);
  }

  tenantId(tenant: Tenant): string {
    return `${this.#run}-${tenant}`;
  }

  stream(stream: Stream): string {
    return `${this.#run}-${stream}`;
  }

  /** The deliveries of the run. */
  async deliveries(): Promise<ReadonlyMap<number, ProbedDelivery>> {
    const tenants = [this.tenantId("a"), this.tenantId("b")];
    const all = await this.session.probe.deliveries();
    return new Map(all.filter(({ tenant }) => tenants.includes(tenant)).map((row) => [row.rowId, row]));
  }

  /** Row ids in the order of a time that the model does not know, ties by row id. */
  async inOrderOf(
    time: "availableAt" | "expiresAt" | "quarantinedAt",
    rows: readonly ModelRow[],
  ): Promise<readonly ModelRow[]> {
    const stored = await this.deliveries();
    const at = ({ rowId }: ModelRow): number => stored.get(rowId)?.[time] ?? 0;
    return rows.toSorted((a, b) => at(a) - at(b) || a.rowId - b.rowId);
  }
}

/** Asserts that the store is as the model has it. */
export async function agree(model: Model, store: Store, after: string): Promise<void> {
  const now = await store.session.probe.now();
  const stored = [...(await store.deliveries()).values()].map((row) => ({
    rowId: row.rowId,
    tenant: row.tenant,
    state: row.state,
    // Only a pending row has an availability that counts.
    scheduled: row.state === "pending" && row.availableAt > now + DAY_US,
    attempt: row.attempts,
    forgiven: row.forgiven,
    token: row.token,
    worker: row.worker,
    shared: row.shared,
    expired: row.expiresAt !== null && row.expiresAt <= now,
    failureCode: row.failureCode,
    reason: row.quarantineReason,
  }));
  const expected = visibleRows(model, "admin").map((row) => ({
    rowId: row.rowId,
    tenant: store.tenantId(row.tenant),
    state: row.state,
    scheduled: row.state === "pending" && row.scheduled,
    attempt: row.attempt,
    forgiven: row.forgiven,
    token: row.claim?.token ?? null,
    worker: row.claim?.worker ?? null,
    shared: row.claim?.shared ?? null,
    expired: row.expired,
    failureCode: row.failureCode,
    reason: row.reason,
  }));
  assert.deepEqual(stored, expected, `after ${after} the store must be as the model has it`);
}
