import { invalidEvent, memberPath } from "./refusal.ts";

/**
 * The own enumerable members of an object, each read exactly once: what is checked afterwards is what is stored, even
 * if a getter or a proxy would answer differently the next time. Inherited members do not count, so that a polluted
 * `Object.prototype` adds nothing to an event.
 */
export function readMembers(source: object, path: string): Map<string, unknown> {
  const members = new Map<string, unknown>();
  let reading = path;
  try {
    for (const key of Object.keys(source)) {
      reading = memberPath(path, key);
      members.set(key, (source as Record<string, unknown>)[key]);
    }
  } catch (error) {
    throw invalidEvent(reading, "could not be read: a getter or a proxy threw", error);
  }
  return members;
}
