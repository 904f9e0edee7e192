import { callSafely } from "./call-safely.ts";

/** Who is to be woken. For drivers. */
export class Listeners {
  readonly #listeners = new Set<{ readonly call: () => void }>();

  get size(): number {
    return this.#listeners.size;
  }

  /** The same function may be added twice. Answers what removes it, and whether that did anything. */
  add(call: () => void): () => boolean {
    const listener = { call };
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  clear(): void {
    this.#listeners.clear();
  }

  ring(): void {
    for (const { call } of [...this.#listeners]) callSafely(call);
  }
}
