/** Idempotency keys and the inbox. What a record is worth is decided in core; every write proves it again (KEY-07). */
import {
  type Answer,
  type BeginKey,
  type BeginKeyOutcome,
  type BeginStep,
  beginStep,
  type InboxMark,
  type KeyAddress,
  type KeyOutcome,
  type KeyProof,
  type KeyRecord,
  type KeyTimes,
  type RenewKeyOutcome,
  recordState,
  type StoredKey,
  sweepAt,
} from "@dovecote/core";
import type { Connection } from "./connection.ts";
import { tenantsWith } from "./tenants.ts";

const MICROS_PER_MS = 1000;

/** A row of the table, as SQLite answers it. */
interface Row {
  readonly tenant: string;
  readonly scope: Buffer;
  readonly key: Buffer;
  readonly algorithm: string;
  readonly fingerprint: Buffer;
  readonly takeover: "rerun" | "refuse";
  readonly attempts: number;
  readonly token: Buffer | null;
  readonly expiresAt: number | null;
  readonly acquiredAt: number;
  readonly retentionMs: number;
  readonly tombstoneMs: number;
  readonly completedAt: number | null;
  readonly status: number | null;
  readonly headers: string | null;
  readonly body: Buffer | null;
  readonly reason: string | null;
}

/** Without the write lock: most answers need none (KEY-15). */
export function beginRead(connection: Connection, request: BeginKey): BeginStep {
  return beginStep(storedKey(find(connection, request)), request, connection.now());
}

/** A claim whose lease is over may be held by a transaction that is still open: only the write lock tells (KEY-08). */
export function isCertain(step: BeginStep): step is BeginKeyOutcome {
  return !("write" in step) && step.outcome !== "indeterminate";
}

/** Under the write lock, which makes what is read true until the commit. */
export function begin(connection: Connection, request: BeginKey): BeginKeyOutcome {
  const now = connection.now();
  const step = beginStep(storedKey(find(connection, request)), request, now);
  if (!("write" in step)) return step;
  if (step.write === "refuse") {
    connection.statement("keyRefuse").run(addressOf(request));
    return { outcome: "indeterminate", since: step.since };
  }
  const attempt = step.write === "takeover" ? step.attempt : 1;
  const expiresAt = now + request.leaseMs * MICROS_PER_MS;
  const { takeover, retentionMs, tombstoneMs, fingerprint } = request;
  connection.statement("keyPut").run({
    ...addressOf(request),
    principal: request.principal,
    algorithm: fingerprint.algorithm,
    fingerprint: fingerprint.digest,
    token: request.token,
    now,
    ...{ attempt, expiresAt, takeover, retentionMs, tombstoneMs },
    sweepAt: sweepAt({ takeover, retentionMs, tombstoneMs, expiresAt, completedAt: null }),
  });
  return { outcome: "acquired", attempt, expiresAt, takenOver: step.write === "takeover" };
}

export function renew(connection: Connection, proof: KeyProof, leaseMs: number): RenewKeyOutcome {
  const now = connection.now();
  const expiresAt = now + leaseMs * MICROS_PER_MS;
  const { changes } = connection.statement("keyRenew").run({ ...proofOf(proof), now, expiresAt });
  return changes === 1 ? { outcome: "applied", expiresAt } : refusal(connection, proof);
}

export function release(connection: Connection, proof: KeyProof): KeyOutcome {
  const now = connection.now();
  return outcomeOf(connection, proof, connection.statement("keyRelease").run({ ...proofOf(proof), now }));
}

export function complete(connection: Connection, proof: KeyProof, answer: Answer): KeyOutcome {
  const now = connection.now();
  const parameters = { ...proofOf(proof), ...columnsOf(answer), now };
  return outcomeOf(connection, proof, connection.statement("keyComplete").run(parameters));
}

/** The write lock is the lock of the record: from here to the end of the transaction nobody takes over (KEY-08). */
export function hold(connection: Connection, proof: KeyProof): KeyOutcome {
  const now = connection.now();
  return outcomeOf(connection, proof, connection.statement("keyHold").run({ ...proofOf(proof), now }));
}

export function completeHeld(connection: Connection, proof: KeyProof, answer: Answer): KeyOutcome {
  const now = connection.now();
  const parameters = { ...proofOf(proof), ...columnsOf(answer), now };
  return outcomeOf(connection, proof, connection.statement("keyCompleteHeld").run(parameters));
}

