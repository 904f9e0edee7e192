/** How long calls take, as a table. */
import { performance } from "node:perf_hooks";

export class Timings {
  readonly #all = new Map<string, number[]>();

  async time<T>(name: string, call: () => Promise<T>): Promise<T> {
    const started = performance.now();
    try {
      return await call();
    } finally {
      const taken = this.#all.get(name) ?? [];
      taken.push(performance.now() - started);
      this.#all.set(name, taken);
    }
  }

  /** One line per name: how often, and the median, the 99th percentile and the longest in ms. */
  lines(): readonly string[] {
    return [...this.#all].map(([name, taken]) => {
      const sorted = taken.toSorted((a, b) => a - b);
      const at = (share: number): string =>
        (sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0).toFixed(1).padStart(8);
      return `${name.padEnd(48)} ${String(sorted.length).padStart(5)} × ${at(0.5)} ${at(0.99)} ${at(1)}`;
    });
  }
}
