/** Waiting for SQLite's one write lock without blocking the event loop (CLAIM-08). */
import { setTimeout as delay } from "node:timers/promises";
import { DovecoteError, isDovecoteError } from "@dovecote/core";
import { isBusy, toDovecoteError } from "./errors.ts";

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
 * Makes a short synchronous attempt, the first one before this function returns, and repeats it with jittered pauses
 * while the lock is held elsewhere.
 *
 * @throws `STORE_BUSY`, retryable, when the budget is used up; whatever else the attempt throws, typed.
 */
export async function withLock<T>(attempt: () => T, { doing, budgetMs, assertOpen }: LockWait): Promise<T> {
  const deadline = performance.now() + budgetMs;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
    assertOpen();
    try {
      return attempt();
    } catch (error) {
      if (!isBusy(error) && !isDovecoteError(error, "STORE_BUSY")) throw error;
      if (performance.now() >= deadline) {
        const message = `${doing}: the database stayed locked for ${budgetMs} ms`;
        throw new DovecoteError("STORE_BUSY", message, { cause: toDovecoteError(error, doing) });
      }
    }
    await delay(pauseMs * (0.5 + Math.random() / 2));
  }
}