export function resolve(
  connection: Connection,
  address: KeyAddress,
  to: "completed" | "released",
): KeyOutcome {
  const now = connection.now();
  const statement = connection.statement(to === "completed" ? "keyResolveCompleted" : "keyResolveReleased");
  if (statement.run({ ...addressOf(address), now }).changes === 1) return { outcome: "applied" };
  return find(connection, address) === undefined ? { outcome: "notFound" } : { outcome: "illegalTransition" };
}

export function inspect(connection: Connection, address: KeyAddress): KeyRecord | null {
  const row = find(connection, address);
  return row === undefined ? null : toRecord(row, connection.now());
}

export function listStuck(
  connection: Connection,
  tenant: string | null,
  limit: number,
): readonly KeyRecord[] {
  const now = connection.now();
  const statement = connection.statement("keysStuck");
  let longest: Row[] = [];
  for (const each of tenantsWith(connection, "claimed", tenant)) {
    longest = [...longest, ...(statement.all({ tenant: each, now, limit }) as Row[])]
      .sort((a, b) => Number(a.expiresAt) - Number(b.expiresAt))
      .slice(0, limit);
  }
  return longest.map((row) => toRecord(row, now)).filter((record) => record !== null);
}

export function sweep(connection: Connection, tenant: string | null, limit: number): number {
  const now = connection.now();
  const keys = connection.statement("keysSweep").run({ tenant, now, limit }).changes;
  if (keys === limit) return keys;
  return keys + connection.statement("inboxSweep").run({ tenant, now, limit: limit - keys }).changes;
}

export function forget(connection: Connection, tenant: string, principal: Uint8Array, limit: number): number {
  return connection.statement("keysForget").run({ tenant, principal, limit }).changes;
}

/** INBOX-01: a mark that has outlived its retention is as if it were not there. */
export function mark(
  connection: Connection,
  { tenant, consumer, event, retentionMs }: InboxMark,
): "first" | "seen" {
  const now = connection.now();
  const parameters = { tenant, consumer, event, now, sweepAt: now + retentionMs * MICROS_PER_MS };
  return connection.statement("inboxMark").run(parameters).changes === 1 ? "first" : "seen";
}

function find(connection: Connection, address: KeyAddress): Row | undefined {
  return connection.statement("keyGet").get(addressOf(address)) as Row | undefined;
}

function addressOf({ tenant, scope, key }: KeyAddress) {
  return { tenant, scope, key };
}

function proofOf(proof: KeyProof) {
  return { ...addressOf(proof), token: proof.token };
}

function columnsOf(answer: Answer) {
  return "body" in answer
    ? { status: answer.status, headers: answer.headers, body: answer.body, reason: null }
    : { status: answer.status, headers: null, body: null, reason: answer.reason };
}

function outcomeOf(
  connection: Connection,
  proof: KeyProof,
  { changes }: { readonly changes: number },
): KeyOutcome {
  return changes === 1 ? { outcome: "applied" } : refusal(connection, proof);
}

/** What is true now; nothing was written. */
function refusal(
  connection: Connection,
  proof: KeyProof,
): Exclude<KeyOutcome, { readonly outcome: "applied" }> {
  const row = find(connection, proof);
  if (row === undefined) return { outcome: "notFound" };
  return { outcome: row.completedAt === null ? "lostClaim" : "illegalTransition" };
}

function timesOf({ takeover, retentionMs, tombstoneMs, expiresAt, completedAt }: Row): KeyTimes {
  return { takeover, retentionMs, tombstoneMs, expiresAt, completedAt };
}

function storedKey(row: Row | undefined): StoredKey | undefined {
  if (row === undefined) return undefined;
  const fingerprint = { algorithm: row.algorithm, digest: row.fingerprint };
  return { ...timesOf(row), fingerprint, attempt: row.attempts, token: row.token, answer: answerOf(row) };
}

function answerOf({ completedAt, status, headers, body, reason }: Row): Answer | null {
  if (completedAt === null) return null;
  if (status !== null && headers !== null && body !== null) return { status, headers, body };
  return { reason: reason ?? "", status };
}

/** null: it is worth nothing any more. */
function toRecord(row: Row, now: number): KeyRecord | null {
  const state = recordState(timesOf(row), now);
  if (state === null) return null;
  const { tenant, scope, key, takeover, attempts: attempt, acquiredAt, expiresAt, completedAt } = row;
  const answer = answerOf(row);
  return { tenant, scope, key, state, takeover, attempt, acquiredAt, expiresAt, completedAt, answer };
}
