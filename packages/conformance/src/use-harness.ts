/** What the suite asks of a harness, with a time limit, and with every answer checked. */
import { isDeepStrictEqual } from "node:util";
import type { Harness, Json, Session, Space } from "./define-harness.ts";
import { HarnessError } from "./harness-error.ts";
import { assertSameCapabilities, assertSession } from "./validate-harness.ts";
import { type Patience, within } from "./within.ts";

/** For one call of a harness: long enough to create a database on a busy machine. */
export const HARNESS_TIMEOUT_MS = 20_000;

const handedOut = new WeakMap<Harness, Set<string>>();

/** @throws HarnessError if the space is not one that processes can find, or is not fresh. */
export async function createSpace(harness: Harness, patience: Patience): Promise<Space> {
  const space = await asked("createSpace()", patience, () => harness.createSpace());
  if (typeof space?.dispose !== "function") {
    throw new HarnessError("createSpace() of the harness must answer { locator, dispose }");
  }
  const text = jsonOf(space.locator);
  const locators = handedOut.get(harness) ?? new Set();
  handedOut.set(harness, locators);
  if (locators.has(text)) {
    throw new HarnessError(`createSpace() of the harness handed out the locator ${text} twice`);
  }
  locators.add(text);
  return space;
}

/** @throws HarnessError if it is no session. */
export async function openSession(connect: () => Promise<Session>, patience: Patience): Promise<Session> {
  const session = await asked("connect()", patience, connect);
  assertSession(session);
  return session;
}

export function closeSession(session: Session, patience: Patience): Promise<void> {
  return asked("close() of a session", patience, () => session.close());
}

export function disposeSpace(space: Space, patience: Patience): Promise<void> {
  return asked("dispose() of a space", patience, () => space.dispose());
}

/**
 * Goes once through what every case needs, so that a harness that can do nothing is told so, once.
 *
 * @throws HarnessError | TimeLimitError
 */
export async function tryHarness(harness: Harness, patience: Patience): Promise<void> {
  const space = await createSpace(harness, patience);
  try {
    await disposeSpace(await createSpace(harness, patience), patience);
    const session = await openSession(() => harness.connect(space.locator, {}), patience);
    try {
      assertSameCapabilities(harness, session);
    } catch (error) {
      await closeSession(session, patience).catch(() => {});
      throw error;
    }
    await closeSession(session, patience);
  } catch (error) {
    // What failed first is what the author has to hear of.
    await disposeSpace(space, patience).catch(() => {});
    throw error;
  }
  await disposeSpace(space, patience);
}

async function asked<T>(what: string, patience: Patience, call: () => Promise<T>): Promise<T> {
  const named = what.includes(" of ") ? what : `${what} of the harness`;
  const answer = (async () => {
    try {
      return await call();
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new HarnessError(`${named} failed: ${reason}`, { cause: error });
    }
  })();
  return within(named, patience, answer);
}

function jsonOf(locator: Json): string {
  const text: string | undefined = JSON.stringify(locator);
  if (text === undefined || !isDeepStrictEqual(JSON.parse(text), locator)) {
    const arrives = text === undefined ? "it does not arrive" : `it arrives as ${text}`;
    throw new HarnessError(
      `createSpace() of the harness must answer a locator that is JSON, for other processes: ${arrives}`,
    );
  }
  return text;
}
