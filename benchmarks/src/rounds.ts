/** Measuring side by side: subjects alternate in one run, so that what the machine does meanwhile befalls them alike. */

export interface Subject<Figure extends string> {
  readonly name: string;
  measure(): Promise<Readonly<Record<Figure, number>>>;
}

export type Rounds<Figure extends string> = ReadonlyMap<string, readonly Readonly<Record<Figure, number>>[]>;

/** Every subject once per round; each round starts with another one, since the first is often the slowest. */
export async function alternate<Figure extends string>(
  subjects: readonly Subject<Figure>[],
  rounds: number,
): Promise<Rounds<Figure>> {
  const figures = new Map(subjects.map(({ name }) => [name, [] as Readonly<Record<Figure, number>>[]]));
  for (let round = 0; round < rounds; round++) {
    const first = round % subjects.length;
    for (const { name, measure } of [...subjects.slice(first), ...subjects.slice(0, first)]) {
      process.stderr.write(`round ${round + 1} of ${rounds}: ${name}\n`);
      figures.get(name)?.push(await measure());
    }
  }
  return figures;
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  return ((sorted[Math.floor(middle)] ?? Number.NaN) + (sorted[Math.ceil(middle) - 1] ?? Number.NaN)) / 2;
}

export interface Ratio {
  readonly median: number;
  readonly lowest: number;
  readonly highest: number;
}

/** One subject as a ratio to another, round by round. */
export function ratio<Figure extends string>(
  rounds: Rounds<Figure>,
  figure: Figure,
  subject: string,
  base: string,
): Ratio {
  const bases = rounds.get(base) ?? [];
  const ratios = (rounds.get(subject) ?? []).map(
    (one, round) => one[figure] / Number(bases[round]?.[figure]),
  );
  return { median: median(ratios), lowest: Math.min(...ratios), highest: Math.max(...ratios) };
}

/** A median with its spread, such as `0.91 (0.88 to 0.97)`. */
export function shown({ median: middle, lowest, highest }: Ratio): string {
  return `${middle.toFixed(2)} (${lowest.toFixed(2)} to ${highest.toFixed(2)})`;
}
