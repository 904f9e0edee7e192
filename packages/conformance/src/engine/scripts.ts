/** What the victims of a crash do, in a process of their own, step by step. */
import { type DrainReport, isDovecoteError, type KeyClaim } from "@dovecote/core";
import type { Peer } from "../case.ts";
import { options as keyOptions, SCOPE } from "../cases/key-given.ts";
import type { OpenTransaction } from "../define-harness.ts";
import type { ClaimJson } from "./actors.ts";
import { toJson } from "./actors.ts";

/** Tells the suite where the victim is, and waits there until it is told to go on, or dies. */
type Checkpoint = (name: string, report?: unknown) => Promise<void>;

/** Tells the suite that something was done, and does not wait. */
type Progress = (report: unknown) => void;

export interface Steps {
  readonly checkpoint: Checkpoint;
  readonly progress: Progress;
}

/** How each way of settling ended, by its verb: `applied`, or the code it was refused with. */
type Verdicts = Readonly<Record<"renew" | "ack" | "retry" | "release" | "quarantine", string>>;

/** A payment that was made. */
export interface PaidJson {
  readonly key: string;
}

type KeyVerdicts = Readonly<Record<"renewal" | "release" | "answer" | "held payment" | "payment", string>>;

export interface Scripts {
  /** Writes an event and a business row, in the application's own transaction. */
  enqueue: (peer: Peer, input: { source: string; id: string }, steps: Steps) => Promise<null>;
  /** Dies inside the callback of the store's own transaction, after its writes. */
  dieInTransaction: (peer: Peer, input: { source: string; id: string }, steps: Steps) => Promise<null>;
  /** Claims once, holds what it has, then writes to it in every way there is. */
  hold: (peer: Peer, input: { limit: number; leaseMs: number }, steps: Steps) => Promise<Verdicts>;
  /** Claims one by one until nothing is left. */
  claimAll: (peer: Peer, input: { leaseMs: number }, steps: Steps) => Promise<null>;
  /** Claims everything, then acknowledges one by one. */
  ackAll: (peer: Peer, input: { limit: number; leaseMs: number }, steps: Steps) => Promise<null>;
  migrate: (peer: Peer, input: Record<string, never>, steps: Steps) => Promise<null>;
  /** Delivers what is due. Dies of the event whose id is `poison`; with `hold`, stops in each handler. */
  relay: (
    peer: Peer,
    input: {
      leaseMs: number;
      concurrency: number;
      maxAttempts?: number;
      poison?: string;
      hold?: boolean;
    },
    steps: Steps,
  ) => Promise<DrainReport>;
  /** Makes a payment: claims its key, then writes its row and its answer, the key itself, in one transaction. */
  pay: (peer: Peer, input: { key: string; leaseMs: number }, steps: Steps) => Promise<null>;
  /** Makes one payment after the other. */
  payAll: (peer: Peer, input: { prefix: string; leaseMs: number }, steps: Steps) => Promise<null>;
  /** Claims a key, and then does everything a claim is for; `early`: in a transaction that was open before. */
  payLate: (
    peer: Peer,
    input: { key: string; leaseMs: number; early: boolean },
    steps: Steps,
  ) => Promise<KeyVerdicts>;
}

export type ScriptName = keyof Scripts;
export type ScriptInput<Name extends ScriptName> = Parameters<Scripts[Name]>[1];
export type ScriptAnswer<Name extends ScriptName> = Awaited<ReturnType<Scripts[Name]>>;

const RELAY_BUDGET_MS = 30_000;
const failure = { code: "ZOMBIE", detail: "written by a claim that is gone" };

