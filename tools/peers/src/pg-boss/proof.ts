/**
 * What stands for a job of pg-boss, and what proves that it was fetched. A job has a uuid in a queue; whoever settles it
 * may say which attempt of it they mean, by `{ id, retryCount }`.
 */
import { createHash } from "node:crypto";
import type { EventRecord } from "@dovecote/core";
import type { JobAttempt } from "pg-boss";

/** The queues of a space: pg-boss's form of a stream. */
export const QUEUES: readonly string[] = ["orders", "invoices", "race"];

const MARK = "pgb:";

/**
 * A uuid of the caller's own is how pg-boss tells one job from another. It is made of the identity, so that an event
 * which is enqueued again has the uuid that it had, and holds the 44 bits that stand for the row id.
 */
export function rowIdOf(tenant: string, { source, id, stream }: EventRecord): number {
  const digest = createHash("sha256")
    .update(JSON.stringify([tenant, source, id]))
    .digest();
  return (digest.readUIntBE(0, 6) % 2 ** 44) * 4 + QUEUES.indexOf(stream);
}

export function uuidOf(rowId: number): string {
  return `00000000-0000-8000-8000-${rowId.toString(16).padStart(12, "0")}`;
}

export function rowIdIn(uuid: string): number {
  return Number.parseInt(uuid.slice(-12), 16);
}

export function queueOf(rowId: number): string {
  return QUEUES[rowId % 4] ?? "orders";
}

/** The token says what pg-boss gives out: which job it was, and which attempt of it. */
export function tokenOf(rowId: number, retryCount: number): Uint8Array {
  const token = Buffer.alloc(16);
  token.write(MARK);
  token.writeUIntBE(rowId, 4, 6);
  token.writeUInt32BE(retryCount, 12);
  return new Uint8Array(token);
}

/**
 * What is handed to `complete`, `fail`, `touch` and `cancel`: the id of the row that is asked about, and the number of the
 * attempt that the token stands for. Undefined for what pg-boss never gave out: its one number is in the proof twice.
 */
export function attemptOf(proof: {
  readonly rowId: number;
  readonly attempt: number;
  readonly token: Uint8Array;
}): JobAttempt | undefined {
  const token = Buffer.from(proof.token);
  if (!token.subarray(0, MARK.length).equals(Buffer.from(MARK))) return undefined;
  const retryCount = token.readUInt32BE(12);
  if (proof.attempt !== retryCount + 1) return undefined;
  return { id: uuidOf(proof.rowId), retryCount };
}
