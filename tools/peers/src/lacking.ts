/** What a library does not have. The suite hears of it as `UNSUPPORTED`, and never as a failed guarantee. */
import { DovecoteError, type Driver, isDovecoteError } from "@dovecote/core";

export type PeerDriver = Driver<unknown, boolean>;

/** @example throw lacks("plainjob", "retries"); */
export function lacks(library: string, what: string): DovecoteError {
  return new DovecoteError("UNSUPPORTED", `${library} has no ${what}`);
}

/** What neither library offers in a form that a driver could answer with. */
type Missing =
  | "redriveMany"
  | "redriveManyIn"
  | "tail"
  | "snapshot"
  | "list"
  | "stats"
  | "reconcile"
  | "subscribe"
  | "checkSchema";

export function missing(library: string): Pick<PeerDriver, Missing> {
  const none = (what: string) => async (): Promise<never> => {
    throw lacks(library, what);
  };
  return {
    redriveMany: none("redrive by filter"),
    redriveManyIn() {
      throw lacks(library, "redrive by filter");
    },
    tail: none("tail"),
    snapshot: none("snapshots"),
    list: none("list by state"),
    stats: none("counts of due, scheduled and expired jobs"),
    reconcile: none("separate event and delivery"),
    subscribe: none("subscription to commits"),
    checkSchema: none("schema check of this form"),
  };
}

/** What the library or its client throws becomes a `DovecoteError`, as a driver's author would do it (ERR-01). */
export function typed(driver: PeerDriver): PeerDriver {
  return new Proxy(driver, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name);
      if (typeof member !== "function") return member;
      return (...given: unknown[]) => {
        try {
          const answer: unknown = member.apply(target, given);
          return answer instanceof Promise ? answer.catch(native) : answer;
        } catch (error) {
          return native(error);
        }
      };
    },
  });
}

/** Errors of callbacks, which are the caller's and stay as they are. */
const callers = new WeakSet<object>();

/** Marks what a callback of the caller's throws, at once or later. */
export function fromCallback<T>(call: () => T): T {
  const mark = (error: unknown): void => {
    if (typeof error === "object" && error !== null) callers.add(error);
  };
  try {
    const answer = call();
    if (answer instanceof Promise) answer.catch(mark);
    return answer;
  } catch (error) {
    mark(error);
    throw error;
  }
}

const CODES = {
  SQLITE_BUSY: "STORE_BUSY",
  SQLITE_FULL: "STORE_FULL",
  "40001": "SERIALIZATION_FAILURE",
  "53100": "STORE_FULL",
} as const;

function native(error: unknown): never {
  if (isDovecoteError(error) || callers.has(Object(error))) throw error;
  const { code, message } = error as { readonly code?: string; readonly message?: string };
  if (message === "Transaction is already settled") throw new DovecoteError("TX_CLOSED", message);
  if (message === "Transaction function cannot return a promise")
    throw new DovecoteError("TX_ASYNC", message);
  const known = CODES[code as keyof typeof CODES] ?? "DRIVER_FAILURE";
  throw new DovecoteError(known, String(message), { cause: error });
}
