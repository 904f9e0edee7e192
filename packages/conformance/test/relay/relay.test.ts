/** What a relay does, moment by moment. */
import {
  DovecoteError,
  fingerprint,
  Quarantine,
  type RelayHooks,
  type RelayOptions,
  Release,
  RetryLater,
} from "@dovecote/core";
import { describe, expect, it, onTestFinished } from "vitest";
import { type Bench, bench } from "./manual.ts";

/** Runs a relay until the test is over, and answers how to stop it. */
function running(
  { scheduler }: Bench,
  relay: ReturnType<Bench["relay"]>,
): { readonly stop: AbortController; readonly ended: Promise<unknown> } {
  const stop = new AbortController();
  const ended = relay.run({ signal: stop.signal });
  onTestFinished(async () => {
    stop.abort();
    await scheduler.advance(100_000);
    await ended;
  });
  return { stop, ended };
}

/** A handler that waits to be let go. */
function gated() {
  const gates = new Map<string, PromiseWithResolvers<void>>();
  const signals = new Map<string, AbortSignal>();
  const started: string[] = [];
  return {
    started,
    signals,
    async deliver(
      { id }: { readonly id: string },
      { signal }: { readonly signal: AbortSignal },
    ): Promise<void> {
      const gate = Promise.withResolvers<void>();
      started.push(id);
      gates.set(id, gate);
      signals.set(id, signal);
      await gate.promise;
    },
    open: (id: string) => gates.get(id)?.resolve(),
    fail: (id: string, error: unknown) => gates.get(id)?.reject(error),
  };
}

type Seen = [name: string, event: Record<string, unknown>];

function recording(): { readonly seen: Seen[]; readonly hooks: RelayHooks; of(name: string): Seen[1][] } {
  const seen: Seen[] = [];
  const names = ["claimed", "started", "delivered", "retried", "released", "quarantined"] as const;
  const others = ["lostClaim", "renewed", "error", "idle", "pruned", "swept"] as const;
  const hooks = Object.fromEntries(
    [...names, ...others].map((name) => [
      name,
      (event: Record<string, unknown>) => void seen.push([name, event]),
    ]),
  );
  return { seen, hooks, of: (name) => seen.filter(([each]) => each === name).map(([, event]) => event) };
}

describe("claiming", () => {
  it("has never more claims in hand than free capacity, and delivers everything", async () => {
    const b = bench();
    await b.enqueue(10);
    const handler = gated();
    running(b, b.relay({ deliver: handler.deliver, concurrency: 3 }));
    await b.scheduler.advance(50);
    for (let n = 1; n <= 10; n++) {
      expect(Object.values(b.states()).filter((state) => state === "claimed").length).toBeLessThanOrEqual(3);
      expect(handler.started.length).toBe(Math.min(10, n + 2));
      handler.open(String(n));
      await b.scheduler.advance(10);
    }
    expect(new Set(Object.values(b.states()))).toEqual(new Set(["delivered"]));
  });

  it("keeps to the limit of each stream", async () => {
    const b = bench();
    await b.enqueue(5, { stream: "mail" });
    await b.enqueue(5, { stream: "orders" });
    await b.enqueue(5, { stream: "others" });
    const handler = gated();
    const streams = { mail: { concurrency: 1 }, orders: {} };
    running(b, b.relay({ deliver: handler.deliver, concurrency: 4, streams }));
    await b.scheduler.advance(100);
    expect(handler.started.filter((id) => Number(id) <= 5)).toHaveLength(1);
    expect(handler.started.filter((id) => Number(id) > 5 && Number(id) <= 10)).toHaveLength(3);
    expect(handler.started.filter((id) => Number(id) > 10)).toHaveLength(0);
  });

  it("pauses longer and longer while nothing is due, up to pollMs, and a wake-up ends the pause", async () => {
    const b = bench();
    const { hooks, of } = recording();
    const delivered: string[] = [];
    running(b, b.relay({ deliver: ({ id }) => void delivered.push(id), pollMs: 1000, hooks }));
    await b.scheduler.advance(10_000);
    const waits = of("idle").map(({ waitMs }) => Number(waitMs));
    expect(waits[0]).toBe(25);
    expect(Math.max(...waits)).toBe(1000);
    expect(waits.length).toBeLessThan(20);
    await b.enqueue(1);
    await b.scheduler.advance(5);
    expect(delivered).toEqual(["1"]);
  });
});

