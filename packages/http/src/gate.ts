/**
 * The gate: whether a request passes without a key, is answered without its handler, or is handled once. It knows nothing of
 * any framework: adapters say what came in, and send what comes out.
 */
import {
  type BeginOptions,
  BOUNDS,
  type DovecoteError,
  invalid,
  isDovecoteError,
  isThenable,
  type Keys,
  type RecordedResponse,
  type RecordRunContext,
  type RunAnswer,
  type RunContext,
  type RunOutcome,
  type RunResponse,
  type TransactionHandler,
} from "@dovecote/core";
import {
  type BodyHeaders,
  fingerprintBody,
  fingerprintParsed,
  type ReadBody,
  verifiedWhole,
} from "./body-fingerprint.ts";
import type { Counts } from "./counts.ts";
import type { IncomingBody } from "./incoming-body.ts";
import { readKeyHeader } from "./key-header.ts";
import type { Plan } from "./options.ts";
import { type Answer, problemAnswer, retryAfterSeconds } from "./problem.ts";
import { Refused, UploadAborted } from "./refused.ts";
import { type BodyMode, requestFingerprint } from "./request-fingerprint.ts";
import { toTarget } from "./target.ts";

/** What a gate needs of a Dovecote handle. */
export interface KeyStore<Tx, Sync extends boolean, Own extends Tx> {
  readonly keys: Keys<Tx, Sync, Own>;
  readonly transaction: <T>(fn: (tx: Own) => T) => Promise<Awaited<T>>;
}

/** A request as it came in. */
export interface Incoming extends BodyHeaders {
  readonly method: string;
  /** As it was asked for, with its mount prefix and its query. */
  readonly target: string;
  /** The values of its `Idempotency-Key` lines. */
  readonly keyLines: readonly string[];
  readonly body: IncomingBody | { readonly parsed: unknown };
}

/** What a handler is told, and what it can say beyond its answer. */
export interface HandlerContext {
  /** 1, and one more with every takeover. */
  readonly attempt: number;
  /** An earlier attempt ended by its expiry: outside a transaction, what it did is not known. */
  readonly takenOver: boolean;
  /** The bytes of the body, where they were read whole: not if another part of the server parsed it, nor while it streams. */
  readonly body: Uint8Array | undefined;
  /** Records the answer, whatever the policy says of it. */
  save(): void;
  /** Gives the key back as if it had never been used; in a transaction, everything is rolled back. */
  release(): void;
  /** Records that there was an answer, and not the answer: a retry is told so, with this reason of at most 255 bytes. */
  unreplayable(reason: string): void;
}

export interface TransactionContext<Own> extends HandlerContext {
  /** The transaction of the business rows, the events and the recorded answer: they commit together, or not at all. */
  readonly tx: Own;
}

export interface RecordContext<Sync extends boolean, Own> extends HandlerContext {
  /** Aborts when the claim is lost. Not when the client goes away: the work is finished, and recorded. */
  readonly signal: AbortSignal;
  /** As of `keys.run`: ends the work with rows, events and the answer in one fenced transaction. Answer what it gives. */
  readonly commit: RecordRunContext<Sync, Own>["commit"];
}

/** The handler as the adapter calls it. It answers with all of its headers. */
export type Work<Context> = (context: Context) => RunResponse | Promise<RunResponse>;

type AnyContext<Sync extends boolean, Own> = TransactionContext<Own> & RecordContext<Sync, Own>;

export type Passed =
  /** The handler was not called, or what it did was not kept: send this. */
  | { readonly outcome: "answered"; readonly answer: Answer }
  /** What the handler answered may be sent: what had to be committed is. */
  | { readonly outcome: "handled"; readonly status: "created" | "released" | undefined }
  /** The client is gone, and nothing was kept. */
  | { readonly outcome: "aborted" };

export interface Setting<Request, Tx, Sync extends boolean, Own extends Tx> {
  readonly store: KeyStore<Tx, Sync, Own>;
  readonly plan: Plan<Request>;
  readonly counts: Counts;
  readonly request: Request;
}

