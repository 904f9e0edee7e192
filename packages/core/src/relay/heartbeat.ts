/** Keeps the leases of a relay alive: one call for all claims in hand, at a third of the lease. */
import type { Handle } from "../handle.ts";
import type { Hooks } from "./hooks.ts";
import type { Job } from "./job.ts";
import { type Scheduler, Wake } from "./scheduler.ts";

export interface HeartbeatOptions {
  readonly handle: Pick<Handle, "renew">;
  readonly scheduler: Scheduler;
  readonly hooks: Hooks;
  readonly leaseMs: number;
  /** Every claim in hand. */
  readonly jobs: ReadonlySet<Job>;
  readonly lose: (job: Job, why: string) => void;
}

const LONGEST_RETRY_MS = 1000;
/** Of one call. */
const BATCH = 1000;

export class Heartbeat {
  readonly #options: HeartbeatOptions;
  readonly #wake = new Wake();
  #stopped = false;
  #beating: Promise<void> | undefined;

  constructor(options: HeartbeatOptions) {
    this.#options = options;
  }

  start(): void {
    this.#beating = this.#beat();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#wake.notify();
    await this.#beating;
  }

  /** A renewal that is not answered must not keep anybody from noticing that the trust is over: nobody waits for it here. */
  async #beat(): Promise<void> {
    const { scheduler, leaseMs, jobs } = this.#options;
    let next = scheduler.now() + leaseMs / 3;
    let failures = 0;
    let renewing = false;
    const renew = async (): Promise<void> => {
      renewing = true;
      const renewed = await this.#renew();
      renewing = false;
      failures = renewed ? 0 : failures + 1;
      const retry = Math.min(LONGEST_RETRY_MS, leaseMs / 10, 20 * 2 ** Math.min(failures, 16));
      next = scheduler.now() + Math.max(1, renewed ? leaseMs / 3 : retry);
      this.#wake.notify();
    };
    while (!this.#stopped) {
      const watched = [...jobs].map(({ trustedUntil }) => trustedUntil);
      const earliest = Math.min(renewing ? Number.POSITIVE_INFINITY : next, ...watched);
      await this.#wake.wait(scheduler, Math.max(0, earliest - scheduler.now()));
      if (this.#stopped) return;
      this.#endUntrusted();
      if (!renewing && scheduler.now() >= next) void renew();
    }
  }

  /** A claim came in: its trust may end before the next renewal. */
  watch(): void {
    this.#wake.notify();
  }

  #endUntrusted(): void {
    const now = this.#options.scheduler.now();
    for (const job of this.#options.jobs) {
      if (now >= job.trustedUntil) this.#options.lose(job, "its lease ended without a renewal");
    }
  }

  /** Answers whether every call was answered. */
  async #renew(): Promise<boolean> {
    const { handle, scheduler, hooks, leaseMs, jobs } = this.#options;
    const alive = [...jobs].filter((job) => !job.ended && !job.inFlight);
    let lost = 0;
    for (let at = 0; at < alive.length; at += BATCH) {
      const batch = alive.slice(at, at + BATCH);
      const asked = scheduler.now();
      try {
        const outcomes = await handle.renew(
          batch.map(({ claim }) => claim),
          { leaseMs },
        );
        for (const [place, job] of batch.entries()) {
          if (outcomes[place]?.outcome === "applied")
            job.trustedUntil = Math.max(job.trustedUntil, asked + leaseMs);
          // One that was settled meanwhile is refused as well, and is nobody's loss.
          else if (job.state === "waiting" || job.state === "running") {
            this.#options.lose(job, "its renewal was refused");
            lost += 1;
          }
        }
      } catch (error) {
        hooks.error(error, "renew");
        return false;
      }
    }
    if (alive.length > 0) hooks.call("renewed", { renewed: alive.length - lost, lost });
    return true;
  }
}