describe("handlers", () => {
  it("RELAY-06: whatever is thrown is recorded, and the event is tried again", async () => {
    const circular: Record<string, unknown> = {};
    circular.cause = circular;
    const thrown: readonly unknown[] = [
      undefined,
      null,
      0,
      "text",
      Symbol("symbol"),
      10n,
      circular,
      new Error("x".repeat(5_000_000)),
      new Error("NUL \0 and \ud800"),
      Object.defineProperty(new Error("hidden"), "message", {
        get() {
          throw new Error("a getter");
        },
      }),
      new Proxy(
        {},
        {
          get() {
            throw new Error("a trap");
          },
          getPrototypeOf() {
            throw new Error("a trap");
          },
        },
      ),
      Object.assign(new Error("typed"), { code: "E_TYPED" }),
    ];
    const b = bench();
    await b.enqueue(thrown.length);
    const { hooks, of } = recording();
    const relay = b.relay({
      hooks,
      deliver: ({ id }) => {
        throw thrown[Number(id) - 1];
      },
    });
    running(b, relay);
    await b.scheduler.advance(100);
    expect(of("retried")).toHaveLength(thrown.length);
    expect(of("error")).toEqual([]);
    const failures = b.store
      .ordered()
      .toSorted((one, other) => Number(one.event.id) - Number(other.event.id))
      .map(({ delivery }) => delivery?.lastFailure);
    for (const failure of failures) expect(failure?.detail.length).toBeGreaterThan(0);
    expect(failures.at(-1)).toMatchObject({ code: "E_TYPED", detail: "Error: typed" });
  });

  it("RELAY-06: a failure is known by the code of what caused it", async () => {
    const refusal = Object.assign(new Error("connect"), { code: "ECONNREFUSED" });
    const b = bench();
    await b.enqueue(1);
    const relay = b.relay({
      deliver: () => {
        throw new TypeError("fetch failed", { cause: new AggregateError([], "all", { cause: refusal }) });
      },
    });
    running(b, relay);
    await b.scheduler.advance(100);
    expect(b.store.rows.get(1)?.delivery?.lastFailure?.code).toBe("ECONNREFUSED");
  });

  it("a release without a delay waits, so that it does not spin", async () => {
    const b = bench();
    await b.enqueue(1);
    const { hooks, of } = recording();
    const relay = b.relay({
      hooks,
      deliver: () => {
        throw new Release();
      },
    });
    running(b, relay);
    await b.scheduler.advance(3500);
    expect(of("released").map(({ delayMs }) => delayMs)).toEqual([1000, 1000, 1000]);
  });

  it("that take longer than they may are aborted, and their events are tried again", async () => {
    const b = bench();
    await b.enqueue(1);
    const handler = gated();
    const { hooks, of } = recording();
    const limits = { deliverTimeoutMs: 60_000, maxAttempts: 2, backoff: { baseMs: 1000, maxMs: 1000 } };
    running(b, b.relay({ deliver: handler.deliver, hooks, concurrency: 2, ...limits }));
    await b.scheduler.advance(59_999);
    expect(handler.signals.get("1")?.aborted).toBe(false);
    await b.scheduler.advance(100);
    expect(handler.signals.get("1")?.reason).toMatchObject({ code: "DELIVERY_TIMEOUT", rowId: 1 });
    expect(of("retried")).toMatchObject([{ failure: { code: "DELIVERY_TIMEOUT" } }]);
    handler.open("1");
    await b.scheduler.advance(500);
    expect(of("delivered")).toEqual([]);
    await b.scheduler.advance(62_000);
    expect(of("quarantined")).toMatchObject([{ failure: { code: "DELIVERY_TIMEOUT" } }]);
    expect(of("delivered")).toEqual([]);
  });

  it("that end in time leave no timer behind", async () => {
    const b = bench();
    await b.enqueue(5);
    const relay = b.relay({ deliver: () => {}, deliverTimeoutMs: 60_000 });
    await Promise.all([relay.drainOnce({ budgetMs: 100_000 }), b.scheduler.advance(1000)]);
    expect(b.scheduler.timers).toBe(0);
  });

  it("that are still running when the relay has stopped leave no timer behind", async () => {
    const b = bench();
    await b.enqueue(1);
    const handler = gated();
    const limits = { deliverTimeoutMs: 80_000, shutdownTimeoutMs: 5000 };
    const { stop, ended } = running(b, b.relay({ deliver: handler.deliver, ...limits }));
    await b.scheduler.advance(10);
    stop.abort();
    await b.scheduler.advance(5001);
    expect(await ended).toMatchObject({ lost: 1 });
    expect(b.scheduler.timers).toBe(0);
  });

  it("RELAY-06: a token in what is thrown is not stored", async () => {
    const b = bench();
    const [rowId] = await b.enqueue(1);
    running(
      b,
      b.relay({
        deliver: (_, { claim }) => {
          throw new Error(`with ${claim.token.reveal()}`, { cause: claim.token.reveal() });
        },
      }),
    );
    await b.scheduler.advance(100);
    expect(b.store.rows.get(Number(rowId))?.delivery?.lastFailure?.detail).toBe(
      "Error: with [token], caused by [token]",
    );
  });

  it("a verdict stays one in a subclass with a name of its own", async () => {
    class Gone extends Quarantine {
      constructor(reason: string) {
        super(reason);
        Object.assign(this, { name: "Gone" });
      }
    }
    const b = bench();
    await b.enqueue(1);
    const relay = b.relay({
      deliver: () => {
        throw new Gone("410");
      },
    });
    running(b, relay);
    await b.scheduler.advance(100);
    expect(b.states()).toEqual({ 1: "quarantined" });
  });

  it("say what becomes of their event", async () => {
    const b = bench();
    await b.enqueue(3);
    const { hooks, of } = recording();
    const thrown = [
      new RetryLater({ delayMs: 5000, reason: "rate limited" }),
      new Quarantine("no such customer"),
      new Release({ delayMs: 7000 }),
    ];
    const relay = b.relay({
      hooks,
      deliver: ({ id }) => {
        throw thrown[Number(id) - 1];
      },
    });
    running(b, relay);
    await b.scheduler.advance(100);
    expect(of("retried")).toMatchObject([{ delayMs: 5000, failure: { detail: "rate limited" } }]);
    expect(of("quarantined")).toMatchObject([{ reason: "no such customer" }]);
    expect(of("released")).toMatchObject([{ delayMs: 7000 }]);
    expect(b.store.rows.get(3)?.delivery).toMatchObject({ state: "pending", attempt: 1, forgiven: 1 });
  });

  it("a delay that is a minimum gives way to a longer backoff", async () => {
    const b = bench();
    await b.enqueue(1);
    const { hooks, of } = recording();
    const relay = b.relay({
      hooks,
      backoff: { baseMs: 1000, maxMs: 60_000 },
      deliver: () => {
        throw new RetryLater({ delayMs: 1500, atLeast: true });
      },
    });
    running(b, relay);
    await b.scheduler.advance(10_000);
    expect(of("retried").map(({ delayMs }) => delayMs)).toEqual([1500, 2000, 4000, 8000]);
  });

  it("back off exponentially and give up after maxAttempts", async () => {
    const b = bench();
    await b.enqueue(1);
    const { hooks, of } = recording();
    const relay = b.relay({
      hooks,
      maxAttempts: 5,
      backoff: { baseMs: 1000, maxMs: 3000 },
      deliver: () => {
        throw new Error("always");
      },
    });
    running(b, relay);
    await b.scheduler.advance(60_000);
    expect(of("retried").map(({ delayMs }) => delayMs)).toEqual([1000, 2000, 3000, 3000]);
    expect(of("quarantined")).toMatchObject([
      { reason: "given up after 5 attempts, of 5", failure: { detail: "Error: always" } },
    ]);
  });

  it("an event that cannot be decoded is quarantined, and its batch mates are delivered", async () => {
    const b = bench();
    await b.enqueue(3, { data: { a: 1 } });
    const damaged = b.store.rows.get(2);
    if (damaged) b.store.rows.set(2, { ...damaged, event: { ...damaged.event, data: Buffer.from("{") } });
    running(b, b.relay({ deliver: () => {} }));
    await b.scheduler.advance(100);
    expect(b.states()).toEqual({ 1: "delivered", 2: "quarantined", 3: "delivered" });
  });

  it("what a hook throws is reported and stops nothing", async () => {
    const b = bench();
    await b.enqueue(1);
    const errors: unknown[] = [];
    const relay = b.relay({
      deliver: () => {},
      hooks: {
        delivered() {
          throw new Error("a hook");
        },
        error: ({ doing }) => void errors.push(doing),
      },
    });
    running(b, relay);
    await b.scheduler.advance(100);
    expect(b.states()).toEqual({ 1: "delivered" });
    expect(errors).toEqual(["the hook delivered"]);
  });
});

