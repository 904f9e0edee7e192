/** Settles what handlers did, many claims in one call. */
import type { SettleOutcome } from "../driver.ts";
import { DovecoteError, isDovecoteError } from "../errors.ts";
import type { Handle, Settlement } from "../handle.ts";
import type { Hooks } from "./hooks.ts";
import type { Job } from "./job.ts";
import { type Scheduler, Wake } from "./scheduler.ts";
import type { Ending } from "./verdict.ts";

export interface SettlerOptions {
  readonly handle: Pick<Handle, "settle">;
  readonly scheduler: Scheduler;
  readonly hooks: Hooks;
  /** How long the first of a batch waits for others, in ms. */
  readonly lingerMs: number;
  /** A batch of so many does not wait. */
  readonly batch: number;
  /** Called for every job that was settled. */
  readonly onEnded: (job: Job, how: Ending["action"]) => void;
  readonly lose: (job: Job, why: string) => void;
}

interface Pending {
  readonly job: Job;
  readonly ending: Ending;
  /** A reply was lost: it may have been applied. */
  ambiguous: boolean;
}

const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 1000;
const LAST_CALL_MS = 1000;

/** The state in which a settlement leaves its row. */
const LEFT_IN = {
  ack: "delivered",
  retry: "pending",
  release: "pending",
  quarantine: "quarantined",
} as const;

/**
 * One call at a time; what comes meanwhile makes the next batch. A call that fails is made again while the leases live
 * (RELAY-04): each settlement proves its claim, so that a repetition can never undo what somebody else did since.
 */
export class Settler {
  readonly #options: SettlerOptions;
  readonly #queue: Pending[] = [];
  readonly #added = new Wake();
  #working: Promise<void> | undefined;
  #failures = 0;
  #hurried = false;
  #abandoned = false;
  /** Gives the call that is under way its last second. */
  #giveUpSoon: (() => void) | undefined;

  constructor(options: SettlerOptions) {
    this.#options = options;
  }

  add(job: Job, ending: Ending): void {
    job.state = "settling";
    this.#queue.push({ job, ending, ambiguous: false });
    this.#added.notify();
    this.#working ??= this.#work();
  }

  /** Nothing waits for others any more. */
  hurry(): void {
    this.#hurried = true;
    this.#added.notify();
  }

  /** Tries what is there once more, not for long, and leaves the rest to its lease. */
  abandon(): void {
    this.#abandoned = true;
    this.hurry();
    this.#giveUpSoon?.();
  }

  /** Until everything that was added is over. */
  async idle(): Promise<void> {
    await this.#working;
  }

  async #work(): Promise<void> {
    while (this.#queue.length > 0) {
      await this.#linger();
      const batch = this.#queue.splice(0, this.#options.batch).filter((pending) => this.#isTrusted(pending));
      const last = this.#abandoned;
      if (batch.length > 0) await this.#settle(batch);
      if (last) for (const { job } of this.#queue.splice(0)) this.#options.lose(job, "the relay was stopped");
    }
    this.#working = undefined;
  }

  async #linger(): Promise<void> {
    const { scheduler, lingerMs, batch } = this.#options;
    const until = scheduler.now() + lingerMs;
    while (this.#queue.length < batch && !this.#hurried) {
      const left = until - scheduler.now();
      if (left <= 0 || (await this.#added.wait(scheduler, left)) === "elapsed") return;
    }
  }

  async #settle(batch: readonly Pending[]): Promise<void> {
    const { handle, hooks } = this.#options;
    for (const { job } of batch) job.inFlight = true;
    try {
      const outcomes = await this.#inTime(handle.settle(batch.map(toSettlement)), batch);
      this.#failures = 0;
      for (const [at, pending] of batch.entries()) this.#finish(pending, outcomes[at]);
    } catch (error) {
      hooks.error(error, "settle");
      for (const pending of batch) pending.job.inFlight = false;
      await this.#afterFailure(batch, error);
    }
  }

  /** Whoever waits for an answer that never comes keeps everybody else waiting: not beyond the first lease of the batch. */
  async #inTime<T>(call: Promise<T>, batch: readonly Pending[]): Promise<T> {
    const { scheduler } = this.#options;
    const overdue = Promise.withResolvers<never>();
    const message = "the settlement was not answered in time";
    const giveUp = (): void =>
      overdue.reject(new DovecoteError("STORE_UNAVAILABLE", message, { retryable: true, ambiguous: true }));
    const until = Math.min(...batch.map(({ job }) => job.trustedUntil));
    const cancels = [scheduler.after(Math.max(0, until - scheduler.now()), giveUp)];
    this.#giveUpSoon = () => cancels.push(scheduler.after(LAST_CALL_MS, giveUp));
    if (this.#abandoned) this.#giveUpSoon();
    try {
      return await Promise.race([call, overdue.promise]);
    } finally {
      this.#giveUpSoon = undefined;
      for (const cancel of cancels) cancel();
      call.catch(() => {}); // it may still fail, and nobody waits for it
    }
  }

  async #afterFailure(batch: readonly Pending[], error: unknown): Promise<void> {
    const ambiguous = isDovecoteError(error) && error.ambiguous;
    for (const pending of batch) pending.ambiguous ||= ambiguous;
    if (isDovecoteError(error, "CLOSED")) {
      for (const { job } of batch) this.#options.lose(job, "the store was closed");
      return;
    }
    if (isDovecoteError(error, "INVALID_ARGUMENT")) {
      // One of them cannot be said: the others must not wait for it.
      const [only] = batch;
      if (batch.length === 1 && only !== undefined)
        this.#options.lose(only.job, "its settlement was refused");
      else for (const pending of batch) await this.#settle([pending]);
      return;
    }
    this.#queue.unshift(...batch);
    this.#failures += 1;
    await this.#pause();
  }

  async #pause(): Promise<void> {
    const { scheduler } = this.#options;
    const bound = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(16, this.#failures));
    const until = scheduler.now() + bound * (0.5 + scheduler.random() / 2);
    while (!this.#abandoned) {
      const left = until - scheduler.now();
      if (left <= 0 || (await this.#added.wait(scheduler, left)) === "elapsed") return;
    }
  }

  #isTrusted({ job }: Pending): boolean {
    if (job.ended) return false;
    if (this.#options.scheduler.now() < job.trustedUntil) return true;
    this.#options.lose(job, "its lease ended before it was settled");
    return false;
  }

  #finish({ job, ending, ambiguous }: Pending, outcome: SettleOutcome | undefined): void {
    if (job.ended) return;
    const { hooks, onEnded } = this.#options;
    const found =
      ambiguous && outcome?.outcome === "illegalTransition" && outcome.state === LEFT_IN[ending.action];
    if (outcome?.outcome !== "applied" && !found) {
      this.#options.lose(job, `the database answered ${outcome?.outcome ?? "nothing"}`);
      return;
    }
    job.end();
    const ended = { claim: job.claim, confirmed: !found };
    switch (ending.action) {
      case "ack":
        hooks.call("delivered", ended);
        break;
      case "retry":
        hooks.call("retried", { ...ended, delayMs: ending.delayMs, failure: ending.failure });
        break;
      case "release":
        hooks.call("released", { ...ended, delayMs: ending.delayMs });
        break;
      case "quarantine": {
        const { reason, failure } = ending;
        hooks.call("quarantined", { ...ended, reason, ...(failure !== undefined && { failure }) });
      }
    }
    onEnded(job, ending.action);
  }
}

function toSettlement({ job, ending }: Pending): Settlement {
  return { claim: job.claim, ...ending };
}
