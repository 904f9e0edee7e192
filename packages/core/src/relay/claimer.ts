/** How much may be claimed, of which streams, and how long to wait when nothing is due. */
import { BOUNDS } from "../bounds.ts";
import type { Claim } from "../claim.ts";
import type { Handle } from "../handle.ts";
import type { Job } from "./job.ts";
import type { RelayPlan } from "./options.ts";
import type { Scheduler } from "./scheduler.ts";

interface Quota {
  readonly stream: string | undefined;
  readonly free: number;
}

export interface Claimed {
  readonly claims: readonly Claim[];
  /** The moment before the call: the leases live at least until this plus their length. */
  readonly asked: number;
}

const SHORTEST_POLL_MS = 25;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 5000;

export class Claimer {
  readonly #handle: Pick<Handle, "claim">;
  readonly #plan: RelayPlan;
  readonly #scheduler: Scheduler;
  /** Which stream is asked first. */
  #turn = 0;
  #pollMs = SHORTEST_POLL_MS;
  #failures = 0;

  constructor(handle: Pick<Handle, "claim">, plan: RelayPlan, scheduler: Scheduler) {
    this.#handle = handle;
    this.#plan = plan;
    this.#scheduler = scheduler;
  }

  /** Never more than there is free capacity for, in all and of each stream. Handlers that `overrun` take up room, too. */
  quotas(inHand: ReadonlySet<Job>, overrun: ReadonlySet<Job>): readonly Quota[] {
    const waiting = [...inHand].filter(({ state }) => state === "waiting" || state === "running");
    const settling = inHand.size - waiting.length;
    const held = [...waiting, ...overrun];
    // What waits for its settlement needs no handler, but a database that does not answer must not make it pile up.
    const free = settling > this.#plan.concurrency ? 0 : this.#plan.concurrency - held.length;
    if (free <= 0) return [];
    const { streams } = this.#plan;
    if (streams === undefined) return [{ stream: undefined, free }];
    const turned = streams.map((_, at) => streams[(at + this.#turn) % streams.length] ?? streams[0]);
    return turned.flatMap((each) => {
      if (each === undefined) return [];
      const own = each.concurrency - held.filter(({ claim }) => claim.stream === each.stream).length;
      return own > 0 ? [{ stream: each.stream, free: Math.min(own, free) }] : [];
    });
  }

  /** One call. Answers whether there may be more. */
  async claim({ stream, free }: Quota): Promise<Claimed & { readonly full: boolean }> {
    const limit = Math.min(free, BOUNDS.limit.max);
    const { worker, leaseMs } = this.#plan;
    const asked = this.#scheduler.now();
    const scope = stream === undefined ? {} : { stream };
    const claims = await this.#handle.claim({ worker, leaseMs, limit, shared: true, ...scope });
    this.#turn += 1;
    this.#failures = 0;
    if (claims.length > 0) this.#pollMs = SHORTEST_POLL_MS;
    return { claims, asked, full: claims.length === limit };
  }

  /** Nothing was due: how long until the next look. Doubles while nothing comes; jittered, so that relays part. */
  idleMs(): number {
    const bound = Math.min(this.#pollMs, this.#plan.pollMs);
    this.#pollMs = Math.min(this.#plan.pollMs, this.#pollMs * 2);
    return Math.max(1, Math.round(bound * (0.75 + this.#scheduler.random() / 4)));
  }

  /** A call failed: how long until the next one. */
  failureMs(): number {
    const bound = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(16, this.#failures));
    this.#failures += 1;
    return Math.max(1, Math.round(bound * (0.5 + this.#scheduler.random() / 2)));
  }
}
