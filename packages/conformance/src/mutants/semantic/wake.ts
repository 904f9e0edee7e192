import { breaking, breakingOutbox } from "./breaking.ts";
import type { SemanticMutant } from "./define.ts";

export const wake: readonly SemanticMutant[] = [
  breaking(
    "wakes-before-the-commit",
    "WAKE-01",
    /must not arrive before the commit/,
    (driver) => {
      const listeners = new Set<() => void>();
      return {
        subscribe(listener) {
          listeners.add(listener);
          return driver.subscribe(listener);
        },
        enqueue(tx, tenant, rows) {
          for (const listener of listeners) listener();
          return driver.enqueue(tx, tenant, rows);
        },
      };
    },
    { notify: true },
  ),
  breaking(
    "never-wakes",
    "WAKE-01",
    /must wake the subscriber/,
    () => ({ subscribe: async () => async () => {} }),
    { notify: true },
  ),
  breakingOutbox(
    "subscription-that-never-rings",
    "WAKE-01",
    /subscribe without notify must be refused/,
    () => {
      const close = async (): Promise<void> => {};
      return { subscribe: async () => ({ close, [Symbol.asyncDispose]: close }) };
    },
    { notify: false },
  ),
];
