/** Waiting without timers: turns of the event loop, each with a round trip to the database. */
import assert from "node:assert/strict";
import type { Session } from "../define-harness.ts";

/** Lets go on whatever is ready to go on. */
export async function turns(session: Session, count = 50): Promise<void> {
  for (let turn = 0; turn < count; turn++) {
    await session.probe.now();
    await new Promise<void>((resolve) => {
      setImmediate(resolve);
    });
  }
}

/** Waits until a condition holds, bounded by the database's clock. */
export async function eventually(
  session: Session,
  what: string,
  condition: () => boolean | Promise<boolean>,
  withinMs = 15_000,
): Promise<void> {
  const deadline = (await session.probe.now()) + withinMs * 1000;
  while (!(await condition())) {
    assert.ok((await session.probe.now()) < deadline, `${what}, but it did not within ${withinMs} ms`);
    await turns(session, 1);
  }
}

/** The answer of a call that must not hang: a hang is this assertion, not the timeout of the runner. */
export async function promptly<T>(
  session: Session,
  what: string,
  call: () => Promise<T>,
  withinMs?: number,
): Promise<T> {
  let settled = false;
  const answer = call().finally(() => {
    settled = true;
  });
  // A rejection is reported where `answer` is returned.
  answer.catch(() => {});
  await eventually(session, `${what} must be answered`, () => settled, withinMs);
  return answer;
}
