/** Idempotency keys and the inbox. What a record is worth is decided in core; every write proves it again (KEY-07). */
import {
  type Answer,
  type BeginKey,
  type BeginKeyOutcome,
  beginStep,
  DovecoteError,
  type InboxMark,
  type KeyAddress,
  type KeyOutcome,
  type KeyProof,
  type KeyRecord,
  type KeyTimes,
  type RenewKeyOutcome,
  recordState,
  type StoredKey,
} from "@dovecote/core";
import type { Answers } from "./client.ts";
import type { Guarded } from "./guard.ts";
import type { StatementTexts } from "./statements.ts";
import type { Via } from "./transaction.ts";

/** A record as a statement answers it: bytes as hexadecimal digits, times as digits of microseconds. */
interface Row {
  readonly tenant: string;
  readonly scope: string;
  readonly key: string;
  readonly algorithm: string;
  readonly fingerprint: string;
  readonly takeover: "rerun" | "refuse";
  readonly attempt: number;
  readonly token: string | null;
  readonly expiresAt: string | null;
  readonly acquiredAt: string;
  readonly retentionMs: number;
  readonly tombstoneMs: number;
  readonly completedAt: string | null;
  readonly status: number | null;
  readonly headers: string | null;
  readonly body: string | null;
  readonly reason: string | null;
  readonly now: string;
}

interface Applied extends Guarded {
  readonly applied: number;
}

/** Rivals may write between what is read and what is written; each of these ends with a record of somebody's. */
const ATTEMPTS = 5;

/** Reads, then inserts: nobody's transaction is ever waited for (KEY-15). */
export async function begin(
  answers: Answers,
  texts: StatementTexts,
  request: BeginKey,
): Promise<BeginKeyOutcome> {
  const address = addressOf(request);
  const fresh = freshOf(request);
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const row = await find(answers, texts, address);
    const step = beginStep(row && storedKey(row), request, row === undefined ? 0 : Number(row.now));
    if (!("write" in step)) {
      // Its holder may be at work under the lock alone (KEY-08).
      if (step.outcome === "indeterminate" && (await isHeld(answers, texts, address))) return HELD;
      return step;
    }
    if (step.write === "refuse") {
      const refused = await answers(texts.keyRefuse, [...address, row?.token ?? null]);
      if (refused.length === 1) return { outcome: "indeterminate", since: step.since };
    } else {
      const [acquired] =
        step.write === "takeover"
          ? await answers(texts.keyTakeover, [...fresh, row?.token ?? null])
          : await answers(row === undefined ? texts.keyInsert : texts.keyReplace, fresh);
      if (acquired !== undefined) return toAcquired(acquired, step.write === "takeover");
    }
    // Somebody was faster, or the record is held: then it is as it was.
    if (row !== undefined && (await isHeld(answers, texts, address))) return HELD;
  }
  throw new DovecoteError("SERIALIZATION_FAILURE", "begin: others keep writing and removing the same key");
}

const HELD: BeginKeyOutcome = { outcome: "inFlight", remainingMs: null };

async function isHeld(answers: Answers, texts: StatementTexts, address: readonly string[]): Promise<boolean> {
  if ((await find(answers, texts, address)) === undefined) return false;
  return (await answers(texts.keyUnheld, address))[0] === "0";
}

export async function renew(
  answers: Answers,
  texts: StatementTexts,
  proof: KeyProof,
  leaseMs: number,
): Promise<RenewKeyOutcome> {
  const [renewed] = await answers(texts.keyRenew, [...proofOf(proof), String(leaseMs)]);
  if (renewed === undefined) return refusal(answers, texts, proof);
  const { expiresAt } = JSON.parse(renewed) as { readonly expiresAt: string };
  return { outcome: "applied", expiresAt: Number(expiresAt) };
}

export async function release(answers: Answers, texts: StatementTexts, proof: KeyProof): Promise<KeyOutcome> {
  const released = await answers(texts.keyRelease, proofOf(proof));
  return released.length === 1 ? { outcome: "applied" } : refusal(answers, texts, proof);
}

