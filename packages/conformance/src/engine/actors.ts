/** What the contenders of a race do. Each is a function from JSON to JSON that runs in a process of its own. */
import { type Claim, isDovecoteError } from "@dovecote/core";
import type { Peer } from "../case.ts";
import { options as keyOptions, RESPONSE, SCOPE } from "../cases/key-given.ts";

/** A claim as it crosses a process boundary. */
export interface ClaimJson {
  readonly rowId: number;
  readonly attempt: number;
  readonly token: string;
}

/** The claim of an idempotency key as it crosses a process boundary. */
interface KeyClaimJson {
  readonly tenant: string;
  readonly scopeDigest: string;
  readonly keyDigest: string;
  readonly token: string;
}

/** What a begin answered. */
export interface BegunJson {
  readonly outcome: string;
  readonly attempt?: number;
  readonly token?: string;
}

/** Either what a call answered, or the code it was refused with. */
export type Answer<T> = { readonly ok: T } | { readonly refused: string; readonly retryable: boolean };

export interface Actors {
  claim: (
    peer: Peer,
    input: { worker: string; limit: number; leaseMs: number },
  ) => Promise<Answer<readonly ClaimJson[]>>;
  /** Claims until a claim comes back with something, or time is up: who waits for a lease to end. */
  poll: (
    peer: Peer,
    input: { worker: string; limit: number; leaseMs: number; forMs: number },
  ) => Promise<Answer<readonly ClaimJson[]>>;
  /** Claims and acks until a claim comes back empty; answers every claim it held. */
  drain: (
    peer: Peer,
    input: { worker: string; limit: number; leaseMs: number },
  ) => Promise<Answer<readonly ClaimJson[]>>;
  ack: (peer: Peer, input: { claim: ClaimJson }) => Promise<Answer<null>>;
  renew: (peer: Peer, input: { claim: ClaimJson; leaseMs: number }) => Promise<Answer<null>>;
  enqueue: (
    peer: Peer,
    input: { id: string; source: string; data: string },
  ) => Promise<Answer<{ outcome: string; rowId: number }>>;
  redrive: (peer: Peer, input: { rowId: number }) => Promise<Answer<null>>;
  prune: (peer: Peer, input: { olderThanMs: number; quarantined: boolean }) => Promise<Answer<number>>;
  migrate: (peer: Peer, input: Record<string, never>) => Promise<Answer<readonly number[]>>;
  begin: (
    peer: Peer,
    input: { key: string; leaseMs: number; takeover?: "rerun" | "refuse" },
  ) => Promise<Answer<BegunJson>>;
  completeKey: (peer: Peer, input: { claim: KeyClaimJson }) => Promise<Answer<null>>;
  sweepKeys: (peer: Peer, input: Record<string, never>) => Promise<Answer<number>>;
  /** Consumes an event: its effect is a business row. */
  consume: (peer: Peer, input: { id: string; row: string }) => Promise<Answer<string>>;
}

export type ActorName = keyof Actors;
export type ActorInput<Name extends ActorName> = Parameters<Actors[Name]>[1];
export type ActorAnswer<Name extends ActorName> = Awaited<ReturnType<Actors[Name]>>;

export const actors: Actors = {
  claim: ({ outbox }, input) => answer(async () => (await outbox.admin().claim(input)).map(toJson)),
  poll: ({ outbox }, { forMs, ...input }) =>
    answer(async () => {
      const end = performance.now() + forMs;
      for (;;) {
        const claims = await outbox.admin().claim(input);
        if (claims.length > 0 || performance.now() > end) return claims.map(toJson);
      }
    }),
  drain: ({ outbox }, input) =>
    answer(async () => {
      const held: ClaimJson[] = [];
      for (;;) {
        const claims = await outbox.admin().claim(input);
        if (claims.length === 0) return held;
        held.push(...claims.map(toJson));
        await outbox.admin().ack(claims);
      }
    }),
  ack: ({ outbox }, { claim }) =>
    answer(() =>
      outbox
        .admin()
        .ack(claim)
        .then(() => null),
    ),
  renew: ({ outbox }, { claim, leaseMs }) =>
    answer(() =>
      outbox
        .admin()
        .renew(claim, { leaseMs })
        .then(() => null),
    ),
  enqueue: ({ outbox, session }, { id, source, data }) =>
    answer(async () => {
      const event = { stream: "race", type: "race", source, id, data };
      const { outcome, rowId } = await session.transaction((tx) => outbox.enqueue(tx.handle, event));
      return { outcome, rowId };
    }),
  redrive: ({ outbox }, { rowId }) => answer(() => outbox.redrive(rowId).then(() => null)),
  prune: ({ outbox }, options) => answer(async () => (await outbox.prune(options)).pruned),
  migrate: ({ outbox }) => answer(async () => (await outbox.migrate()).applied),
  begin: ({ outbox }, { key, ...given }) =>
    answer(async () => {
      const begun = await outbox.keys.begin(keyOptions({ scope: SCOPE, key }, given));
      if (begun.outcome !== "acquired") return { outcome: begun.outcome };
      const { attempt, token } = begun.claim;
      return { outcome: begun.outcome, attempt, token: token.reveal() };
    }),
  completeKey: ({ outbox }, { claim }) =>
    answer(() => outbox.keys.complete(claim, RESPONSE).then(() => null)),
  sweepKeys: ({ outbox }) => answer(async () => (await outbox.keys.sweep()).swept),
  consume: ({ outbox, session }, { id, row }) =>
    answer(async () => {
      const given = { consumer: "race", event: { source: "/race", id } };
      const { outcome } = await session.transaction((tx) =>
        outbox.inbox.once(tx.handle, given, () => tx.writeBusinessRow(row)),
      );
      return outcome;
    }),
};

export function toJson({ rowId, attempt, token }: Claim): ClaimJson {
  return { rowId, attempt, token: token.reveal() };
}

/** A typed refusal is an answer; everything else is a fault of the driver and fails the race. */
async function answer<T>(call: () => Promise<T>): Promise<Answer<T>> {
  try {
    return { ok: await call() };
  } catch (error) {
    if (isDovecoteError(error)) return { refused: error.code, retryable: error.retryable };
    throw error;
  }
}
