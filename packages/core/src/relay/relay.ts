/** Delivers events: claims, keeps leases alive, runs handlers, settles. See `docs/relay.md`. */
import { checkOptions, checkWhole, invalid } from "../arguments.ts";
import { DovecoteError } from "../errors.ts";
import { type RelayOptions, toRelayPlan } from "./options.ts";
import { type RelayReport, RelayRun, type RelayStore } from "./relay-run.ts";
import { type Scheduler, systemScheduler } from "./scheduler.ts";

export interface RelayRunOptions {
  /** Stops the relay: it claims no more, gives back what it has not started, and waits for its handlers. */
  readonly signal?: AbortSignal;
  /** Cuts the waiting short, as on a second SIGTERM. */
  readonly forceSignal?: AbortSignal;
}

export interface DrainOptions extends RelayRunOptions {
  /** How long to claim, in ms. 1 ms to 24 h. Handlers under way then have their `shutdownTimeoutMs`. */
  readonly budgetMs: number;
}

export interface DrainReport extends RelayReport {
  /** Nothing was due any more. `false`: the budget ended first. */
  readonly empty: boolean;
}

/**
 * A relay. It holds nothing until it runs, and nothing after.
 *
 * @example
 * const stop = new AbortController();
 * process.once("SIGTERM", () => stop.abort());
 * const relay = dovecote.admin().relay({ deliver: async (event) => await publish(event) });
 * await relay.run({ signal: stop.signal });
 */
export interface Relay {
  /**
   * Delivers until it is told to stop; then resolves, when what was under way has ended (RELAY-07). It can be run again.
   *
   * @throws `CLOSED` if the store was closed, `RELAY_RUNNING` if it runs already.
   */
  run(options?: RelayRunOptions): Promise<RelayReport>;
  /** Delivers what is due and ends, within a budget: for functions that are started by a timer. */
  drainOnce(options: DrainOptions): Promise<DrainReport>;
}

const DAY = 24 * 3_600_000;

/** @throws `INVALID_ARGUMENT`, `UNSUPPORTED` */
export function createRelay(
  store: RelayStore,
  options: RelayOptions,
  scheduler: Scheduler = systemScheduler,
): Relay {
  const plan = toRelayPlan(options);
  if (plan.retention?.keys && store.sweep === undefined) {
    throw new DovecoteError("UNSUPPORTED", "the driver has no idempotency keys to be swept");
  }
  let running = false;

  async function once<T>(run: () => Promise<T>): Promise<T> {
    if (running)
      throw new DovecoteError("RELAY_RUNNING", "this relay runs already; make another one to run two");
    running = true;
    try {
      return await run();
    } finally {
      running = false;
    }
  }

  return {
    run: async (given) => {
      const { signal, forceSignal } = toSignals(checkOptions(given, ["signal", "forceSignal"], "options"));
      return once(async () => {
        const stop = signal ?? new AbortController().signal;
        const { empty: _, ...report } = await new RelayRun(store, plan, scheduler).run({
          stop,
          force: forceSignal,
          untilEmpty: false,
        });
        return report;
      });
    },
    drainOnce: async (given) => {
      const options = checkOptions(given, ["budgetMs", "signal", "forceSignal"], "options");
      const budgetMs = checkWhole(options.budgetMs, { min: 1, max: DAY }, "options.budgetMs");
      const { signal, forceSignal } = toSignals(options);
      return once(async () => {
        const budget = new AbortController();
        const spent = (): void => budget.abort();
        const cancel = scheduler.after(budgetMs, spent);
        signal?.addEventListener("abort", spent);
        if (signal?.aborted) spent();
        try {
          const run = new RelayRun(store, plan, scheduler);
          return await run.run({ stop: budget.signal, force: forceSignal, untilEmpty: true });
        } finally {
          cancel();
          signal?.removeEventListener("abort", spent);
        }
      });
    },
  };
}

function toSignals({ signal, forceSignal }: Record<string, unknown>): {
  readonly signal: AbortSignal | undefined;
  readonly forceSignal: AbortSignal | undefined;
} {
  const checked = (value: unknown, path: string): AbortSignal | undefined => {
    if (value === undefined || value instanceof AbortSignal) return value;
    throw invalid(path, "an AbortSignal", value);
  };
  return {
    signal: checked(signal, "options.signal"),
    forceSignal: checked(forceSignal, "options.forceSignal"),
  };
}
