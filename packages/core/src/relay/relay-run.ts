/** One run of a relay, from its first claim to the last settlement. */
import { type Claim, isDecoded } from "../claim.ts";
import { DovecoteError, isDovecoteError } from "../errors.ts";
import type { Handle } from "../handle.ts";
import { type Subscribe, WakeUps } from "../wake-ups.ts";
import { Claimer } from "./claimer.ts";
import { delivered, failed } from "./delivery.ts";
import { Heartbeat } from "./heartbeat.ts";
import { Hooks } from "./hooks.ts";
import { Housekeeping, type Removing } from "./housekeeping.ts";
import { Job, lostClaim, timedOut } from "./job.ts";
import type { RelayPlan } from "./options.ts";
import { type Scheduler, Wake } from "./scheduler.ts";
import { Settler } from "./settler.ts";
import { Suspects } from "./suspects.ts";
import type { Ending } from "./verdict.ts";

/** What a relay needs of a store. */
export interface RelayStore extends Removing {
  readonly handle: Pick<Handle, "claim" | "renew" | "settle">;
  /** Calls back when events may have become due; `undefined` where there are no wake-ups. */
  readonly subscribe: Subscribe | undefined;
}

/** How many claims ended in each way. */
export interface RelayReport {
  readonly delivered: number;
  readonly retried: number;
  readonly released: number;
  readonly quarantined: number;
  readonly lost: number;
}

const COUNTED = {
  ack: "delivered",
  retry: "retried",
  release: "released",
  quarantine: "quarantined",
} as const;

export interface RunOptions {
  /** Stops the run: no more claims, what is under way may end. */
  readonly stop: AbortSignal;
  /** Cuts the stopping short. */
  readonly force: AbortSignal | undefined;
  /** Ends by itself when nothing is due. */
  readonly untilEmpty: boolean;
}

export class RelayRun {
  readonly #store: RelayStore;
  readonly #plan: RelayPlan;
  readonly #scheduler: Scheduler;
  readonly #hooks: Hooks;
  readonly #jobs = new Set<Job>();
  /** Handlers that go on although nothing waits for them any more: their claim is lost, or their time is over. */
  readonly #overrun = new Set<Job>();
  /** Events may have become due, or the relay is to stop. */
  readonly #due = new Wake();
  /** A claim ended, or the relay is to stop. */
  readonly #freed = new Wake();
  readonly #claimer: Claimer;
  readonly #settler: Settler;
  readonly #heartbeat: Heartbeat;
  readonly #suspects: Suspects;
  readonly #counts = { delivered: 0, retried: 0, released: 0, quarantined: 0, lost: 0 };
  #stopping = false;
  /** Whoever waits for a claim is told. */
  #onStopped: (() => void) | undefined;
  /** A claim that was under way when the relay was told to stop: what it still answers goes back. */
  #lateClaim: Promise<void> | undefined;
  /** The end of what runs beside the deliveries. */
  #closing: Promise<void> | undefined;