describe("leases", () => {
  it("RELAY-01: a handler longer than its lease is run once, beside another relay", async () => {
    const b = bench();
    await b.enqueue(3);
    const handler = gated();
    running(b, b.relay({ deliver: handler.deliver, leaseMs: 1000 }));
    await b.scheduler.advance(10);
    const other = gated();
    running(b, b.relay({ deliver: other.deliver, leaseMs: 1000 }));
    await b.scheduler.advance(60_000);
    for (const id of ["1", "2", "3"]) handler.open(id);
    await b.scheduler.advance(10);
    expect([handler.started, other.started]).toEqual([["1", "2", "3"], []]);
    expect(b.states()).toEqual({ 1: "delivered", 2: "delivered", 3: "delivered" });
  });

  it("renews every claim in one call, at a third of the lease", async () => {
    const b = bench();
    await b.enqueue(8);
    const calls: number[] = [];
    const relay = b.relay({ deliver: gated().deliver, leaseMs: 3000 }, ({ handle }) => ({
      renew: ((claims: never, options: never) => {
        calls.push((claims as unknown[]).length);
        return handle.renew(claims, options);
      }) as never,
    }));
    running(b, relay);
    await b.scheduler.advance(3500);
    expect(calls).toEqual([8, 8, 8]);
  });

  it("RELAY-03: a lost claim aborts its handler at once, and its outcome is discarded and reported", async () => {
    const b = bench();
    await b.enqueue(1);
    const handler = gated();
    const { hooks, of } = recording();
    running(b, b.relay({ deliver: handler.deliver, leaseMs: 3000, hooks }));
    await b.scheduler.advance(10);
    const row = b.store.rows.get(1);
    if (row?.delivery) row.delivery = { ...row.delivery, expiresAt: b.store.now() };
    const [taken] = await b.outbox.claim({ worker: "other", leaseMs: 60_000 });
    await b.scheduler.advance(1000);
    const reason: unknown = handler.signals.get("1")?.reason;
    expect(reason).toMatchObject({ code: "LOST_CLAIM", rowId: 1 });
    handler.open("1");
    await b.scheduler.advance(1000);
    expect(of("lostClaim")).toHaveLength(1);
    expect(of("delivered")).toEqual([]);
    expect(row?.delivery).toMatchObject({ state: "claimed", attempt: taken?.attempt });
  });

  it.each([
    ["in all", { concurrency: 2 }],
    ["of a stream", { concurrency: 5, streams: { orders: { concurrency: 2 } } }],
  ])(
    "a handler that goes on after its claim was lost keeps its place among the handlers %s",
    async (_, limits) => {
      const b = bench();
      await b.enqueue(4);
      const handler = gated();
      running(b, b.relay({ deliver: handler.deliver, leaseMs: 3000, ...limits }));
      await b.scheduler.advance(10);
      const [id] = handler.started;
      const row = b.store.ordered().find(({ event }) => event.id === id);
      if (row?.delivery) row.delivery = { ...row.delivery, expiresAt: b.store.now() };
      await b.outbox.claim({ worker: "other", leaseMs: 60_000, limit: 1 });
      await b.scheduler.advance(2000);
      expect(handler.signals.get(String(id))?.aborted).toBe(true);
      expect(handler.started).toHaveLength(2);
      handler.open(String(id));
      await b.scheduler.advance(1000);
      expect(handler.started).toHaveLength(3);
    },
  );

  it("a handler that ended after its lease gives its place back", async () => {
    const b = bench();
    await b.enqueue(1);
    const handler = gated();
    running(b, b.relay({ deliver: handler.deliver, leaseMs: 3000, concurrency: 1 }));
    await b.scheduler.advance(10);
    b.scheduler.stall(4000);
    handler.open("1");
    await b.scheduler.advance(10);
    await b.enqueue(1, { id: "next" });
    await b.scheduler.advance(10_000);
    expect(handler.started.length).toBeGreaterThan(1);
  });

  it("after a stall beyond the lease nothing is settled, although nobody took the claim", async () => {
    const b = bench();
    await b.enqueue(1);
    const handler = gated();
    const { hooks, of } = recording();
    let settles = 0;
    const relay = b.relay({ deliver: handler.deliver, leaseMs: 3000, hooks }, ({ handle }) => ({
      settle: (batch) => {
        settles += 1;
        return handle.settle(batch);
      },
    }));
    running(b, relay);
    await b.scheduler.advance(10);
    handler.open("1");
    b.scheduler.stall(3001);
    await b.scheduler.advance(10);
    expect([settles, of("lostClaim").length]).toEqual([0, 1]);
  });

  it("a lease that cannot be renewed ends its handler at its moment", async () => {
    const b = bench();
    await b.enqueue(1);
    const handler = gated();
    const relay = b.relay({ deliver: handler.deliver, leaseMs: 3000 }, () => ({
      renew: (async () => {
        throw new DovecoteError("CONNECTION_LOST", "down");
      }) as never,
    }));
    running(b, relay);
    await b.scheduler.advance(2990);
    expect(handler.signals.get("1")?.aborted).toBe(false);
    await b.scheduler.advance(20);
    expect(handler.signals.get("1")?.aborted).toBe(true);
  });
});

