/** Idempotency keys and the inbox of the reference store. What a record is worth is decided in core. */
import {
  type Answer,
  beginStep,
  type KeyAddress,
  type KeyDriver,
  type KeyOutcome,
  type KeyProof,
  type KeyRecord,
  recordState,
  situationOf,
  sweepAt,
} from "@dovecote/core";
import { type KeyRow, type Store, sameBytes } from "./store.ts";
import { ReferenceTransaction } from "./transaction.ts";

/** The lease of a claim that is held ends with its transaction (KEY-08). */
const HELD = Number.NEGATIVE_INFINITY;

export function keysOf(store: Store): KeyDriver<unknown, false> {
  const { keys, marks } = store;
  const alone = <T>(work: (tx: ReferenceTransaction) => T): T => ReferenceTransaction.run(store, work);
  const joined = (tx: unknown): ReferenceTransaction => ReferenceTransaction.joined(store, tx);
  const isHeld = (table: ReadonlyMap<string, unknown>, id: string): boolean =>
    ReferenceTransaction.isWriting(store, table, id);

  /** Proves the token, and a lease that is not over at `now`, in the step that writes (KEY-07). */
  function change(
    tx: ReferenceTransaction,
    proof: KeyProof,
    now: number,
    changed: (row: KeyRow) => KeyRow | undefined,
  ): KeyOutcome {
    const id = idOf(proof);
    const row = tx.read(keys, id);
    if (row === undefined) return { outcome: "notFound" };
    if (row.expiresAt === null) return { outcome: "illegalTransition" };
    if (row.expiresAt <= now || !sameBytes(row.token, proof.token)) return { outcome: "lostClaim" };
    tx.write(keys, id, changed(row));
    return { outcome: "applied" };
  }

  function completedBy(answer: Answer): (row: KeyRow) => KeyRow {
    const completedAt = store.now();
    return (row) => ({ ...row, token: null, expiresAt: null, completedAt, answer });
  }

  return {
    async begin(request) {
      const id = idOf(request);
      const now = store.now();
      const row = keys.get(id);
      const step = beginStep(row, request, now);
      // The holder may be at work under its lock alone (KEY-08).
      const overdue = "write" in step || step.outcome === "indeterminate";
      if (overdue && isHeld(keys, id)) return { outcome: "inFlight", remainingMs: null };
      if (!("write" in step)) return step;
      if (step.write === "refuse") {
        alone((tx) => tx.write(keys, id, row && { ...row, takeover: "refuse" }));
        return { outcome: "indeterminate", since: step.since };
      }
      const { leaseMs, ...claim } = request;
      const token = Uint8Array.from(request.token);
      const attempt = step.write === "takeover" ? step.attempt : 1;
      const expiresAt = now + leaseMs * 1000;
      const times = { acquiredAt: now, expiresAt, completedAt: null };
      alone((tx) => tx.write(keys, id, { ...claim, ...times, token, attempt, answer: null }));
      return { outcome: "acquired", attempt, expiresAt, takenOver: step.write === "takeover" };
    },

    async renew(proof, leaseMs) {
      const now = store.now();
      const expiresAt = now + leaseMs * 1000;
      const renewed = alone((tx) => change(tx, proof, now, (row) => ({ ...row, expiresAt })));
      return renewed.outcome === "applied" ? { ...renewed, expiresAt } : renewed;
    },

    release: async (proof) => alone((tx) => change(tx, proof, store.now(), () => undefined)),
    complete: async (proof, answer) => alone((tx) => change(tx, proof, store.now(), completedBy(answer))),
    completeIn: async (tx, proof, answer) => change(joined(tx), proof, store.now(), completedBy(answer)),
    // What a transaction writes is locked until it ends, even if it is what was there.
    holdIn: async (tx, proof) => change(joined(tx), proof, store.now(), (row) => row),
    completeHeldIn: async (tx, proof, answer) => change(joined(tx), proof, HELD, completedBy(answer)),

    async resolve(address, to) {
      const id = idOf(address);
      const row = keys.get(id);
      if (row === undefined) return { outcome: "notFound" };
      const refused = situationOf(row, store.now()) !== "indeterminate" || isHeld(keys, id);
      if (refused) return { outcome: "illegalTransition" };
      const completed = completedBy({ reason: "resolved", status: null });
      alone((tx) => tx.write(keys, id, to === "completed" ? completed(row) : undefined));
      return { outcome: "applied" };
    },

    inspect: async (address) => toRecord(keys.get(idOf(address)), store.now()),

    async listStuck(tenant, limit) {
      const now = store.now();
      return [...keys.values()]
        .filter((row) => tenant === null || row.tenant === tenant)
        .flatMap((row) => toRecord(row, now) ?? [])
        .filter(({ state }) => state === "free" || state === "indeterminate")
        .sort((a, b) => (a.expiresAt ?? 0) - (b.expiresAt ?? 0))
        .slice(0, limit);
    },

    async sweep(tenant, limit) {
      const now = store.now();
      const within = (of: string): boolean => tenant === null || of === tenant;
      const oldKeys = [...keys]
        .filter(([id, row]) => within(row.tenant) && (sweepAt(row) ?? now + 1) <= now && !isHeld(keys, id))
        .slice(0, limit);
      const oldMarks = [...marks]
        .filter(([id, mark]) => within(mark.tenant) && mark.sweepAt <= now && !isHeld(marks, id))
        .slice(0, limit - oldKeys.length);
      alone((tx) => {
        for (const [id] of oldKeys) tx.write(keys, id, undefined);
        for (const [id] of oldMarks) tx.write(marks, id, undefined);
      });
      return oldKeys.length + oldMarks.length;
    },

    async forget(tenant, principal, limit) {
      const own = [...keys]
        .filter(([, row]) => row.tenant === tenant && sameBytes(row.principal, principal))
        .slice(0, limit);
      alone((tx) => {
        for (const [id] of own) tx.write(keys, id, undefined);
      });
      return own.length;
    },

    async markIn(tx, { tenant, event, retentionMs }) {
      const transaction = joined(tx);
      const id = hex(event);
      const now = store.now();
      if ((transaction.read(marks, id)?.sweepAt ?? 0) > now) return "seen";
      transaction.write(marks, id, { tenant, sweepAt: now + retentionMs * 1000 });
      return "first";
    },
  };
}

/** null: there is none, or it is worth nothing any more. */
function toRecord(row: KeyRow | undefined, now: number): KeyRecord | null {
  const state = row === undefined ? null : recordState(row, now);
  if (row === undefined || state === null) return null;
  const { tenant, scope, key, takeover, attempt, acquiredAt, expiresAt, completedAt, answer } = row;
  return { tenant, scope, key, state, takeover, attempt, acquiredAt, expiresAt, completedAt, answer };
}

function idOf({ tenant, scope, key }: KeyAddress): string {
  return JSON.stringify([tenant, hex(scope), hex(key)]);
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}