export function complete(
  via: Via,
  texts: StatementTexts,
  proof: KeyProof,
  answer: Answer,
): Promise<KeyOutcome> {
  return proven(via, texts, proof, texts.keyComplete, columnsOf(answer));
}

export function hold(via: Via, texts: StatementTexts, proof: KeyProof): Promise<KeyOutcome> {
  return proven(via, texts, proof, texts.keyHold, []);
}

/** @throws `TX_CLOSED` if the transaction that held the record has ended, whatever is open on its connection now. */
export async function completeHeld(
  { answers }: Via,
  texts: StatementTexts,
  proof: KeyProof,
  answer: Answer,
): Promise<KeyOutcome> {
  const [row] = await answers(texts.keyCompleteHeld, [...proofOf(proof), ...columnsOf(answer)]);
  const { guarded, applied } = JSON.parse(String(row)) as Applied;
  if (guarded !== true) throw new DovecoteError("TX_CLOSED", "the transaction that held the key has ended");
  return applied === 1 ? { outcome: "applied" } : refusal(answers, texts, proof);
}

/** In autocommit, or behind the guard of the caller's transaction. */
async function proven(
  { answers, guard, run }: Via,
  texts: StatementTexts,
  proof: KeyProof,
  text: string,
  parameters: readonly (string | null)[],
): Promise<KeyOutcome> {
  const { applied } = await run(async () => {
    const [answer] = await answers(text, [...proofOf(proof), ...parameters, guard]);
    return JSON.parse(String(answer)) as Applied;
  });
  return applied === 1 ? { outcome: "applied" } : refusal(answers, texts, proof);
}

export async function resolve(
  answers: Answers,
  texts: StatementTexts,
  address: KeyAddress,
  to: "completed" | "released",
): Promise<KeyOutcome> {
  const text = to === "completed" ? texts.keyResolveCompleted : texts.keyResolveReleased;
  if ((await answers(text, addressOf(address))).length === 1) return { outcome: "applied" };
  const found = await find(answers, texts, addressOf(address));
  return { outcome: found === undefined ? "notFound" : "illegalTransition" };
}

export async function inspect(
  answers: Answers,
  texts: StatementTexts,
  address: KeyAddress,
): Promise<KeyRecord | null> {
  const row = await find(answers, texts, addressOf(address));
  return row === undefined ? null : toRecord(row);
}

export async function listStuck(
  answers: Answers,
  texts: StatementTexts,
  tenant: string | null,
  limit: number,
): Promise<readonly KeyRecord[]> {
  const found = await answers(texts.keysStuck, [tenant, String(limit)]);
  return found.map((answer) => toRecord(JSON.parse(answer) as Row)).filter((record) => record !== null);
}

export async function sweep(
  answers: Answers,
  texts: StatementTexts,
  tenant: string | null,
  limit: number,
): Promise<number> {
  const keys = await removed(answers, texts.keysSweep, [tenant, String(limit)]);
  if (keys === limit) return keys;
  return keys + (await removed(answers, texts.inboxSweep, [tenant, String(limit - keys)]));
}

export function forget(
  answers: Answers,
  texts: StatementTexts,
  tenant: string,
  principal: Uint8Array,
  limit: number,
): Promise<number> {
  return removed(answers, texts.keysForget, [tenant, hex(principal), String(limit)]);
}

export async function mark(
  { answers, guard, run }: Via,
  texts: StatementTexts,
  { tenant, consumer, event, retentionMs }: InboxMark,
): Promise<"first" | "seen"> {
  const { applied } = await run(async () => {
    const parameters = [hex(event), tenant, consumer, String(retentionMs), guard];
    const [answer] = await answers(texts.inboxMark, parameters);
    return JSON.parse(String(answer)) as Applied;
  });
  return applied === 1 ? "first" : "seen";
}

