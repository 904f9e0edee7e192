/** What a relay is made with. */
import { checkBoolean, checkName, checkOptions, checkWhole, invalid, orDefault } from "../arguments.ts";
import { BOUNDS, type Range } from "../bounds.ts";
import type { Claim } from "../claim.ts";
import type { OutboxEvent } from "../event/event.ts";
import { checkStream } from "../event/validate.ts";
import type { Backoff } from "./backoff.ts";
import type { RelayHooks } from "./hooks.ts";

/** What a handler knows beside the event. */
export interface DeliveryContext {
  /**
   * Aborts when the outcome no longer counts: the claim was lost (`LOST_CLAIM`), the handler took too long
   * (`DELIVERY_TIMEOUT`), or the relay has to stop (`RELAY_STOPPED`). Its `reason` is that error. A handler that goes on
   * all the same keeps its place among `concurrency` until it ends.
   */
  readonly signal: AbortSignal;
  readonly tenant: string;
  readonly stream: string;
  /** The number of this claim of the event: 1 at the first. */
  readonly attempt: number;
  /** Only ever rises for an event: a downstream system that keeps the highest it saw can refuse a late writer. */
  readonly fence: { readonly rowId: number; readonly attempt: number };
  readonly claim: Claim;
}

/**
 * Delivers one event. Returns, or resolves: delivered. Throws, or rejects: tried again with backoff, or as `RetryLater`,
 * `Quarantine` and `Release` say. Runs at least once per event: make it repeatable by the event's source and id.
 */
export type Deliver = (event: OutboxEvent, context: DeliveryContext) => unknown;

/** Wraps the delivery of one event, as for tracing. Calls `deliver` once and answers what it answers. */
export type AroundDelivery = (
  event: OutboxEvent,
  context: DeliveryContext,
  deliver: () => Promise<void>,
) => Promise<void>;

export interface RelayOptions {
  readonly deliver: Deliver;
  /** Names the relay in reports. Default `relay`. */
  readonly worker?: string;
  /** How many handlers run at a time, and how many claims are in hand at most. 1 to 1000, default 16. */
  readonly concurrency?: number;
  /**
   * How long an event of a relay that died stays claimed. 100 ms to 24 h, default 30,000. Not a limit for handlers, which
   * `deliverTimeoutMs` is: leases are renewed at a third of it.
   */
  readonly leaseMs?: number;
  /**
   * How long a handler may take. Then its signal aborts, and its event is tried again as after any failure. 1 ms to 24 h.
   * Default: for ever.
   */
  readonly deliverTimeoutMs?: number;
  /** Only these streams, each with a limit of its own if it says one. Default: every stream. */
  readonly streams?: Readonly<Record<string, { readonly concurrency?: number }>>;
  /** The longest pause between looks when nothing is due, in ms. 1 ms to 1 h, default 1000. */
  readonly pollMs?: number;
  /** Claims that count, after which an event is quarantined. 1 to 2^31 - 1, default 20. */
  readonly maxAttempts?: number;
  /** Between attempts. Default: from 1 s to 1 h, each up to 30 days. */
  readonly backoff?: Partial<Backoff>;
  /** How long an outcome waits for others to be settled with, 0 to 1000 ms, default 2. */
  readonly lingerMs?: number;
  /** How long handlers may go on after the relay was told to stop. 0 to 24 h, default 10,000. */
  readonly shutdownTimeoutMs?: number;
  /** Removes what is over. Without it, or a `prune` and a `keys.sweep` of your own, the tables grow for ever. */
  readonly retention?: {
    /** Events, when delivered longer ago than this. 1 ms to 366 days. Default: none. */
    readonly deliveredMs?: number;
    /** `true`: idempotency keys and marks of the inbox, by the times that they were given. Default `false`. */
    readonly keys?: boolean;
    /** How often, in ms. 10 ms to 24 h, default 60,000. */
    readonly everyMs?: number;
  };
  readonly hooks?: RelayHooks;
  readonly around?: AroundDelivery;
}

export interface RelayPlan {
  readonly deliver: Deliver;
  readonly worker: string;
  readonly concurrency: number;
  readonly leaseMs: number;
  readonly deliverTimeoutMs: number | undefined;
  /** `undefined`: every stream. */
  readonly streams: readonly { readonly stream: string; readonly concurrency: number }[] | undefined;
  readonly pollMs: number;
  readonly maxAttempts: number;
  readonly backoff: Backoff;
  readonly lingerMs: number;
  readonly shutdownTimeoutMs: number;
  readonly retention:
    | { readonly deliveredMs: number | undefined; readonly keys: boolean; readonly everyMs: number }
    | undefined;
  readonly hooks: RelayHooks;
  readonly around: AroundDelivery | undefined;
}

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const RANGES = {
  concurrency: { min: 1, max: 1000 },
  // A third of it has to be longer than a round trip and a busy event loop.
  leaseMs: { min: 100, max: BOUNDS.leaseMs.max },
  pollMs: { min: 1, max: HOUR },
  maxAttempts: { min: 1, max: BOUNDS.attempt },
  lingerMs: { min: 0, max: 1000 },
  shutdownTimeoutMs: { min: 0, max: DAY },
  everyMs: { min: 10, max: DAY },
} satisfies Record<string, Range>;
const DELIVER_TIMEOUT_MS: Range = { min: 1, max: DAY };
const DEFAULTS = {
  concurrency: 16,
  leaseMs: 30_000,
  pollMs: 1000,
  maxAttempts: 20,
  lingerMs: 2,
  shutdownTimeoutMs: 10_000,
  everyMs: 60_000,
} satisfies Record<keyof typeof RANGES, number>;
const HOOKS: readonly (keyof RelayHooks)[] = [
  "claimed",
  "started",
  "delivered",
  "retried",
  "released",
  "quarantined",
  "lostClaim",
  "renewed",
  "error",
  "idle",
  "pruned",
  "swept",
];