describe("settling", () => {
  it("settles many events in one call", async () => {
    const b = bench();
    await b.enqueue(50);
    const sizes: number[] = [];
    const relay = b.relay({ deliver: () => {}, concurrency: 50 }, ({ handle }) => ({
      settle: (batch) => {
        sizes.push(batch.length);
        return handle.settle(batch);
      },
    }));
    running(b, relay);
    await b.scheduler.advance(100);
    expect(sizes).toEqual([50]);
  });

  it.each([
    ["ack", undefined, "delivered"],
    ["retry", new Error("bad"), "retried"],
    ["quarantine", new Quarantine("bad"), "quarantined"],
  ])(
    "RELAY-04: the reply to a %s is lost, and what is found counts as done, unconfirmed",
    async (_, thrown, hook) => {
      const b = bench();
      await b.enqueue(1);
      const { hooks, of } = recording();
      let lost = 0;
      const options = {
        hooks,
        deliver: () => {
          if (thrown !== undefined) throw thrown;
        },
      };
      const relay = b.relay(options, ({ handle }) => ({
        settle: async (batch) => {
          const outcomes = await handle.settle(batch);
          if (lost++ === 0) throw new DovecoteError("CONNECTION_LOST", "lost", { ambiguous: true });
          return outcomes;
        },
      }));
      running(b, relay);
      await b.scheduler.advance(200);
      expect(of(hook)).toMatchObject([{ confirmed: false }]);
      expect(of("lostClaim")).toEqual([]);
    },
  );

  it("RELAY-04: a settlement that was refused without doubt is no success", async () => {
    const b = bench();
    await b.enqueue(1);
    const { hooks, of } = recording();
    const relay = b.relay({ deliver: () => {}, hooks }, ({ handle }) => ({
      settle: async (batch) => {
        await handle.settle(batch);
        return handle.settle(batch);
      },
    }));
    running(b, relay);
    await b.scheduler.advance(200);
    expect([of("delivered").length, of("lostClaim").length]).toEqual([0, 1]);
  });

  it("is tried again while the lease lives, with pauses, and given up after it", async () => {
    const b = bench();
    await b.enqueue(1);
    const { hooks, of } = recording();
    let calls = 0;
    const relay = b.relay({ deliver: () => {}, hooks, leaseMs: 3000, concurrency: 1 }, () => ({
      settle: async () => {
        calls += 1;
        throw new DovecoteError("STORE_BUSY", "busy");
      },
      renew: (async () => {
        throw new DovecoteError("STORE_BUSY", "busy");
      }) as never,
    }));
    running(b, relay);
    await b.scheduler.advance(2900);
    expect(of("lostClaim")).toEqual([]);
    expect(calls).toBeGreaterThan(3);
    expect(calls).toBeLessThan(15);
    await b.scheduler.advance(2000);
    expect(of("lostClaim")).toHaveLength(1);
  });
});