  constructor(store: RelayStore, plan: RelayPlan, scheduler: Scheduler) {
    this.#store = store;
    this.#plan = plan;
    this.#scheduler = scheduler;
    const hooks = new Hooks(plan.hooks);
    this.#hooks = hooks;
    const { handle } = store;
    const lose = (job: Job, why: string): void => this.#lose(job, why);
    const { leaseMs, lingerMs, concurrency } = plan;
    this.#claimer = new Claimer(handle, plan, scheduler);
    this.#settler = new Settler({
      handle,
      scheduler,
      hooks,
      lingerMs,
      batch: Math.max(1, concurrency),
      onEnded: (job, how) => this.#ended(job, COUNTED[how]),
      lose,
    });
    this.#heartbeat = new Heartbeat({
      handle,
      scheduler,
      hooks,
      leaseMs,
      jobs: this.#jobs,
      lose,
    });
    this.#suspects = new Suspects({
      handle,
      scheduler,
      hooks,
      plan,
      start: (job) => void this.#start(job),
      lose,
    });
  }

  /** Rejects only with what no waiting mends: `CLOSED`, `UNSUPPORTED`. */
  async run({ stop, force, untilEmpty }: RunOptions): Promise<RelayReport & { readonly empty: boolean }> {
    const onStop = (): void => {
      this.#stopping = true;
      this.#onStopped?.();
      this.#suspects.stop();
      this.#settler.hurry();
      this.#due.notify();
      this.#freed.notify();
    };
    stop.addEventListener("abort", onStop);
    if (stop.aborted) onStop();
    this.#heartbeat.start();
    const { retention } = this.#plan;
    const housekeeping = retention && new Housekeeping(this.#store, retention, this.#scheduler, this.#hooks);
    housekeeping?.start();
    const { subscribe } = this.#store;
    const wakeUps =
      subscribe &&
      new WakeUps({
        subscribe,
        ring: () => this.#due.notify(),
        scheduler: this.#scheduler,
        onError: (error, doing) => this.#hooks.error(error, doing),
      });
    wakeUps?.start();
    let empty = false;
    try {
      empty = await this.#deliverAll(untilEmpty);
    } finally {
      onStop();
      stop.removeEventListener("abort", onStop);
      this.#closing = Promise.all([wakeUps?.stop(), housekeeping?.stop()]).then(() => {
        this.#closing = undefined;
        this.#freed.notify();
      });
      await this.#shutDown(force);
      await this.#heartbeat.stop();
    }
    return { ...this.#counts, empty };
  }

  /** Answers whether it ended because nothing was due. */
  async #deliverAll(untilEmpty: boolean): Promise<boolean> {
    while (!this.#stopping) {
      const quotas = this.#claimer.quotas(this.#jobs, this.#overrun);
      if (quotas.length === 0) {
        await this.#freed.wait(this.#scheduler);
        continue;
      }
      // Whatever was in hand before may have become due again meanwhile, and a stream at its limit is not asked.
      const idle = this.#jobs.size === 0;
      const found = await this.#claimOnce(quotas);
      // On a synchronous driver nothing else would ever have its turn.
      await this.#scheduler.turn();
      if (found === "more") continue;
      if (untilEmpty && found === "nothing" && idle && this.#jobs.size === 0) return true;
      const waitMs = found === "failed" ? this.#claimer.failureMs() : this.#claimer.idleMs();
      if (found === "nothing") this.#hooks.call("idle", { waitMs });
      await this.#pause(waitMs, found === "failed");
    }
    return false;
  }

  async #claimOnce(quotas: ReturnType<Claimer["quotas"]>): Promise<"more" | "some" | "nothing" | "failed"> {
    let found: "more" | "some" | "nothing" = "nothing";
    for (const { stream } of quotas) {
      // What was claimed for the stream before counts.
      const quota = this.#claimer.quotas(this.#jobs, this.#overrun).find((each) => each.stream === stream);
      if (quota === undefined || this.#stopping) continue;
      try {
        const call = this.#claimer.claim(quota);
        const stopped = Promise.withResolvers<undefined>();
        this.#onStopped = () => stopped.resolve(undefined);
        const claimed = await Promise.race([call, stopped.promise]);
        this.#onStopped = undefined;
        if (claimed === undefined) {
          this.#awaitLate(call);
          return "nothing";
        }
        const { claims, asked, full } = claimed;
        for (const claim of claims) this.#accept(claim, asked + this.#plan.leaseMs);
        if (full) found = "more";
        else if (claims.length > 0 && found === "nothing") found = "some";
      } catch (error) {
        if (isDovecoteError(error, "CLOSED", "UNSUPPORTED", "INVALID_ARGUMENT")) throw error;
        this.#hooks.error(error, "claim");
        return "failed";
      }
    }
    return found;
  }

  #awaitLate(call: ReturnType<Claimer["claim"]>): void {
    const accepted = call.then(
      ({ claims, asked }) => {
        for (const claim of claims) this.#accept(claim, asked + this.#plan.leaseMs);
      },
      (error: unknown) => this.#hooks.error(error, "claim"),
    );
    this.#lateClaim = accepted.then(() => {
      this.#lateClaim = undefined;
      this.#freed.notify();
    });
  }

  /** A wake-up ends it; the end of a handler does not, since nothing more was due. */
  async #pause(ms: number, failed: boolean): Promise<void> {
    const until = this.#scheduler.now() + ms;
    for (;;) {
      const left = until - this.#scheduler.now();
      if (left <= 0 || this.#stopping) return;
      const how = await this.#due.wait(this.#scheduler, left);
      // After a failure nothing is asked before the pause is over, however many wake-ups come.
      if (how === "elapsed" || !failed) return;
    }
  }

  #accept(claim: Claim, trustedUntil: number): void {
    const job = new Job(claim, trustedUntil);
    this.#jobs.add(job);
    this.#heartbeat.watch();
    this.#hooks.call("claimed", { claim, suspect: job.suspect });
    // The call took longer than the lease: nobody knows who holds the event now.
    if (this.#scheduler.now() >= trustedUntil) {
      this.#lose(job, "its lease ended before it was known to be ours");
      return;
    }
    if (this.#stopping) {
      this.#settler.add(job, { action: "release", delayMs: 0 });
      return;
    }
    if (!isDecoded(claim.event)) {
      this.#settler.add(job, {
        action: "quarantine",
        reason: `cannot be decoded: ${claim.event.undecodable}`,
      });
      return;
    }
    const { maxAttempts } = this.#plan;
    if (job.used > maxAttempts) {
      const reason = `given up: ${job.used - 1} attempts were used, of ${maxAttempts}, and the last one never ended`;
      this.#settler.add(job, { action: "quarantine", reason });
      return;
    }
    if (job.suspect) this.#suspects.add(job);
    else void this.#start(job);
  }

  async #start(job: Job): Promise<void> {
    const { event } = job.claim;
    if (job.ended || !isDecoded(event)) return;
    job.state = "running";
    this.#hooks.call("started", { claim: job.claim });
    const { deliverTimeoutMs } = this.#plan;
    const inTime =
      deliverTimeoutMs === undefined
        ? undefined
        : this.#scheduler.after(deliverTimeoutMs, () => this.#timeOut(job, deliverTimeoutMs));
    // No timer outlives the claim, also where the handler does.
    if (inTime !== undefined) job.controller.signal.addEventListener("abort", inTime, { once: true });
    const ending = await delivered(job, event, this.#plan, this.#scheduler);
    inTime?.();
    // Lost or timed out meanwhile, and said so: the outcome is discarded (RELAY-03).
    if (job.state === "running") this.#settle(job, ending);
    this.#overrun.delete(job);
    this.#freed.notify();
  }

  #timeOut(job: Job, limitMs: number): void {
    if (job.state !== "running") return;
    this.#overrun.add(job);
    const error = timedOut(job, limitMs);
    this.#settle(job, failed(job, error, this.#plan, this.#scheduler));
    job.controller.abort(error);
  }

  #settle(job: Job, ending: Ending): void {
    // The process stalled through its lease: nobody knows who holds the event now.
    if (this.#scheduler.now() >= job.trustedUntil) this.#lose(job, "its lease ended before its handler did");
    else this.#settler.add(job, ending);
  }

  #lose(job: Job, why: string): void {
    if (job.ended) return;
    if (job.state === "running") this.#overrun.add(job);
    const error = lostClaim(job, why);
    job.end(error);
    this.#hooks.call("lostClaim", { claim: job.claim, error });
    this.#ended(job, "lost");
  }

  #ended(job: Job, how: keyof RelayReport): void {
    this.#jobs.delete(job);
    this.#counts[how] += 1;
    this.#suspects.ended(job);
    this.#freed.notify();
  }

  #busy(): boolean {
    return this.#jobs.size > 0 || this.#lateClaim !== undefined || this.#closing !== undefined;
  }

  /** RELAY-07: what was not started goes back at once, what ended is settled, the rest is left to its lease. */
  async #shutDown(force: AbortSignal | undefined): Promise<void> {
    for (const job of this.#jobs) {
      if (job.state === "waiting") this.#settler.add(job, { action: "release", delayMs: 0 });
    }
    const until = this.#scheduler.now() + this.#plan.shutdownTimeoutMs;
    const cutShort = (): void => this.#freed.notify();
    force?.addEventListener("abort", cutShort);
    try {
      while (this.#busy() && force?.aborted !== true) {
        const left = until - this.#scheduler.now();
        if (left <= 0) break;
        await this.#freed.wait(this.#scheduler, left);
      }
    } finally {
      force?.removeEventListener("abort", cutShort);
    }
    const message = "the relay was told to stop, and its handlers' time is over";
    const stopped = new DovecoteError("RELAY_STOPPED", message);
    for (const job of this.#jobs) {
      if (job.state !== "running") continue;
      job.end(stopped);
      this.#hooks.call("lostClaim", { claim: job.claim, error: stopped });
      this.#ended(job, "lost");
    }
    this.#settler.abandon();
    await this.#settler.idle();
  }
}
