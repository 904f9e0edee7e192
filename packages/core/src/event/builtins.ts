/**
 * Recognises built-in objects by what they are. `instanceof` fails for objects of another realm, and test runners give
 * every test file a realm of its own: there a `Buffer` is no `instanceof Uint8Array`. Nothing here throws, whatever
 * proxy it is given, except {@link builtinTag}.
 */

const typedArrayName = getter(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag);
const urlHref = getter(URL.prototype, "href");

/** Whether a value is a `Uint8Array`, or of a class derived from it such as `Buffer`. */
export function isUint8Array(value: unknown): value is Uint8Array {
  return Reflect.apply(typedArrayName, value, []) === "Uint8Array";
}

/** Milliseconds of a `Date`, NaN if it is invalid; `undefined` if the value is no `Date`. */
export function dateMs(value: unknown): number | undefined {
  return attempt(() => Date.prototype.getTime.call(value));
}

/** The text of a `URL`; `undefined` if the value is none. */
export function urlText(value: unknown): string | undefined {
  return attempt(() => String(Reflect.apply(urlHref, value, [])));
}

/** Whether a value is an object; functions are not. */
export function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

/** Whether a value is an array. `Array.isArray` throws for a revoked proxy. */
export function isArray(value: unknown): value is readonly unknown[] {
  return attempt(() => Array.isArray(value)) ?? false;
}

/** Whether a value is made by a literal, `JSON.parse` or `Object.create(null)`: neither an array nor of any class. */
export function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (!isObject(value) || isArray(value)) return false;
  const root = attempt(() => {
    const prototype: unknown = Object.getPrototypeOf(value);
    return prototype === null || Object.getPrototypeOf(prototype) === null;
  });
  return root ?? false;
}

/** The name in `[object Name]`: `Map`, `Error`, `Promise` and so on, `Object` for objects of ordinary classes. */
export function builtinTag(value: object): string {
  return Object.prototype.toString.call(value).slice("[object ".length, -1);
}

function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

function getter(prototype: object, name: string | symbol): () => unknown {
  const get = Object.getOwnPropertyDescriptor(prototype, name)?.get;
  if (get === undefined) throw new TypeError(`this platform has no accessor ${String(name)}`);
  return get;
}