describe("suspects", () => {
  /** Claims that ended by expiry, as after a crash of a relay with these in hand. */
  async function crashed(b: Bench, count: number): Promise<void> {
    await b.enqueue(count);
    await b.outbox.admin().claim({ worker: "dead", limit: count, leaseMs: 1000, shared: true });
    await b.scheduler.advance(1001);
  }

  it("RELAY-02: run one at a time, each unshared before it starts; the others wait, shared and renewed", async () => {
    const b = bench();
    await crashed(b, 4);
    const handler = gated();
    running(b, b.relay({ deliver: handler.deliver, leaseMs: 1000, concurrency: 16 }));
    for (let n = 1; n <= 4; n++) {
      await b.scheduler.advance(5000);
      expect(handler.started).toHaveLength(n);
      const current = handler.started.at(-1);
      const shared = b.store.ordered().map(({ event, delivery }) => [event.id, delivery?.shared] as const);
      const claimed = shared.filter(([, each]) => typeof each === "boolean");
      expect(claimed).toHaveLength(5 - n);
      for (const [id, each] of claimed) expect(each, id).toBe(id !== current);
      handler.open(String(current));
    }
    await b.scheduler.advance(100);
    expect(new Set(Object.values(b.states()))).toEqual(new Set(["delivered"]));
  });

  it("RELAY-02: new events run beside a suspect", async () => {
    const b = bench();
    await crashed(b, 2);
    const handler = gated();
    running(b, b.relay({ deliver: handler.deliver, leaseMs: 1000 }));
    await b.scheduler.advance(100);
    await b.enqueue(3);
    await b.scheduler.advance(100);
    expect(handler.started).toHaveLength(4);
  });

  it("RELAY-02: one whose budget is used up is quarantined without a further run", async () => {
    const b = bench();
    await b.enqueue(1);
    for (let crash = 0; crash < 3; crash++) {
      await b.outbox.admin().claim({ worker: "dead", leaseMs: 1000, shared: false });
      await b.scheduler.advance(1001);
    }
    const handler = gated();
    const { hooks, of } = recording();
    running(b, b.relay({ deliver: handler.deliver, maxAttempts: 3, hooks }));
    await b.scheduler.advance(100);
    expect(handler.started).toEqual([]);
    expect(of("quarantined")).toMatchObject([
      { reason: "given up: 3 attempts were used, of 3, and the last one never ended" },
    ]);
  });
});

