/** The everyday form: claims a key, does the work once, and records its answer, in one transaction or beside it. */
import { invalid } from "../arguments.ts";
import type { InTransaction } from "../driver.ts";
import { DovecoteError, isDovecoteError } from "../errors.ts";
import { after, isThenable } from "../in-transaction.ts";
import { systemScheduler, Wake } from "../relay/scheduler.ts";
import type { BeginOptions, Begun, HeldKey, Keys } from "./api.ts";
import type { KeyClaim } from "./claim.ts";
import type { Takeover } from "./driver.ts";
import { type KeyResponse, type RunAnswer, toRunAnswer, type UnreplayableResponse } from "./response.ts";
import { type RecordPolicy, toRunPlan } from "./run-options.ts";

export type RunResponse = KeyResponse | UnreplayableResponse;

/** What a handler is told, and what it can say beyond its answer. */
export interface RunContext {
  /** 1, and one more with every takeover. */
  readonly attempt: number;
  /** An earlier attempt ended by its expiry: outside a transaction, what it did is not known. */
  readonly takenOver: boolean;
  /** Records this answer, whatever the policy says of it; what the handler answers does not matter then. */
  save(response: RunResponse): void;
  /** Gives the key back as if it had never been used, whatever the policy says of the answer. */
  release(): void;
}

export interface TransactionRunContext<Own> extends RunContext {
  /** The transaction of the business rows, the events and the recorded answer: they commit together, or not at all. */
  readonly tx: Own;
}

/** Synchronous where the driver's transactions are. */
export type TransactionHandler<Sync extends boolean, Own> = (
  context: TransactionRunContext<Own>,
) => Answering<Sync>;

type Answering<Sync extends boolean> = Sync extends true ? RunResponse : RunResponse | Promise<RunResponse>;

export interface RecordRunContext<Sync extends boolean = boolean, Own = unknown> extends RunContext {
  /** Aborts when the claim is lost, or when the caller's does. */
  readonly signal: AbortSignal;
  /**
   * Ends the run in one transaction of the store's own, once what it did outside the database is done: the rows of `fn`, its
   * events and its answer commit together, fenced, or not at all (KEY-06, KEY-07). Under the lock of that transaction the claim
   * needs no lease (KEY-08). What the handler itself answers does not matter then, and a commit that fails fails the run.
   *
   * Conflicts are repeated as in a transaction's run. An answer that is not kept rolls back, and is given all the same.
   *
   * @returns the answer of `fn`.
   * @throws what `fn` throws; `LOST_CLAIM`; `ILLEGAL_TRANSITION` the second time, and after the run.
   * @example
   * await keys.run({ ...options, mode: "record", takeover: "rerun" }, async ({ commit }) => {
   *   const file = await store(upload);
   *   return commit((tx) => {
   *     insertBook(tx, file);
   *     return { status: 201 };
   *   });
   * });
   */
  commit(fn: (tx: Own) => Answering<Sync>): Promise<RunAnswer>;
}

export type RunOutcome = Ended | Exclude<Begun, { readonly outcome: "acquired" }>;

type Ended =
  /** It was done now, and its answer is recorded. */
  | { readonly outcome: "completed"; readonly response: RunAnswer }
  /** Its answer was not one to be kept: in a transaction everything was rolled back, and a retry does it again. */
  | { readonly outcome: "released"; readonly response: RunAnswer };

export interface RunOptions extends BeginOptions {
  /** Which answers are recorded. Default: 2xx, 3xx and 4xx, but 401, 403, 407, 408, 421, 425 and 429. */
  readonly record?: RecordPolicy;
}

export interface TransactionRunOptions extends RunOptions {
  /** The default: business rows, events and the answer in one transaction. */
  readonly mode?: "transaction";
}

export interface RecordRunOptions extends RunOptions {
  /**
   * Its effects are outside the database: the claim is renewed while the handler runs, and its answer recorded afterwards.
   * If the handler throws, `rerun` gives the key back; with `refuse` it becomes `indeterminate`, unless the handler said
   * `release()`, since nobody knows how far it came.
   */
  readonly mode: "record";
  readonly signal?: AbortSignal;
}

export interface RunStore<Tx, Sync extends boolean, Own extends Tx> {
  readonly keys: Keys<Tx, Sync>;
  readonly transaction: <T>(fn: (tx: Own) => T) => Promise<Awaited<T>>;
}

const BEGIN_MEMBERS = ["scope", "key", "fingerprint", "leaseMs", "takeover", "retentionMs", "tombstoneMs"];
const DEFAULT_LEASE_MS = 30_000;
/** A callback that conflicts with others is repeated so often at most, under the same claim. */
const CONFLICT_REPEATS = 3;
const CONFLICT_PAUSE_MS = 50;
/** How often a lease is renewed before it ends. */
const RENEWALS_PER_LEASE = 3;

