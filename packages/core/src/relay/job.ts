/** One claim in the hands of a relay. */
import type { Claim } from "../claim.ts";
import { DovecoteError } from "../errors.ts";

/**
 * `waiting`: claimed, its handler not started. `running`: in its handler. `settling`: its outcome is on its way to the
 * database. `ended`: settled, lost, or given up.
 */
export type JobState = "waiting" | "running" | "settling" | "ended";

export class Job {
  readonly claim: Claim;
  readonly controller: AbortController = new AbortController();
  state: JobState = "waiting";
  /**
   * Until when the claim is known to be ours, by the clock of the process: the moment before the call that made or
   * renewed it, plus the lease. Nothing is done in its name afterwards, whatever the database would say.
   */
  trustedUntil: number;
  /** The settlement that is being sent proves the claim; a renewal beside it could only fail. */
  inFlight = false;

  constructor(claim: Claim, trustedUntil: number) {
    this.claim = claim;
    this.trustedUntil = trustedUntil;
  }

  /** The claim before this one ended by expiry: its holder may have died of this event (RELAY-02). */
  get suspect(): boolean {
    return this.claim.reclaimed;
  }

  /** Attempts that count, this one included. */
  get used(): number {
    return this.claim.attempt - this.claim.forgiven;
  }

  get ended(): boolean {
    return this.state === "ended";
  }

  /** Ends the job, and tells its handler why if it is still running. */
  end(reason?: DovecoteError): void {
    this.state = "ended";
    if (reason !== undefined) this.controller.abort(reason);
  }
}

/** Of a handler that took longer than it may: aborts its signal, and is the failure of its event. */
export function timedOut(job: Job, limitMs: number): DovecoteError {
  const { rowId } = job.claim;
  const message = `the handler of row ${rowId} did not end within ${limitMs} ms`;
  return new DovecoteError("DELIVERY_TIMEOUT", message, { rowId });
}

export function lostClaim(job: Job, why: string): DovecoteError {
  const { rowId } = job.claim;
  return new DovecoteError("LOST_CLAIM", `the claim of row ${rowId} was lost: ${why}`, { rowId });
}
