/** What the mutants of any driver are made of. */
import { setImmediate as turn } from "node:timers/promises";
import type { Capabilities, ClaimProof, EnqueueOutcome, EnqueueRow } from "@dovecote/core";
import type { Outbox } from "../../case.ts";
import type { AnyDriver, Mutant, ProbedDelivery, Session } from "../../define-harness.ts";
import { override } from "../../override.ts";

/** Breaks one promise whatever the database: in the driver, or in the portable API where that is who keeps it. */
export interface SemanticMutant extends Mutant {
  /** Breaks nothing on drivers without these capabilities. Default: broken on every driver. */
  readonly on?: Partial<Capabilities>;
  /** The driver of the session, broken. */
  wrap?(session: Session): AnyDriver;
  /** The portable API over the driver, broken. */
  wrapOutbox?(outbox: Outbox, session: Session): Outbox;
}

const DAY_US = 24 * 3600 * 1_000_000;

/** The proof with the token that is stored right now: as if the token were not compared. */
export async function withCurrentToken<T extends ClaimProof>(session: Session, proof: T): Promise<T> {
  const row = await deliveryOf(session, proof.rowId);
  return row?.token ? { ...proof, token: Buffer.from(row.token, "hex") } : proof;
}

/** Extends expired leases behind the driver's back: as if the expiry were not compared. */
export async function revive(session: Session, items: readonly { readonly rowId: number }[]): Promise<void> {
  const now = await session.probe.now();
  for (const { rowId } of items) {
    const row = await deliveryOf(session, rowId);
    if (row?.state === "claimed" && row.expiresAt !== null && row.expiresAt <= now) {
      await session.faults.overwriteDelivery(rowId, { expiresAt: now + DAY_US });
    }
  }
}

export async function deliveryOf(session: Session, rowId: number): Promise<ProbedDelivery | undefined> {
  return (await session.probe.deliveries()).find((delivery) => delivery.rowId === rowId);
}

/** A driver that answers an enqueue with other outcomes than what it did, on synchronous and asynchronous ones alike. */
export function answering(
  { driver }: Session,
  change: (outcome: EnqueueOutcome, row: EnqueueRow, tenant: string) => EnqueueOutcome,
): AnyDriver {
  return override(driver, {
    enqueue(tx, tenant, rows) {
      const changed = (outcomes: readonly EnqueueOutcome[]): readonly EnqueueOutcome[] =>
        outcomes.map((outcome, index) => {
          const row = rows[index];
          return row === undefined ? outcome : change(outcome, row, tenant);
        });
      const answer = driver.enqueue(tx, tenant, rows);
      return answer instanceof Promise ? answer.then(changed) : changed(answer);
    },
  });
}

/** A driver that stores something else than what it was given. */
export function storing(
  { driver }: Session,
  change: (event: EnqueueRow["event"]) => EnqueueRow["event"],
): AnyDriver {
  return override(driver, {
    enqueue: (tx, tenant, rows) =>
      driver.enqueue(
        tx,
        tenant,
        rows.map(({ event, delayMs }) => ({ event: change(event), delayMs })),
      ),
  });
}

/** A driver that keeps identities in the memory of its process, whatever became of the rows. */
export function remembering(session: Session): AnyDriver {
  const remembered = new Map<string, number>();
  return answering(session, (outcome, { event }, tenant) => {
    const identity = JSON.stringify([tenant, event.source, event.id]);
    const rowId = remembered.get(identity);
    if (outcome.outcome !== "enqueued") return outcome;
    if (rowId !== undefined) return { outcome: "alreadyEnqueued", rowId };
    remembered.set(identity, outcome.rowId);
    return outcome;
  });
}

const MEANWHILE_US = 3000;

/** What a busy worker lets pass between a check and a write that no longer checks: others come in between. */
export async function meanwhile({ probe }: Session): Promise<void> {
  const until = (await probe.now()) + MEANWHILE_US;
  while ((await probe.now()) < until) await turn();
}

export function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}