describe("stopping", () => {
  it("RELAY-07: gives back what was not started, settles what ended, leaves the rest to its lease", async () => {
    const b = bench();
    await b.enqueue(4);
    await b.outbox.admin().claim({ worker: "dead", limit: 2, leaseMs: 1000, shared: true });
    await b.scheduler.advance(1001);
    const handler = gated();
    const { hooks, of } = recording();
    const { stop, ended } = running(
      b,
      b.relay({ deliver: handler.deliver, hooks, shutdownTimeoutMs: 5000, leaseMs: 60_000 }),
    );
    await b.scheduler.advance(100);
    expect(handler.started).toHaveLength(3); // one suspect and two others; the second suspect waits
    stop.abort();
    await b.scheduler.advance(100);
    expect(of("released")).toHaveLength(1);
    handler.open("3");
    await b.scheduler.advance(100);
    expect(of("delivered")).toHaveLength(1);
    await b.scheduler.advance(5000);
    expect(handler.signals.get("4")?.reason).toMatchObject({ code: "RELAY_STOPPED" });
    expect(await ended).toMatchObject({ delivered: 1, released: 1, lost: 2 });
    expect(Object.values(b.states()).sort()).toEqual(["claimed", "claimed", "delivered", "pending"]);
    expect(b.scheduler.timers).toBe(0);
  });

  it("RELAY-07: a second signal cuts it short", async () => {
    const b = bench();
    await b.enqueue(1);
    const handler = gated();
    const stop = new AbortController();
    const force = new AbortController();
    const relay = b.relay({ deliver: handler.deliver, shutdownTimeoutMs: 60_000 });
    const ended = relay.run({ signal: stop.signal, forceSignal: force.signal });
    await b.scheduler.advance(100);
    stop.abort();
    await b.scheduler.advance(100);
    force.abort();
    await b.scheduler.advance(0);
    expect(await ended).toMatchObject({ lost: 1 });
    expect(b.scheduler.timers).toBe(0);
  });

  it("can be run again, and not twice at once", async () => {
    const b = bench();
    await b.enqueue(1);
    const relay = b.relay({ deliver: () => {} });
    const first = running(b, relay);
    await expect(relay.run()).rejects.toMatchObject({ code: "RELAY_RUNNING" });
    await b.scheduler.advance(100);
    first.stop.abort();
    await b.scheduler.advance(100);
    expect(await first.ended).toMatchObject({ delivered: 1 });
    expect(b.scheduler.timers).toBe(0);
    await b.enqueue(1);
    running(b, relay);
    await b.scheduler.advance(100);
    expect(b.states()).toEqual({ 1: "delivered", 2: "delivered" });
  });

  it("a signal that was given before stops it before it claims", async () => {
    const b = bench();
    await b.enqueue(1);
    expect(await b.relay({ deliver: () => {} }).run({ signal: AbortSignal.abort() })).toMatchObject({
      delivered: 0,
    });
    expect(b.states()).toEqual({ 1: "pending" });
  });

  it("drainOnce is not empty while a stream at its limit has more", async () => {
    const b = bench();
    await b.enqueue(10, { stream: "a" });
    const streams = { a: { concurrency: 1 }, b: {} };
    const drained = b.relay({ deliver: () => {}, streams }).drainOnce({ budgetMs: 60_000 });
    await b.scheduler.advance(10_000);
    expect(await drained).toMatchObject({ delivered: 10, empty: true });
  });

  it("drainOnce ends when nothing is due, or when its budget is spent", async () => {
    const b = bench();
    await b.enqueue(40);
    const relay = b.relay({ deliver: () => {}, concurrency: 4 });
    const drained = relay.drainOnce({ budgetMs: 10_000 });
    await b.scheduler.advance(1000);
    expect(await drained).toMatchObject({ delivered: 40, empty: true });
    await b.enqueue(1);
    const handler = gated();
    const cut = b.relay({ deliver: handler.deliver, shutdownTimeoutMs: 100 }).drainOnce({ budgetMs: 500 });
    await b.scheduler.advance(1000);
    expect(await cut).toMatchObject({ lost: 1, empty: false });
    expect(b.scheduler.timers).toBe(0);
  });
});

