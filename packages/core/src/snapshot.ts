/** Snapshots and the tail as async iterables that release what they hold on every way out. */
import { checkCursor, checkOptions, checkWhole, invalid, orDefault } from "./arguments.ts";
import { BOUNDS } from "./bounds.ts";
import { callSafely } from "./call-safely.ts";
import type { Driver, DriverSnapshot, PageRequest, StoredRow } from "./driver.ts";
import { type Entry, toEntry } from "./entry.ts";
import { DovecoteError } from "./errors.ts";
import type { TailLag } from "./handle.ts";
import { optionalStream } from "./reader.ts";
import { systemScheduler } from "./relay/scheduler.ts";
import { WakeUps } from "./wake-ups.ts";

/**
 * One consistent state of the store in ascending row id. Iterable once. Its connection is released on completion,
 * `break`, an error, or disposal, whichever comes first (PAGE-03).
 *
 * @example
 * await using snapshot = await dovecote.admin().snapshot();
 * for await (const entry of snapshot) await copy(entry);
 * for await (const entry of dovecote.admin().tail({ after: snapshot.cursor })) await copy(entry);
 */
export interface Snapshot extends AsyncIterable<Entry>, AsyncDisposable {
  /**
   * A row id: `tail` goes on from here without missing anything (PAGE-06). It is that of the last row shown, or a lower
   * one where transactions that write events were open at the start: the tail repeats what lies between.
   */
  readonly cursor: number;
  close(): Promise<void>;
}

/** The snapshots that a store has open: they end with it. */
export class OpenSnapshots {
  readonly #open = new Set<DriverSnapshot>();
  #closed = false;

  /** @throws `CLOSED` if the store was closed while the snapshot was being opened. */
  async track(opening: Promise<DriverSnapshot>): Promise<DriverSnapshot> {
    const snapshot = await opening;
    if (this.#closed) {
      await snapshot.close();
      throw new DovecoteError("CLOSED", "snapshot: the store was closed");
    }
    this.#open.add(snapshot);
    return {
      lastRowId: snapshot.lastRowId,
      cursor: snapshot.cursor,
      page: (request) => snapshot.page(request),
      close: () => {
        this.#open.delete(snapshot);
        return snapshot.close();
      },
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#open].map((snapshot) => snapshot.close()));
    this.#open.clear();
  }
}

export type PageBase = Omit<PageRequest, "after">;

export function toSnapshotBase(given: unknown, tenant: string | null): PageBase {
  const options = checkOptions(given, ["stream", "pageSize"], "options");
  const limit = checkWhole(orDefault(options.pageSize, 500), BOUNDS.limit, "options.pageSize");
  return { tenant, stream: optionalStream(options.stream), upTo: null, limit };
}

export function toSnapshot(source: DriverSnapshot, base: PageBase): Snapshot {
  let used = false;
  const close = () => source.close();
  async function* entries(): AsyncGenerator<Entry, void, undefined> {
    try {
      yield* read((after) => source.page({ ...base, after, upTo: source.lastRowId }));
    } finally {
      await close();
    }
  }
  return {
    cursor: source.cursor,
    close,
    [Symbol.asyncDispose]: close,
    [Symbol.asyncIterator]() {
      if (used) throw new DovecoteError("CLOSED", "a snapshot can be read once; open another one");
      used = true;
      return entries();
    },
  };
}

/** Every entry, until a page comes back empty. */
async function* read(
  page: (after: number) => Promise<readonly StoredRow[]>,
): AsyncGenerator<Entry, void, undefined> {
  for (let after = 0; ; ) {
    const rows = await page(after);
    for (const row of rows) {
      yield toEntry(row);
      after = row.rowId;
    }
    if (rows.length === 0) return;
  }
}

export interface TailPlan {
  readonly base: PageBase;
  readonly after: number;
  readonly pollMs: number;
  readonly signal: AbortSignal | undefined;
  readonly onLag: ((lag: TailLag) => void) | undefined;
}

export function toTailPlan(given: unknown, tenant: string | null): TailPlan {
  const options = checkOptions(
    given,
    ["after", "stream", "signal", "pageSize", "pollMs", "onLag"],
    "options",
  );
  const { signal, onLag } = options;
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw invalid("options.signal", "an AbortSignal", signal);
  }
  if (onLag !== undefined && typeof onLag !== "function") throw invalid("options.onLag", "a function", onLag);
  const limit = checkWhole(orDefault(options.pageSize, 100), BOUNDS.limit, "options.pageSize");
  return {
    base: { tenant, stream: optionalStream(options.stream), upTo: null, limit },
    after: checkCursor(orDefault(options.after, 0), "options.after"),
    pollMs: checkWhole(orDefault(options.pollMs, 1000), BOUNDS.leaseMs, "options.pollMs"),
    signal,
    onLag: onLag as TailPlan["onLag"],
  };
}

/** What waits for another transaction looks again after a quarter of the time that it has waited, at least 5 ms. */
function heldBackPauseMs(heldBackMs: number): number {
  return Math.max(5, Math.ceil(heldBackMs / 4));
}

/** Follows the store: reads what is final, then waits for a wake-up, at most `pollMs`, and reads on (PAGE-04). */
export async function* tail<Tx, Sync extends boolean>(
  driver: Driver<Tx, Sync>,
  { base, after, pollMs, signal, onLag }: TailPlan,
  closed: AbortSignal,
): AsyncGenerator<Entry, void, undefined> {
  const bell = new Bell();
  const wakeUps = driver.capabilities.notify ? wakeUpsOf(driver, () => bell.ring()) : undefined;
  wakeUps?.start();
  const stop = () => bell.ring();
  signal?.addEventListener("abort", stop);
  closed.addEventListener("abort", stop);
  try {
    let cursor = after;
    while (!signal?.aborted) {
      const { rows, upTo, lastRowId, heldBackMs } = await driver.tail({ ...base, after: cursor });
      for (const row of rows) {
        yield toEntry(row);
        cursor = row.rowId;
      }
      if (rows.length < base.limit) cursor = Math.max(cursor, upTo);
      const lag: TailLag = { cursor, lastRowId: Math.max(lastRowId, cursor), heldBackMs };
      if (onLag !== undefined) callSafely(() => onLag(lag));
      if (closed.aborted) throw new DovecoteError("CLOSED", "tail: the store was closed");
      if (rows.length > 0 || signal?.aborted) continue;
      await bell.wait(heldBackMs > 0 ? Math.min(pollMs, heldBackPauseMs(heldBackMs)) : pollMs);
      if (closed.aborted) throw new DovecoteError("CLOSED", "tail: the store was closed");
    }
  } finally {
    signal?.removeEventListener("abort", stop);
    closed.removeEventListener("abort", stop);
    await wakeUps?.stop();
  }
}

/** A listening connection that cannot be had costs time, and no event (WAKE-01): the tail polls. */
function wakeUpsOf<Tx, Sync extends boolean>(driver: Driver<Tx, Sync>, ring: () => void): WakeUps {
  const subscribe = async (listener: () => void) => ({ close: await driver.subscribe(listener) });
  return new WakeUps({ subscribe, ring, scheduler: systemScheduler, onError: () => {} });
}

/** Remembers a ring that comes while nobody waits, so that no wake-up falls between a read and the wait after it. */
class Bell {
  #rung = false;
  #wake: (() => void) | undefined;

  ring(): void {
    this.#rung = true;
    this.#wake?.();
  }

  async wait(timeoutMs: number): Promise<void> {
    if (!this.#rung) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, timeoutMs);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    this.#rung = false;
    this.#wake = undefined;
  }
}