async function removed(
  answers: Answers,
  text: string,
  parameters: readonly (string | null)[],
): Promise<number> {
  const [answer] = await answers(text, parameters);
  return (JSON.parse(String(answer)) as { readonly removed: number }).removed;
}

async function find(
  answers: Answers,
  texts: StatementTexts,
  address: readonly string[],
): Promise<Row | undefined> {
  const [answer] = await answers(texts.keyGet, address);
  return answer === undefined ? undefined : (JSON.parse(answer) as Row);
}

/** What is true now, in a statement of its own (FENCE-06): the one that wrote saw an older snapshot. */
async function refusal(
  answers: Answers,
  texts: StatementTexts,
  proof: KeyProof,
): Promise<Exclude<KeyOutcome, { readonly outcome: "applied" }>> {
  const row = await find(answers, texts, addressOf(proof));
  if (row === undefined) return { outcome: "notFound" };
  return { outcome: row.completedAt === null ? "lostClaim" : "illegalTransition" };
}

function toAcquired(answer: string, takenOver: boolean): BeginKeyOutcome {
  const { attempt, expiresAt } = JSON.parse(answer) as {
    readonly attempt: number;
    readonly expiresAt: string;
  };
  return { outcome: "acquired", attempt, expiresAt: Number(expiresAt), takenOver };
}

function addressOf({ scope, key, tenant }: KeyAddress): readonly [string, string, string] {
  return [hex(scope), hex(key), tenant];
}

function proofOf(proof: KeyProof): readonly string[] {
  return [...addressOf(proof), hex(proof.token)];
}

function freshOf(request: BeginKey): readonly (string | null)[] {
  const { principal, fingerprint, leaseMs, takeover, retentionMs, tombstoneMs } = request;
  return [
    ...proofOf(request),
    principal === null ? null : hex(principal),
    fingerprint.algorithm,
    hex(fingerprint.digest),
    String(leaseMs),
    takeover,
    String(retentionMs),
    String(tombstoneMs),
  ];
}

function columnsOf(answer: Answer): readonly (string | null)[] {
  return "body" in answer
    ? [String(answer.status), answer.headers, hex(answer.body), null]
    : [answer.status === null ? null : String(answer.status), null, null, answer.reason];
}

function timesOf({ takeover, retentionMs, tombstoneMs, expiresAt, completedAt }: Row): KeyTimes {
  return {
    ...{ takeover, retentionMs, tombstoneMs },
    expiresAt: expiresAt === null ? null : Number(expiresAt),
    completedAt: completedAt === null ? null : Number(completedAt),
  };
}

function storedKey(row: Row): StoredKey {
  const fingerprint = { algorithm: row.algorithm, digest: bytes(row.fingerprint) };
  const token = row.token === null ? null : bytes(row.token);
  return { ...timesOf(row), fingerprint, attempt: row.attempt, token, answer: answerOf(row) };
}

function answerOf({ completedAt, status, headers, body, reason }: Row): Answer | null {
  if (completedAt === null) return null;
  if (status !== null && headers !== null && body !== null) return { status, headers, body: bytes(body) };
  return { reason: reason ?? "", status };
}

/** null: it is worth nothing any more. */
function toRecord(row: Row): KeyRecord | null {
  const times = timesOf(row);
  const state = recordState(times, Number(row.now));
  if (state === null) return null;
  const { tenant, takeover, attempt } = row;
  const { expiresAt, completedAt } = times;
  const [scope, key, acquiredAt, answer] = [
    bytes(row.scope),
    bytes(row.key),
    Number(row.acquiredAt),
    answerOf(row),
  ];
  return { tenant, scope, key, state, takeover, attempt, acquiredAt, expiresAt, completedAt, answer };
}

function hex(value: Uint8Array): string {
  return Buffer.from(value).toString("hex");
}

function bytes(digits: string): Uint8Array {
  return new Uint8Array(Buffer.from(digits, "hex"));
}