/** @throws what the handler throws, after the key was given back; what the functions of the options throw. */
export async function passGate<Request, Tx, Sync extends boolean, Own extends Tx>(
  setting: Setting<Request, Tx, Sync, Own>,
  incoming: Incoming,
  work: Work<AnyContext<Sync, Own>>,
): Promise<Passed> {
  const { plan, counts } = setting;
  try {
    const key = keyOf(plan, incoming);
    const passed =
      key === undefined
        ? await passThrough(setting, incoming, work)
        : await runOnce(setting, incoming, key, work);
    if (passed.outcome === "handled") counts.add(passed.status ?? "unkeyed");
    return passed;
  } catch (error) {
    if (error instanceof UploadAborted) {
      counts.add("aborted");
      return { outcome: "aborted" };
    }
    if (!(error instanceof Refused)) throw error;
    counts.add(error.problem.code);
    return { outcome: "answered", answer: problemAnswer(error.problem) };
  }
}

/** `undefined` where a request needs none. */
function keyOf<Request>(plan: Plan<Request>, { method, keyLines }: Incoming): string | undefined {
  if (!plan.methods.has(method)) return undefined;
  const header = readKeyHeader(keyLines, plan);
  switch (header.outcome) {
    case "key":
      return header.key;
    case "malformed":
      throw new Refused({ code: "key-malformed", detail: header.reason });
    case "missing":
      if (!plan.required) return undefined;
      throw new Refused({ code: "key-missing", detail: "Send a new unique key with every new request." });
  }
}

async function runOnce<Request, Tx, Sync extends boolean, Own extends Tx>(
  setting: Setting<Request, Tx, Sync, Own>,
  incoming: Incoming,
  key: string,
  work: Work<AnyContext<Sync, Own>>,
): Promise<Passed> {
  const { store, plan, request, counts } = setting;
  const { path, parameters } = toTarget(incoming.target);
  // Of a normal path, a character is a byte.
  if (path.length > BOUNDS.pathBytes) {
    throw new Refused({ code: "target-too-long", detail: `A path has ${BOUNDS.pathBytes} bytes at most.` });
  }
  const principal = await plan.principal(request);
  const read = await readBody(plan, request, incoming);
  const options = {
    scope: { principal, method: incoming.method, path },
    key,
    fingerprint: requestFingerprint({ ...incoming, parameters }, plan.body, read.fingerprint),
    takeover: plan.takeover,
    ...plan.times,
  };
  const call = new Call(plan, incoming, read, work);
  try {
    return await toPassed(await run(store, options, call, plan), setting);
  } catch (error) {
    if (call.threw(error)) throw call.aborted ? new UploadAborted(error) : error;
    if (isDovecoteError(error, "TX_ASYNC") && read.verify !== undefined) throw notStreamed(plan.body);
    const refusal = storeRefusal(error, plan.mode, call.started);
    if (refusal === undefined) throw error;
    if (plan.onUnavailable === "run" && refusal.problem.code === "store-unavailable") {
      counts.add("unprotected");
      return passThrough(setting, incoming, work, read);
    }
    throw refusal;
  }
}

function notStreamed({ kind }: BodyMode): DovecoteError {
  return invalid(
    "fingerprint",
    'one of a body that is read before its handler runs: a synchronous transaction waits for no stream. Use mode "record", and its commit',
    kind,
  );
}

function run<Request, Tx, Sync extends boolean, Own extends Tx>(
  store: KeyStore<Tx, Sync, Own>,
  options: BeginOptions,
  { record, once }: Call<Request, Sync, Own>,
  { mode }: Plan<Request>,
): Promise<RunOutcome> {
  return mode === "transaction"
    ? // Synchronous where the driver's transactions are: the adapter's types ask the handler to be.
      store.keys.run({ ...options, mode, record }, once as unknown as TransactionHandler<Sync, Own>)
    : store.keys.run({ ...options, mode, record }, once);
}

async function readBody<Request>(
  plan: Plan<Request>,
  request: Request,
  incoming: Incoming,
): Promise<ReadBody> {
  const { body } = incoming;
  if (!("parsed" in body)) return fingerprintBody(plan, request, body, incoming);
  const fingerprint = await fingerprintParsed(plan, request, body.parsed);
  return { fingerprint, bytes: undefined, verify: undefined };
}

