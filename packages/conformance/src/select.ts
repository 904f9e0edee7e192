/** Which cases are run: those of some levels, or those of some ids. */
import type { Case, Level } from "./case.ts";
import { MisuseError } from "./harness-error.ts";

export const LEVELS: readonly Level[] = [1, 2, 3];

export interface Selection {
  /** Default: every level. */
  readonly levels?: readonly Level[] | undefined;
  /** Ids of SPEC.md. Default: all. */
  readonly only?: readonly string[] | undefined;
}

/**
 * The cases that were asked for, level by level, each level in the order of the suite.
 *
 * @throws MisuseError for a level or an id that there is not, and if nothing is left.
 */
export function selectCases(suite: readonly Case[], { levels = LEVELS, only }: Selection): readonly Case[] {
  const unknownLevel = levels.find((level) => !LEVELS.includes(level));
  if (unknownLevel !== undefined) {
    throw new MisuseError(`there is no level ${unknownLevel}: the levels are ${LEVELS.join(", ")}`);
  }
  for (const id of only ?? []) {
    const named = suite.filter((each) => each.id === id);
    if (named.length === 0) throw new MisuseError(`there is no case ${id}`);
    if (!named.some(({ level }) => levels.includes(level))) {
      const own = [...new Set(named.map(({ level }) => level))].join(" and ");
      throw new MisuseError(`${id} is a case of level ${own}, which was not asked for`);
    }
  }
  return LEVELS.filter((level) => levels.includes(level)).flatMap((level) =>
    suite.filter((each) => each.level === level && (only === undefined || only.includes(each.id))),
  );
}
