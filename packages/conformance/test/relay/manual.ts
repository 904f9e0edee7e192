/** A relay on the reference store, where time passes only when the test says so. */
import { setImmediate as turn } from "node:timers/promises";
import { createDovecote, type Dovecote, type NewEvent } from "@dovecote/core";
import type { RelayOptions } from "../../../core/src/relay/options.ts";
import { createRelay, type Relay } from "../../../core/src/relay/relay.ts";
import type { RelayStore } from "../../../core/src/relay/relay-run.ts";
import type { Scheduler } from "../../../core/src/relay/scheduler.ts";
import { ReferenceDriver } from "../../src/reference/driver.ts";
import { Store } from "../../src/reference/store.ts";

interface Timer {
  readonly at: number;
  readonly callback: () => void;
}

class ManualScheduler implements Scheduler {
  readonly #timers = new Set<Timer>();
  #now = 1_000_000;

  now(): number {
    return this.#now;
  }

  after(ms: number, callback: () => void): () => void {
    const timer = { at: this.#now + ms, callback };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  async turn(): Promise<void> {
    await turn();
  }

  /** The longest that a jitter can make of a pause. */
  random(): number {
    return 1 - Number.EPSILON;
  }

  get timers(): number {
    return this.#timers.size;
  }

  /** Time passes, and every timer fires at its moment. */
  async advance(ms: number): Promise<void> {
    const until = this.#now + ms;
    for (;;) {
      await settled();
      const next = [...this.#timers].sort((a, b) => a.at - b.at)[0];
      if (next === undefined || next.at > until) break;
      this.#now = Math.max(this.#now, next.at);
      this.#timers.delete(next);
      next.callback();
    }
    this.#now = until;
    await settled();
  }

  /** Time passes while the process is stalled: no timer fires. */
  stall(ms: number): void {
    this.#now += ms;
  }
}

/** Until everything that needs no time has happened. */
async function settled(): Promise<void> {
  for (let turns = 0; turns < 5; turns++) await turn();
}

class ManualStore extends Store {
  readonly #scheduler: Scheduler;

  constructor(scheduler: Scheduler) {
    super();
    this.#scheduler = scheduler;
  }

  override now(): number {
    return Math.round(this.#scheduler.now() * 1000);
  }
}

type Calls = RelayStore["handle"] & Pick<RelayStore, "prune">;

export interface Bench {
  readonly scheduler: ManualScheduler;
  readonly store: Store;
  readonly outbox: Dovecote<unknown, boolean>;
  enqueue(count: number, overrides?: Partial<NewEvent>): Promise<readonly number[]>;
  /** `faulty` replaces what the relay calls. */
  relay(options: RelayOptions, faulty?: (store: RelayStore) => Partial<Calls>): Relay;
  /** Every state, by row id. */
  states(): Readonly<Record<number, string | undefined>>;
}

export function bench(): Bench {
  const scheduler = new ManualScheduler();
  const store = new ManualStore(scheduler);
  const outbox = createDovecote(new ReferenceDriver(store)) as unknown as Dovecote<unknown, boolean>;
  let enqueued = 0;
  return {
    scheduler,
    store,
    outbox,
    async enqueue(count, overrides = {}) {
      const events = Array.from({ length: count }, () => {
        enqueued += 1;
        return { stream: "orders", source: "/test", type: "test", id: String(enqueued), ...overrides };
      });
      const outcomes = await outbox.transaction(async (tx) => outbox.enqueueMany(tx, events));
      return outcomes.map(({ rowId }) => rowId);
    },
    relay(options, faulty) {
      const admin = outbox.admin();
      const handle: RelayStore["handle"] = {
        claim: (given) => admin.claim(given),
        renew: admin.renew.bind(admin),
        settle: (batch) => admin.settle(batch),
      };
      const relayStore: RelayStore = {
        handle,
        subscribe: (listener) => admin.subscribe(listener),
        async prune(olderThanMs) {
          const { pruned: removed, more } = await admin.prune({ all: true, olderThanMs });
          return { removed, more };
        },
        async sweep() {
          const { swept: removed, more } = await outbox.keys.sweep();
          return { removed, more };
        },
      };
      const { prune = relayStore.prune, ...calls } = faulty?.(relayStore) ?? {};
      const replaced = { ...relayStore, prune, handle: { ...handle, ...calls } };
      return createRelay(replaced, options, scheduler);
    },
    states: () => Object.fromEntries(store.ordered().map(({ rowId, delivery }) => [rowId, delivery?.state])),
  };
}
