/** Requests without a key. */
import { isThenable, type RunResponse } from "@dovecote/core";
import { type ReadBody, verifiedWhole } from "./body-fingerprint.ts";
import type { AnyContext, Incoming, Passed, Setting, Work } from "./handling.ts";

/** A transaction is a plain one: kept if its answer is one to be kept. */
export async function passThrough<Request, Tx, Sync extends boolean, Own extends Tx>(
  { store, plan }: Setting<Request, Tx, Sync, Own>,
  { body, ...headers }: Incoming,
  work: Work<AnyContext<Sync, Own>>,
  read?: ReadBody,
): Promise<Passed> {
  let kept: boolean | undefined;
  const streams = "parsed" in body || plan.body.kind === "digest" || plan.body.kind === "fields";
  const said = {
    attempt: 1,
    takenOver: false,
    body: read === undefined && !streams ? await verifiedWhole(plan, body, headers) : read?.bytes,
    save: () => {
      kept = true;
    },
    release: () => {
      kept = false;
    },
    unreplayable: () => {},
  };
  /** Rolls back what is not to be kept, and answers it all the same. */
  const plain = async (fn: (tx: Own) => unknown): Promise<RunResponse> => {
    let answered: RunResponse | undefined;
    const decided = (answer: RunResponse): void => {
      answered = answer;
      if (!(kept ?? plan.record(answer))) throw new RolledBack();
    };
    try {
      await store.transaction((tx) => {
        const answer = fn(tx);
        return isThenable(answer)
          ? Promise.resolve(answer as Promise<RunResponse>).then(decided)
          : decided(answer as RunResponse);
      });
    } catch (error) {
      if (!(error instanceof RolledBack)) throw error;
    }
    return answered as RunResponse;
  };
  if (plan.mode === "record") {
    const { signal } = new AbortController();
    await work({ ...said, signal, commit: plain } as unknown as AnyContext<Sync, Own>);
  } else {
    await plain((tx) => work({ ...said, tx } as unknown as AnyContext<Sync, Own>));
  }
  return { outcome: "handled", status: undefined };
}

class RolledBack extends Error {}