export async function run<Tx, Sync extends boolean, Own extends Tx>(
  store: RunStore<Tx, Sync, Own>,
  given: unknown,
  handler: unknown,
): Promise<RunOutcome> {
  const { mode, record, signal, begin } = toRunPlan(given, BEGIN_MEMBERS);
  if (typeof handler !== "function") throw invalid("handler", "a function", handler);
  const begun = await store.keys.begin(begin as unknown as BeginOptions);
  if (begun.outcome !== "acquired") return begun;
  const { claim } = begun;
  const { leaseMs = DEFAULT_LEASE_MS, takeover } = begin as unknown as BeginOptions;
  return mode === "transaction"
    ? inTransaction(store, claim, record, handler as (context: TransactionRunContext<Own>) => RunResponse)
    : beside(store, claim, { record, signal, leaseMs, takeover }, handler as RecordHandler<Own>);
}

type RecordHandler<Own> = (context: RecordRunContext<boolean, Own>) => RunResponse | Promise<RunResponse>;

async function inTransaction<Tx, Sync extends boolean, Own extends Tx>(
  store: RunStore<Tx, Sync, Own>,
  claim: KeyClaim,
  record: RecordPolicy,
  handler: (context: TransactionRunContext<Own>) => RunResponse,
): Promise<RunOutcome> {
  try {
    return await committed(store, claim, record, (tx) => {
      const said = new Said(claim);
      return { said, answer: handler({ ...said.context, tx }) };
    });
  } catch (error) {
    await givenUp(store.keys, claim, error);
    throw error;
  }
}

/** Holds the claim, works and records in one transaction, which is repeated if it conflicts with others. */
async function committed<Tx, Sync extends boolean, Own extends Tx>(
  store: RunStore<Tx, Sync, Own>,
  claim: KeyClaim,
  record: RecordPolicy,
  work: (tx: Own) => { readonly said: Said; readonly answer: unknown },
): Promise<Ended> {
  let working = false;
  const once = (tx: Own) =>
    after(store.keys.hold(tx, claim), (held: HeldKey<Sync>) => {
      working = true;
      // A promise, where the driver has asynchronous transactions; a synchronous one refuses it.
      const { said, answer } = work(tx);
      const settling = isThenable(answer) ? Promise.resolve(answer) : answer;
      return after(settling as InTransaction<Sync, RunResponse>, (given) => {
        const { kept, response, answer: decided } = said.decide(given, record);
        if (!kept) throw new NotKept(response);
        return after(held.complete(decided), () => response);
      });
    });
  for (let attempt = 1; ; attempt++) {
    working = false;
    try {
      const response = (await store.transaction(once)) as RunAnswer;
      return { outcome: "completed", response };
    } catch (error) {
      if (error instanceof NotKept) {
        await givenBack(store.keys, claim);
        return { outcome: "released", response: error.response };
      }
      // Whoever took the key over may have completed or released it: what is true of this claim is that it is lost.
      if (!working && isRefusal(error)) throw lost(error);
      const conflicted = isDovecoteError(error, "SERIALIZATION_FAILURE") && attempt <= CONFLICT_REPEATS;
      if (!conflicted) throw error;
      await new Wake().wait(systemScheduler, systemScheduler.random() * CONFLICT_PAUSE_MS * 2 ** attempt);
    }
  }
}

async function beside<Tx, Sync extends boolean, Own extends Tx>(
  store: RunStore<Tx, Sync, Own>,
  claim: KeyClaim,
  { record, signal, leaseMs, takeover }: BesidePlan,
  handler: RecordHandler<Own>,
): Promise<RunOutcome> {
  const { keys } = store;
  const over = new AbortController();
  const lease = keepAlive(keys, claim, leaseMs, over);
  const said = new Said(claim);
  /** No renewal may come after it: it would wait for the transaction that holds the claim. */
  const endLease = async (): Promise<void> => {
    if (over.signal.aborted) throw over.signal.reason;
    await lease.stop();
  };
  const end = new OnlyEnd();
  try {
    const answered = await handler({
      ...said.context,
      signal: signal === undefined ? over.signal : AbortSignal.any([over.signal, signal]),
      commit: (fn) =>
        end.begin(async () => {
          if (typeof fn !== "function") throw invalid("fn", "a function", fn);
          await endLease();
          return committed(store, claim, record, (tx) => ({ said, answer: fn(tx) }));
        }),
    });
    const ended = await end.close();
    if (ended !== undefined) return ended;
    const { kept, response, answer } = said.decide(answered, record);
    await endLease();
    if (!kept) {
      await givenBack(keys, claim);
      return { outcome: "released", response };
    }
    await keys.complete(claim, answer).catch((error: unknown) => {
      throw lost(error);
    });
    return { outcome: "completed", response };
  } catch (error) {
    await end.close().catch(() => {});
    await lease.stop();
    // What must not be repeated, and may have been done, is left to its lease: an operator has to find out.
    if (takeover === "rerun" || said.released) await givenUp(keys, claim, error);
    throw error;
  } finally {
    await lease.stop();
  }
}

