/** Requests without a key. */
import type { RunResponse } from "@dovecote/core";
import type { ReadBody } from "./body-fingerprint.ts";
import { following } from "./following.ts";
import type { AnyContext, Incoming, Passed, Setting, Work } from "./handling.ts";
import { readUpTo } from "./incoming-body.ts";
import { storeRefusal } from "./outcome.ts";

/** A transaction is a plain one: kept if its answer is one to be kept. @throws what the handler throws; Refused. */
export async function passThrough<Request, Tx, Sync extends boolean, Own extends Tx>(
  { store, plan }: Setting<Request, Tx, Sync, Own>,
  { body }: Incoming,
  work: Work<AnyContext<Sync, Own>>,
  as: "unkeyed" | "unprotected",
  read?: ReadBody,
): Promise<Passed> {
  let kept: boolean | undefined;
  const streams = "parsed" in body || plan.body.kind === "digest" || plan.body.kind === "fields";
  const said = {
    attempt: 1,
    takenOver: false,
    // Nothing is compared, so that a longer one is no fault.
    body: read === undefined && !streams ? await readUpTo(body, plan.maxBodyBytes) : read?.bytes,
    save: () => {
      kept = true;
    },
    release: () => {
      kept = false;
    },
    unreplayable: () => {},
  };
  let started = false;
  let thrown: { readonly error: unknown } | undefined;
  /** Rolls back what is not to be kept, and answers it all the same. */
  const plain = async (fn: (tx: Own) => unknown): Promise<RunResponse> => {
    let answered: RunResponse | undefined;
    const decided = (answer: RunResponse): void => {
      answered = answer;
      if (!(kept ?? plan.record(answer))) throw new RolledBack();
    };
    const failed = (error: unknown): never => {
      thrown = { error };
      throw error;
    };
    try {
      await store.transaction((tx) => {
        started = true;
        return following(() => fn(tx) as RunResponse, decided, failed);
      });
    } catch (error) {
      if (!(error instanceof RolledBack)) throw error;
    }
    return answered as RunResponse;
  };
  if (plan.mode === "record") {
    const { signal } = new AbortController();
    await work.pass({ ...said, signal, commit: plain } as unknown as AnyContext<Sync, Own>);
    return { outcome: "handled", as };
  }
  try {
    await plain((tx) => work.hold({ ...said, tx } as unknown as AnyContext<Sync, Own>));
  } catch (error) {
    const refusal = thrown?.error === error ? undefined : storeRefusal(error, plan.mode, started);
    throw refusal ?? error;
  }
  return { outcome: "handled", as };
}

class RolledBack extends Error {}