export const scripts: Scripts = {
  async enqueue({ session, outbox }, { source, id }, { checkpoint }) {
    const tx = await session.begin();
    await tx.writeBusinessRow(id);
    await outbox.enqueue(tx.handle, { stream: "crash", type: "crash", source, id });
    await checkpoint("written");
    await tx.commit();
    await checkpoint("committed");
    return null;
  },
  async dieInTransaction({ outbox }, { source, id }) {
    await outbox.transaction((tx) => {
      const answer = outbox.enqueue(tx, { stream: "crash", type: "crash", source, id });
      if (!(answer instanceof Promise)) process.kill(process.pid, "SIGKILL");
      return Promise.resolve(answer).then(() => process.kill(process.pid, "SIGKILL"));
    });
    return null;
  },
  async hold({ outbox }, { limit, leaseMs }, { checkpoint }) {
    const claims = await outbox.claim({ worker: "victim", limit, leaseMs });
    await checkpoint("holding", claims.map(toJson));
    const [claim] = claims;
    if (claim === undefined) throw new Error("the victim has nothing to hold");
    return {
      renew: await verdict(() => outbox.renew(claim)),
      ack: await verdict(() => outbox.ack(claim)),
      retry: await verdict(() => outbox.retry(claim, { failure })),
      release: await verdict(() => outbox.release(claim)),
      quarantine: await verdict(() => outbox.quarantine(claim, { reason: failure.detail })),
    };
  },
  async claimAll({ outbox }, { leaseMs }, { progress }) {
    for (;;) {
      const [claim] = await outbox.claim({ worker: "victim", limit: 1, leaseMs });
      if (claim === undefined) return null;
      progress(toJson(claim));
    }
  },
  async ackAll({ outbox }, { limit, leaseMs }, { checkpoint, progress }) {
    const claims = await outbox.claim({ worker: "victim", limit, leaseMs });
    await checkpoint("holding", claims.map(toJson));
    for (const claim of claims) {
      await outbox.ack(claim);
      progress(toJson(claim) satisfies ClaimJson);
    }
    return null;
  },
  async migrate({ outbox }, _input, { checkpoint, progress }) {
    await checkpoint("ready");
    progress("begun");
    await outbox.migrate();
    return null;
  },
  async relay({ outbox }, { poison, hold, ...options }, { checkpoint }) {
    const relay = outbox.admin().relay({
      ...options,
      backoff: { baseMs: 1, maxMs: 1 },
      async deliver({ id }) {
        if (id === poison) process.kill(process.pid, "SIGKILL");
        if (hold) await checkpoint("delivering");
      },
    });
    return relay.drainOnce({ budgetMs: RELAY_BUDGET_MS });
  },
  async pay(peer, { key, leaseMs }, { checkpoint }) {
    await paid(peer, key, leaseMs, checkpoint);
    return null;
  },
  async payAll(peer, { prefix, leaseMs }, { progress }) {
    for (let n = 0; ; n++) {
      const key = `${prefix}-${n}`;
      await paid(peer, key, leaseMs, async () => {});
      progress({ key } satisfies PaidJson);
    }
  },
  async payLate({ session, outbox }, { key, leaseMs, early }, { checkpoint }) {
    const claim = await begun(outbox, key, leaseMs);
    const open = async (row: string): Promise<OpenTransaction> => {
      const tx = await session.begin();
      await tx.writeBusinessRow(row);
      return tx;
    };
    const opened = early ? [await open(`${key}-1`), await open(`${key}-2`)] : [];
    await checkpoint("begun");
    /** In a transaction that ends as an application's does: what is refused rolls it back. */
    const within = async (call: (tx: OpenTransaction) => Promise<void>): Promise<void> => {
      const tx = opened.pop() ?? (await open(key));
      try {
        await call(tx);
      } catch (error) {
        await tx.rollback();
        throw error;
      }
      await tx.commit();
    };
    return {
      renewal: await verdict(() => outbox.keys.renew(claim)),
      release: await verdict(() => outbox.keys.release(claim)),
      answer: await verdict(() => outbox.keys.complete(claim, { status: 200, body: "zombie" })),
      "held payment": await verdict(() =>
        within(async ({ handle }) => {
          await (await outbox.keys.hold(handle, claim)).complete({ status: 200, body: "zombie" });
        }),
      ),
      payment: await verdict(() =>
        within(async ({ handle }) => outbox.keys.complete(claim, { status: 200, body: "zombie" }, handle)),
      ),
    };
  },
};

async function paid(
  { session, outbox }: Peer,
  key: string,
  leaseMs: number,
  checkpoint: Checkpoint,
): Promise<void> {
  const claim = await begun(outbox, key, leaseMs);
  await checkpoint("begun");
  const tx = await session.begin();
  await tx.writeBusinessRow(key);
  await checkpoint("written");
  const held = await outbox.keys.hold(tx.handle, claim);
  await checkpoint("held");
  await held.complete({ status: 201, body: key });
  await checkpoint("completed");
  await tx.commit();
  await checkpoint("committed");
}

async function begun(outbox: Peer["outbox"], key: string, leaseMs: number): Promise<KeyClaim> {
  const { outcome, ...answer } = await outbox.keys.begin(keyOptions({ scope: SCOPE, key }, { leaseMs }));
  if ("claim" in answer) return answer.claim;
  throw new Error(`the victim must acquire its key, got ${outcome}`);
}

async function verdict(call: () => Promise<unknown>): Promise<string> {
  try {
    await call();
    return "applied";
  } catch (error) {
    if (isDovecoteError(error)) return error.code;
    throw error;
  }
}
