/** Waiting for SQLite's one write lock without blocking the event loop (CLAIM-08). */
import { setTimeout as delay } from "node:timers/promises";
import { DovecoteError } from "@dovecote/core";
import { toDovecoteError } from "./errors.ts";

const FIRST_PAUSE_MS = 2;
const LONGEST_PAUSE_MS = 25;

export interface LockWait {
  /** For messages, such as `claim`. */
  readonly doing: string;
  /** How long to try in all. */
  readonly budgetMs: number;
  /** Throws if there is no point in trying any longer. */
  readonly assertOpen: () => void;
}

/**
 * Makes a short synchronous attempt, and repeats it with jittered pauses while the lock is held elsewhere: waiters
 * that paused for the same time would meet again.
 *
 * @throws `STORE_BUSY`, retryable, when the budget is used up; whatever else the attempt throws, typed.
 */
export async function withLock<T>(attempt: () => T, { doing, budgetMs, assertOpen }: LockWait): Promise<T> {
  // A monotonic clock of the process: it bounds our patience, and nothing that is stored comes of it.
  const deadline = performance.now() + budgetMs;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
    assertOpen();
    try {
      return attempt();
    } catch (thrown) {
      const error = toDovecoteError(thrown, doing);
      if (error.code !== "STORE_BUSY") throw error;
      if (performance.now() >= deadline) {
        const message = `${doing}: the database stayed locked for ${budgetMs} ms`;
        throw new DovecoteError("STORE_BUSY", message, { cause: error });
      }
    }
    await delay(pauseMs * (0.5 + Math.random() / 2));
  }
}