describe("calls that are never answered", () => {
  const never = (): Promise<never> => new Promise(() => {});

  it("a settle keeps the others waiting until its lease is over, and no longer; its loss is reported", async () => {
    const b = bench();
    await b.enqueue(3);
    const { hooks, of } = recording();
    let calls = 0;
    const relay = b.relay({ deliver: () => {}, hooks, leaseMs: 3000, concurrency: 1 }, ({ handle }) => ({
      settle: (batch) => (calls++ === 0 ? never() : handle.settle(batch)),
    }));
    running(b, relay);
    await b.scheduler.advance(2900);
    expect(of("lostClaim")).toEqual([]);
    await b.scheduler.advance(5000);
    expect(of("lostClaim").length).toBeGreaterThan(0);
    await b.scheduler.advance(20_000);
    expect(new Set(Object.values(b.states()))).toEqual(new Set(["delivered"]));
  });

  it("a renewal keeps no handler from learning that its lease is over", async () => {
    const b = bench();
    await b.enqueue(1);
    const handler = gated();
    running(
      b,
      b.relay({ deliver: handler.deliver, leaseMs: 3000 }, () => ({ renew: never as never })),
    );
    await b.scheduler.advance(2990);
    const signal = handler.signals.get("1");
    expect(signal?.aborted).toBe(false);
    await b.scheduler.advance(20);
    expect(signal?.reason).toMatchObject({ code: "LOST_CLAIM" });
  });

  it("RELAY-07: a claim does not keep a relay from stopping, and what it answers later goes back", async () => {
    const b = bench();
    await b.enqueue(2);
    const gate = Promise.withResolvers<void>();
    const relay = b.relay({ deliver: () => {}, shutdownTimeoutMs: 5000 }, ({ handle }) => ({
      claim: async (options) => {
        const claims = await handle.claim(options);
        await gate.promise;
        return claims;
      },
    }));
    const { stop, ended } = running(b, relay);
    await b.scheduler.advance(100);
    stop.abort();
    await b.scheduler.advance(100);
    gate.resolve();
    await b.scheduler.advance(100);
    expect(await ended).toMatchObject({ released: 2 });
    expect(b.states()).toEqual({ 1: "pending", 2: "pending" });
    expect(b.scheduler.timers).toBe(0);
  });

  it("RELAY-07: a claim that is never answered holds a relay no longer than its shutdownTimeoutMs", async () => {
    const b = bench();
    const { stop, ended } = running(
      b,
      b.relay({ deliver: () => {}, shutdownTimeoutMs: 5000 }, () => ({ claim: never })),
    );
    await b.scheduler.advance(100);
    stop.abort();
    await b.scheduler.advance(5001);
    expect(await ended).toMatchObject({ delivered: 0 });
    expect(b.scheduler.timers).toBe(0);
  });

  it("RELAY-07: a prune that is never answered holds a relay no longer than its shutdownTimeoutMs", async () => {
    const b = bench();
    const retention = { deliveredMs: 1000, everyMs: 1000 };
    const { stop, ended } = running(
      b,
      b.relay({ deliver: () => {}, shutdownTimeoutMs: 5000, retention }, () => ({ prune: never })),
    );
    await b.scheduler.advance(2000);
    stop.abort();
    await b.scheduler.advance(5001);
    expect(await ended).toMatchObject({ delivered: 0 });
    expect(b.scheduler.timers).toBe(0);
  });
});

describe("around", () => {
  async function outcome(around: NonNullable<RelayOptions["around"]>, deliver: () => unknown) {
    const b = bench();
    await b.enqueue(1);
    let runs = 0;
    const counted = (): unknown => {
      runs += 1;
      return deliver();
    };
    running(b, b.relay({ deliver: counted, around }));
    await b.scheduler.advance(100);
    return [b.states()[1], runs];
  }
  const fails = (): never => {
    throw new Error("bad");
  };

  it("cannot hide a failure, nor make one up of nothing, nor run a handler twice", async () => {
    expect(
      await outcome(
        async (_, __, deliver) => deliver(),
        () => {},
      ),
    ).toEqual(["delivered", 1]);
    expect(
      await outcome(
        async () => {},
        () => {},
      ),
    ).toEqual(["pending", 0]);
    expect(await outcome(async (_, __, deliver) => void deliver(), fails)).toEqual(["pending", 1]);
    expect(await outcome((_, __, deliver) => deliver().catch(() => {}), fails)).toEqual(["pending", 1]);
    const twice: RelayOptions["around"] = async (_, __, deliver) => {
      await deliver();
      await deliver();
    };
    expect(await outcome(twice, () => {})).toEqual(["delivered", 1]);
  });
});

