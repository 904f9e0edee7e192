/** Choices that a seed repeats. */
export interface Random {
  /** A whole number from 0 to below `bound`. */
  below(bound: number): number;
  /** True in `probability` of all cases. */
  chance(probability: number): boolean;
  pick<T>(list: readonly T[]): T;
}

/** The generator mulberry32: 32 bits of state are plenty for a schedule. */
export function seeded(seed: number): Random {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (bound: number): number => Math.floor(next() * bound);
  return {
    below,
    chance: (probability) => next() < probability,
    pick: (list) => list[below(list.length)] as (typeof list)[number],
  };
}
