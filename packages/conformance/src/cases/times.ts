/** What cases about time and waiting share. No moment is slept for: the database's clock is asked for it. */
import assert from "node:assert/strict";
import { performance } from "node:perf_hooks";
import { setImmediate as turn } from "node:timers/promises";
import type { Session } from "../define-harness.ts";

/** In microseconds. A clock that ticks in milliseconds may round a time down by up to one of them. */
export const TICK = 1000;

/** A call, and the database's time around it. */
export interface Timed<T> {
  readonly from: number;
  readonly to: number;
  readonly result: T;
}

export async function timed<T>({ probe }: Session, call: () => T): Promise<Timed<Awaited<T>>> {
  const from = await probe.now();
  const result = await call();
  return { from, to: await probe.now(), result };
}

/** Asserts that a stored time is the database's time during the call, plus an offset. */
export function assertTime(
  what: string,
  stored: number | null,
  { from, to }: Timed<unknown>,
  offsetMs = 0,
): void {
  assert.ok(stored !== null, `${what} must be stored`);
  const offset = offsetMs * 1000;
  assert.ok(
    stored >= from + offset - TICK && stored <= to + offset + TICK,
    `${what} must be the database's time + ${offsetMs} ms, but is ${(stored - from) / 1000} ms after it`,
  );
}

/** A moment that the database's clock reaches in some milliseconds, and that every resolution can name. */
export async function upcoming({ probe }: Session, ms: number): Promise<number> {
  return Math.ceil((await probe.now()) / TICK) * TICK + ms * 1000;
}

/**
 * Tries again and again, through a moment of the database's clock, until a try succeeds: it must not before
 * that moment, and must from its very tick on.
 */
export async function succeedsFrom<T>(
  what: string,
  { probe }: Session,
  moment: number,
  attempt: () => Promise<T | undefined>,
): Promise<T> {
  for (;;) {
    const before = await probe.now();
    const result = await attempt();
    if (result !== undefined) {
      assert.ok((await probe.now()) >= moment - TICK, `${what} must not happen early`);
      return result;
    }
    assert.ok(before < moment, `${what} must be possible from the tick on, ${before - moment} µs ago`);
    await turn();
  }
}

export interface Watched<T> {
  /** What the call came to; absent if it had not ended when watching did. */
  readonly settled?: PromiseSettledResult<T>;
  /** The longest that the event loop was blocked at a time. */
  readonly longestBlockMs: number;
}

/** Starts a call and turns the event loop until the call has ended, or for a while. */
export async function watched<T>(call: () => Promise<T>, forMs: number): Promise<Watched<T>> {
  const started = performance.now();
  let settled: PromiseSettledResult<T> | undefined;
  call().then(
    (value) => {
      settled = { status: "fulfilled", value };
    },
    (reason: unknown) => {
      settled = { status: "rejected", reason };
    },
  );
  let last = started;
  let longestBlockMs = performance.now() - started;
  for (let turns = 0; settled === undefined && (turns < 20 || last - started < forMs); turns++) {
    await turn();
    const now = performance.now();
    longestBlockMs = Math.max(longestBlockMs, now - last);
    last = now;
  }
  return { ...(settled !== undefined && { settled }), longestBlockMs };
}
