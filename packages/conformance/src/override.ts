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