/** @throws `INVALID_ARGUMENT` */
export function toRelayPlan(given: unknown): RelayPlan {
  const members = [
    ...["deliver", "worker", "concurrency", "leaseMs", "streams", "pollMs", "maxAttempts", "backoff"],
    ...["lingerMs", "deliverTimeoutMs", "shutdownTimeoutMs", "retention", "hooks", "around"],
  ];
  const options = checkOptions(given, members, "options");
  const { deliver, around } = options;
  if (typeof deliver !== "function") throw invalid("options.deliver", "a function", deliver);
  if (around !== undefined && typeof around !== "function")
    throw invalid("options.around", "a function", around);
  const whole = (name: keyof typeof RANGES): number =>
    checkWhole(orDefault(options[name], DEFAULTS[name]), RANGES[name], `options.${name}`);
  const concurrency = whole("concurrency");
  return {
    deliver: deliver as Deliver,
    around: around as AroundDelivery | undefined,
    worker: checkName(orDefault(options.worker, "relay"), BOUNDS.workerBytes, "options.worker"),
    concurrency,
    leaseMs: whole("leaseMs"),
    deliverTimeoutMs:
      options.deliverTimeoutMs === undefined
        ? undefined
        : checkWhole(options.deliverTimeoutMs, DELIVER_TIMEOUT_MS, "options.deliverTimeoutMs"),
    streams: toStreams(options.streams, concurrency),
    pollMs: whole("pollMs"),
    maxAttempts: whole("maxAttempts"),
    backoff: toBackoff(options.backoff),
    lingerMs: whole("lingerMs"),
    shutdownTimeoutMs: whole("shutdownTimeoutMs"),
    retention: toRetention(options.retention),
    hooks: toHooks(options.hooks),
  };
}

function toStreams(given: unknown, concurrency: number): RelayPlan["streams"] {
  if (given === undefined) return undefined;
  if (
    typeof given !== "object" ||
    given === null ||
    Array.isArray(given) ||
    Object.keys(given).length === 0
  ) {
    throw invalid("options.streams", "an object with a member per stream", given);
  }
  return Object.entries(given).map(([stream, limits]) => {
    const path = `options.streams.${stream}`;
    checkStream(stream, "options.streams");
    const { concurrency: own } = checkOptions(limits, ["concurrency"], path);
    const limit = checkWhole(orDefault(own, concurrency), RANGES.concurrency, `${path}.concurrency`);
    return { stream, concurrency: Math.min(limit, concurrency) };
  });
}

function toBackoff(given: unknown): Backoff {
  const { baseMs, maxMs } = checkOptions(given, ["baseMs", "maxMs"], "options.backoff");
  return {
    baseMs: checkWhole(orDefault(baseMs, 1000), BOUNDS.delayMs, "options.backoff.baseMs"),
    maxMs: checkWhole(orDefault(maxMs, HOUR), BOUNDS.delayMs, "options.backoff.maxMs"),
  };
}

function toRetention(given: unknown): RelayPlan["retention"] {
  if (given === undefined) return undefined;
  const path = "options.retention";
  const { deliveredMs, keys, everyMs } = checkOptions(given, ["deliveredMs", "keys", "everyMs"], path);
  const plan = {
    deliveredMs:
      deliveredMs === undefined
        ? undefined
        : checkWhole(deliveredMs, BOUNDS.retentionMs, `${path}.deliveredMs`),
    keys: checkBoolean(orDefault(keys, false), `${path}.keys`),
    everyMs: checkWhole(orDefault(everyMs, DEFAULTS.everyMs), RANGES.everyMs, `${path}.everyMs`),
  };
  if (plan.deliveredMs === undefined && !plan.keys)
    throw invalid(path, "deliveredMs, keys: true or both", given);
  return plan;
}

function toHooks(given: unknown): RelayHooks {
  const hooks = checkOptions(given, HOOKS, "options.hooks");
  for (const [name, hook] of Object.entries(hooks)) {
    if (hook !== undefined && typeof hook !== "function")
      throw invalid(`options.hooks.${name}`, "a function", hook);
  }
  return hooks;
}