/** What `keys.run` gives a handler in either mode. */
type Given<Sync extends boolean, Own> = RunContext &
  Partial<RecordRunContext<Sync, Own>> & { readonly tx?: Own };

/** One request's way through its handler: what was said on the way, and whose failure a failure is. */
class Call<Request, Sync extends boolean, Own> {
  /** The key was claimed, and the handler called. */
  started = false;
  readonly #plan: Plan<Request>;
  readonly #incoming: Incoming;
  readonly #read: ReadBody;
  readonly #work: Work<AnyContext<Sync, Own>>;
  #thrown: { readonly error: unknown } | undefined;
  /** What the commit of a run beside the database failed with, which its handler passes on. */
  #uncommitted: unknown;
  #saved = false;
  #unreplayable: string | undefined;

  constructor(plan: Plan<Request>, incoming: Incoming, read: ReadBody, work: Work<AnyContext<Sync, Own>>) {
    this.#plan = plan;
    this.#incoming = incoming;
    this.#read = read;
    this.#work = work;
  }

  /** What the handler threw, or the gate in its name. */
  threw(error: unknown): boolean {
    return this.#thrown !== undefined && this.#thrown.error === error;
  }

  get aborted(): boolean {
    const { body } = this.#incoming;
    return "aborted" in body && body.aborted;
  }

  readonly record = (response: RunResponse): boolean => this.#saved || this.#plan.record(response);