interface BesidePlan {
  readonly record: RecordPolicy;
  readonly signal: AbortSignal | undefined;
  readonly leaseMs: number;
  readonly takeover: Takeover;
}

/** The one commit that a run may end with. */
class OnlyEnd {
  #ending: Promise<Ended> | undefined;
  #closed = false;

  begin(commit: () => Promise<Ended>): Promise<RunAnswer> {
    if (this.#closed || this.#ending !== undefined) {
      const refusal = new DovecoteError("ILLEGAL_TRANSITION", "the run is committed already, or over");
      return Promise.reject(refusal);
    }
    this.#ending = commit();
    const answered = this.#ending.then(({ response }) => response);
    // Its failure is the run's, whether or not the handler waits for it.
    answered.catch(() => {});
    return answered;
  }

  /** How it ended, if it was begun. A handler need not have waited for it. */
  async close(): Promise<Ended | undefined> {
    this.#closed = true;
    return this.#ending;
  }
}

/** Gives a key back after a failure, unless that may have been committed, or the key is somebody else's. */
async function givenUp<Tx, Sync extends boolean>(
  keys: Keys<Tx, Sync>,
  claim: KeyClaim,
  error: unknown,
): Promise<void> {
  const decided = isDovecoteError(error) && (error.ambiguous || error.code === "LOST_CLAIM");
  if (!decided) await keys.release(claim).catch(() => {});
}

/** Gives a key back whose work left nothing; if its lease is over, its policy decides what the next one does. */
async function givenBack<Tx, Sync extends boolean>(keys: Keys<Tx, Sync>, claim: KeyClaim): Promise<void> {
  await keys.release(claim).catch((error: unknown) => {
    if (!isRefusal(error)) throw error;
  });
}

function isRefusal(error: unknown): error is DovecoteError {
  return isDovecoteError(error, "LOST_CLAIM", "NOT_FOUND", "ILLEGAL_TRANSITION");
}

/** A claim that is refused for whatever reason was taken over, and its new holder may be done already. */
function lost<E>(error: E): E | DovecoteError {
  if (!isRefusal(error) || error.code === "LOST_CLAIM") return error;
  return new DovecoteError("LOST_CLAIM", `the claim was taken over: ${error.message}`, { cause: error });
}

/** Renews the lease until it is stopped, or lost: then the handler's signal aborts. */
function keepAlive<Tx, Sync extends boolean>(
  keys: Keys<Tx, Sync>,
  claim: KeyClaim,
  leaseMs: number,
  over: AbortController,
): { stop(): Promise<void> } {
  const end = new Wake();
  const running = (async () => {
    while ((await end.wait(systemScheduler, leaseMs / RENEWALS_PER_LEASE)) === "elapsed") {
      try {
        await keys.renew(claim, { leaseMs });
      } catch (error) {
        // Anything else may be over by the next time, while the lease lives.
        if (!isDovecoteError(error) || !error.retryable) over.abort(lost(error));
        if (over.signal.aborted) return;
      }
    }
  })();
  return {
    async stop() {
      end.notify();
      await running;
    },
  };
}

/** What a handler said beside its answer. */
class Said {
  readonly context: RunContext;
  released = false;
  #saved: RunResponse | undefined;

  constructor({ attempt, takenOver }: KeyClaim) {
    this.context = {
      attempt,
      takenOver,
      save: (response) => {
        this.#saved = response;
        this.released = false;
      },
      release: () => {
        this.released = true;
      },
    };
  }

  /** @throws `INVALID_ARGUMENT` if the handler answered what is none. */
  decide(
    given: RunResponse,
    record: RecordPolicy,
  ): { readonly kept: boolean; readonly answer: RunResponse; readonly response: RunAnswer } {
    const answer = this.#saved ?? given;
    const response = toRunAnswer(answer);
    return { kept: !this.released && (this.#saved !== undefined || record(answer)), answer, response };
  }
}

/** Rolls the transaction back. */
class NotKept {
  readonly response: RunAnswer;

  constructor(response: RunAnswer) {
    this.response = response;
  }
}
