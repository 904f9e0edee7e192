/** How far database time runs ahead of the clock of the history, in the worst case that its samples allow. */
import type { Probe } from "../define-harness.ts";

/** Database time may be rounded to whole milliseconds, where it is written and where it is read. */
const ROUNDING_NS = 2_000_000;

export class ClockSlack {
  readonly #probe: Probe;
  #origin: { readonly databaseUs: number; readonly ns: bigint } | undefined;
  #least = Number.POSITIVE_INFINITY;
  #most = Number.NEGATIVE_INFINITY;

  constructor(probe: Probe) {
    this.#probe = probe;
  }

  /** Database time was read at some moment between two readings of the other clock. */
  async sample(): Promise<void> {
    const before = process.hrtime.bigint();
    const databaseUs = await this.#probe.now();
    const after = process.hrtime.bigint();
    this.#origin ??= { databaseUs, ns: before };
    const databaseNs = (databaseUs - this.#origin.databaseUs) * 1000;
    this.#most = Math.max(this.#most, databaseNs - Number(before - this.#origin.ns));
    this.#least = Math.min(this.#least, databaseNs - Number(after - this.#origin.ns));
  }

  get ns(): number {
    return this.#most - this.#least + ROUNDING_NS;
  }
}