describe("outages", () => {
  it("RELAY-05: are waited for with longer and longer pauses, and nothing is lost", async () => {
    const b = bench();
    await b.enqueue(5);
    const { hooks, of } = recording();
    let down = true;
    const relay = b.relay({ deliver: () => {}, hooks }, ({ handle }) => ({
      claim: async (options) => {
        if (down) throw new DovecoteError("STORE_UNAVAILABLE", "down", { retryable: true });
        return handle.claim(options);
      },
    }));
    running(b, relay);
    await b.scheduler.advance(60_000);
    const failures = of("error").length;
    expect(failures).toBeGreaterThan(10);
    expect(failures).toBeLessThan(30);
    await b.enqueue(1); // its wake-up does not hurry the relay on
    await b.scheduler.advance(10);
    expect(of("error").length - failures).toBeLessThanOrEqual(1);
    down = false;
    await b.scheduler.advance(5100);
    expect(new Set(Object.values(b.states()))).toEqual(new Set(["delivered"]));
  });

  it("a store that was closed ends the run, with its error", async () => {
    const b = bench();
    const ended = b.relay({ deliver: () => {} }).run();
    ended.catch(() => {});
    await b.scheduler.advance(100);
    await b.outbox.close();
    await b.scheduler.advance(2000);
    await expect(ended).rejects.toMatchObject({ code: "CLOSED" });
    expect(b.scheduler.timers).toBe(0);
  });
});

it("removes what was delivered long ago, and nothing else", async () => {
  const b = bench();
  await b.enqueue(3);
  const { hooks, of } = recording();
  const relay = b.relay({ deliver: () => {}, hooks, retention: { deliveredMs: 10_000, everyMs: 1000 } });
  running(b, relay);
  await b.scheduler.advance(5000);
  expect(b.store.rows.size).toBe(3);
  await b.scheduler.advance(10_000);
  expect(b.store.rows.size).toBe(0);
  expect(of("pruned")).toEqual([{ rows: 3 }]);
});

it("KEY-12: sweeps idempotency keys and marks of the inbox when they are worth nothing any more, and says how many", async () => {
  const b = bench();
  const { keys, inbox } = b.outbox;
  const begin = async (key: string, times: { retentionMs: number; tombstoneMs: number }) => {
    const scope = { principal: null, method: "POST", path: "/" };
    const begun = await keys.begin({
      scope,
      key,
      fingerprint: fingerprint.json("{}"),
      takeover: "rerun",
      ...times,
    });
    if (begun.outcome !== "acquired") throw new Error(`the key is ${begun.outcome}`);
    await keys.complete(begun.claim, { status: 200 });
  };
  await begin("short", { retentionMs: 2000, tombstoneMs: 0 });
  await begin("long", { retentionMs: 2000, tombstoneMs: 60_000 });
  const consumed = { consumer: "c", event: { source: "/test", id: "1" }, retentionMs: 2000 };
  await b.outbox.transaction((tx) => inbox.once(tx, consumed, () => {}));
  const { hooks, of } = recording();
  const retention = { keys: true, everyMs: 1000 };
  running(b, b.relay({ deliver: () => {}, hooks, retention }));
  await b.scheduler.advance(1500);
  expect(of("error")).toEqual([]);
  expect(of("swept")).toEqual([]);
  await b.scheduler.advance(5000);
  expect(of("swept")).toEqual([{ rows: 2 }]);
  await b.scheduler.advance(70_000);
  expect(of("swept")).toEqual([{ rows: 2 }, { rows: 1 }]);
  expect(of("pruned")).toEqual([]);
});

it.each<[string, object]>([
  ["no handler", {}],
  ["an unknown option", { deliver: () => {}, retries: 3 }],
  ["no concurrency", { deliver: () => {}, concurrency: 0 }],
  ["a lease that is too short", { deliver: () => {}, leaseMs: 99 }],
  ["no time to deliver", { deliver: () => {}, deliverTimeoutMs: 0 }],
  ["a lease of -1", { deliver: () => {}, leaseMs: -1 }],
  ["no stream", { deliver: () => {}, streams: {} }],
  ["a stream that cannot be", { deliver: () => {}, streams: { "": {} } }],
  ["an unknown hook", { deliver: () => {}, hooks: { acked: () => {} } }],
  ["a retention of nothing", { deliver: () => {}, retention: {} }],
  ["a retention that keeps keys and all else", { deliver: () => {}, retention: { keys: false } }],
  ["a retention of keys that is no flag", { deliver: () => {}, retention: { keys: 1 } }],
])("ERR-03: %s is refused before anything is claimed", (_, options) => {
  expect(() =>
    bench()
      .outbox.admin()
      .relay(options as never),
  ).toThrowError(expect.objectContaining({ code: "INVALID_ARGUMENT" }));
});
