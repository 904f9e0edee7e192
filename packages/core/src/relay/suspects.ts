/**
 * Events whose last holder let its lease expire: it may have died of one of them. They run one at a time, each counted
 * against its own budget alone (RELAY-02).
 *
 * A relay claims shared, so that a crash forgives whatever it had in hand. Before a suspect starts, its claim is made
 * unshared: if the process dies now, it dies of this one, or beside it, and only this one's expiry counts. Those that
 * wait stay claimed, shared and renewed, since a release would end the suspicion. The next one starts when the one before
 * is settled: until then an expiry would count against it.
 */
import type { Handle } from "../handle.ts";
import { backoffMs } from "./backoff.ts";
import type { Hooks } from "./hooks.ts";
import type { Job } from "./job.ts";
import type { RelayPlan } from "./options.ts";
import { type Scheduler, Wake } from "./scheduler.ts";

export interface SuspectsOptions {
  readonly handle: Pick<Handle, "renew">;
  readonly scheduler: Scheduler;
  readonly hooks: Hooks;
  readonly plan: RelayPlan;
  /** Starts the handler. */
  readonly start: (job: Job) => void;
  readonly lose: (job: Job, why: string) => void;
}

const RETRY_MS = 100;

export class Suspects {
  readonly #options: SuspectsOptions;
  readonly #waiting: Job[] = [];
  readonly #changed = new Wake();
  #working: Promise<void> | undefined;
  #stopped = false;

  constructor(options: SuspectsOptions) {
    this.#options = options;
  }

  add(job: Job): void {
    this.#waiting.push(job);
    this.#working ??= this.#work();
  }

  /** To be told of every job that ended. */
  ended(job: Job): void {
    if (job.suspect) this.#changed.notify();
  }

  /** Starts none any more. A renewal that is under way may never be answered: it is not waited for. */
  stop(): void {
    this.#stopped = true;
    this.#changed.notify();
  }

  async #work(): Promise<void> {
    while (!this.#stopped) {
      const job = this.#waiting.shift();
      if (job === undefined) break;
      if (!(await this.#isolate(job))) continue;
      this.#options.start(job);
      while (!job.ended && !this.#stopped) await this.#changed.wait(this.#options.scheduler);
    }
    this.#working = undefined;
  }

  /** Answers whether the job may start. */
  async #isolate(job: Job): Promise<boolean> {
    const { handle, scheduler, hooks, plan, lose } = this.#options;
    // It may be what ended the process: between two such ends there is a pause, not longer than a lease, since others wait.
    if (job.used > 1) {
      await this.#pause(job, Math.min(plan.leaseMs, backoffMs(plan.backoff, job.used - 1, scheduler)));
    }
    while (this.#goesOn(job)) {
      const asked = scheduler.now();
      try {
        const [outcome] = await handle.renew([job.claim], { leaseMs: plan.leaseMs, shared: false });
        if (job.ended) return false;
        if (outcome?.outcome !== "applied") {
          lose(job, "its renewal was refused");
          return false;
        }
        job.trustedUntil = Math.max(job.trustedUntil, asked + plan.leaseMs);
        return this.#goesOn(job);
      } catch (error) {
        hooks.error(error, "renew");
        await this.#pause(job, RETRY_MS);
      }
    }
    return false;
  }

  async #pause(job: Job, ms: number): Promise<void> {
    const until = this.#options.scheduler.now() + ms;
    while (this.#goesOn(job)) {
      const left = until - this.#options.scheduler.now();
      if (left <= 0 || (await this.#changed.wait(this.#options.scheduler, left)) === "elapsed") return;
    }
  }

  #goesOn(job: Job): boolean {
    return !this.#stopped && !job.ended;
  }
}
