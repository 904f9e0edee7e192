import type { KeyDriver } from "@dovecote/core";
import type { AnyDriver } from "./define-harness.ts";

/** An object with some members replaced; the others keep working on the original, private fields included. */
export function override<T extends object>(original: T, members: Partial<T>): T {
  return new Proxy(original, {
    get(target, key) {
      if (Object.hasOwn(members, key)) return members[key as keyof T];
      const value: unknown = Reflect.get(target, key);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** A driver with some of the methods of its keys replaced. */
export function overrideKeys(
  driver: AnyDriver,
  methods: (keys: KeyDriver<unknown, boolean>) => Partial<KeyDriver<unknown, boolean>>,
): AnyDriver {
  const { keys } = driver;
  if (keys === undefined) throw new Error("the driver has no keys");
  return override(driver, { keys: override(keys, methods(keys)) });
}
