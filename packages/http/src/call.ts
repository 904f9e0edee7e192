/** One request's way through its handler, under a claim. */
import type { RecordRunContext, RunAnswer, RunContext, RunResponse } from "@dovecote/core";
import type { ReadBody } from "./body-fingerprint.ts";
import { following } from "./following.ts";
import type { AnyContext, Incoming, Work } from "./handling.ts";
import type { Plan } from "./options.ts";

/** What `keys.run` gives a handler in either mode. */
type Given<Sync extends boolean, Own> = RunContext &
  Partial<RecordRunContext<Sync, Own>> & { readonly tx?: Own };

/** What was said on the way, and whose failure a failure is. */
export class Call<Request, Sync extends boolean, Own> {
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
      throw error;
    };
    const { verify } = this.#read;
    const verified = async (answer: RunResponse): Promise<RunResponse> => {
      await verify?.();
      return this.#recorded(answer);
    };
    return following(
      () => this.#work.hold(this.#context(given) as AnyContext<Sync, Own>),
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