  /** A transaction that conflicts is repeated: what its first run said does not count. */
  readonly once = (given: Given<Sync, Own>): RunResponse | Promise<RunResponse> => {
    this.started = true;
    this.#thrown = undefined;
    this.#saved = false;
    this.#unreplayable = undefined;
    const failed = (error: unknown): never => {
      if (error !== this.#uncommitted || error === undefined) this.#thrown = { error };
      // Of a body that never came, or is another one, nothing is left to be found out.
      if (this.aborted || error instanceof UploadAborted || error instanceof Refused) given.release();
      throw error;
    };
    const { verify } = this.#read;
    const verified = async (answer: RunResponse): Promise<RunResponse> => {
      await verify?.();
      return this.#recorded(answer);
    };
    return following(
      () => this.#work(this.#context(given) as AnyContext<Sync, Own>),
      verify === undefined ? this.#recorded : verified,
      failed,
    );
  };

  #context({ save: _, commit, ...given }: Given<Sync, Own>): Partial<AnyContext<Sync, Own>> {
    return {
      ...given,
      body: this.#read.bytes,
      save: () => {
        this.#saved = true;
      },
      unreplayable: (reason) => {
        this.#unreplayable = reason;
      },
      ...(commit !== undefined && { commit: this.#commit(commit) }),
    };
  }

  /** The record is filtered, and the handler is given all that it answered. */
  #commit(commit: RecordRunContext<Sync, Own>["commit"]): RecordRunContext<Sync, Own>["commit"] {
    return async (fn) => {
      await this.#read.verify?.();
      let answered: RunResponse | undefined;
      const recorded = (answer: RunResponse): RunResponse => {
        answered = answer;
        return this.#recorded(answer);
      };
      let thrown: { readonly error: unknown } | undefined;
      const failed = (error: unknown): never => {
        thrown = { error };
        throw error;
      };
      const filtered = (tx: Own) => following(() => fn(tx) as RunResponse, recorded, failed);
      const committed = await commit(filtered as typeof fn).catch((error: unknown) => {
        if (thrown?.error !== error) this.#uncommitted = error;
        throw error;
      });
      const headers = answered !== undefined && "headers" in answered ? answered.headers : undefined;
      return { ...committed, headers: headers ?? committed.headers } satisfies RunAnswer;
    };
  }

  readonly #recorded = (answer: RunResponse): RunResponse => {
    if (this.#unreplayable !== undefined) return { status: answer.status, unreplayable: this.#unreplayable };
    if ("unreplayable" in answer) return answer;
    return { ...answer, headers: this.#plan.recorded(answer.headers ?? []) };
  };
}

/** At once where the first step answers at once: a synchronous transaction has to. */
function following<T, U>(
  first: () => T | Promise<T>,
  next: (answer: T) => U | Promise<U>,
  failed: (error: unknown) => never,
): U | Promise<U> {
  try {
    const answer = first();
    return isThenable(answer) ? Promise.resolve(answer).then(next).catch(failed) : next(answer as T);
  } catch (error) {
    return failed(error);
  }
}

/** Without a key a transaction is a plain one: kept if its answer is one to be kept. */
async function passThrough<Request, Tx, Sync extends boolean, Own extends Tx>(
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

async function toPassed<Request, Tx, Sync extends boolean, Own extends Tx>(
  outcome: RunOutcome,
  { plan, request, counts }: Setting<Request, Tx, Sync, Own>,
): Promise<Passed> {
  switch (outcome.outcome) {
    case "completed":
      return { outcome: "handled", status: "created" };
    case "released":
      return { outcome: "handled", status: "released" };
    case "replay": {
      const answer = await replayed(outcome.response, plan, request);
      counts.add("replayed");
      return { outcome: "answered", answer };
    }
    case "unreplayable":
      throw new Refused({
        code: "unreplayable",
        detail: `It was handled at ${outcome.completedAt.toISOString()}: ${outcome.reason}`,
        members: {
          completedAt: outcome.completedAt.toISOString(),
          ...(outcome.status !== undefined && { answeredStatus: outcome.status }),
        },
      });
    case "inFlight":
      throw new Refused({
        code: "in-flight",
        detail: "Ask again with the same key.",
        retryAfterSeconds: retryAfterSeconds(outcome.retryAfterMs, {
          maxSeconds: plan.maxRetryAfterSeconds,
          random: Math.random,
        }),
      });
    case "mismatch":
      throw new Refused({
        code: "mismatch",
        detail: "Send a new request with a new key.",
        status: plan.mismatchStatus,
      });
    case "indeterminate":
      throw new Refused({
        code: "indeterminate",
        detail: `It was begun at ${outcome.since.toISOString()} or before, and is not repeated: ask the operator.`,
      });
    case "expired":
      throw new Refused({
        code: "expired",
        detail: `It was handled at ${outcome.completedAt.toISOString()}.`,
        status: plan.expiredStatus,
        members: { completedAt: outcome.completedAt.toISOString() },
      });
  }
}

async function replayed<Request>(
  recorded: RecordedResponse,
  plan: Plan<Request>,
  request: Request,
): Promise<Answer> {
  if (!(await plan.authorizeReplay(request, recorded))) {
    throw new Refused({ code: "replay-forbidden", detail: "The request was handled for somebody else." });
  }
  const { status, headers, body } = recorded;
  const replay = [
    ["idempotency-status", "replayed"],
    ["idempotent-replayed", "true"],
  ] as const;
  return { status, headers: [...headers, ...replay], body };
}

/** What the client is told of a failure of ours; `undefined` if it is the application's to see. */
function storeRefusal(error: unknown, mode: Plan<never>["mode"], started: boolean): Refused | undefined {
  if (!isDovecoteError(error) || error.code === "INVALID_ARGUMENT") return undefined;
  const retry = { retryAfterSeconds: 1 };
  if (error.code === "LOST_CLAIM") {
    return new Refused({ code: "claim-lost", detail: "Ask again with the same key.", ...retry });
  }
  if (!started) return unavailable(error);
  // Beside the database its effects are there, and only the record is not.
  if (error.ambiguous || mode === "record") {
    return new Refused({ code: "outcome-unknown", detail: `The record failed: ${error.code}.`, ...retry });
  }
  return error.retryable ? unavailable(error) : undefined;
}

function unavailable({ code, retryable }: DovecoteError): Refused {
  return new Refused({
    code: "store-unavailable",
    detail: `The store answered ${code}.`,
    ...(retryable && { retryAfterSeconds: 1 }),
  });
}
