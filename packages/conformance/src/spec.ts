/** SPEC.md as data: it is the single source of the guarantees and of their ids. */

export interface Guarantee {
  readonly id: string;
  readonly level: 1 | 2 | 3;
  /** The capability that picks the branch, if one does. */
  readonly capability: string | undefined;
  readonly text: string;
}

/** A guarantee is a list item such as `- **FENCE-09** (2): settle racing claim: never both.` */
const ITEM = /^- \*\*([A-Z]+-\d{2})\*\* \((?<level>[123])(?:, (?<capability>\w+))?\): (?<text>.+)$/;

/** @throws if an id is listed twice, or if nothing is found. */
export function parseSpec(markdown: string): readonly Guarantee[] {
  const guarantees = new Map<string, Guarantee>();
  for (const line of markdown.split("\n")) {
    const match = ITEM.exec(line);
    if (match === null) continue;
    const id = String(match[1]);
    if (guarantees.has(id)) throw new Error(`${id} is listed twice`);
    guarantees.set(id, {
      id,
      level: Number(match.groups?.level) as Guarantee["level"],
      capability: match.groups?.capability,
      text: String(match.groups?.text),
    });
  }
  if (guarantees.size === 0) throw new Error("no guarantee was found");
  return [...guarantees.values()];
}
