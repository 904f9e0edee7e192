/** Guarantees that a driver is known not to keep. Their cases are run, and have to fail. */
import type { Case } from "./case.ts";
import type { Deviation } from "./define-harness.ts";
import { MisuseError } from "./harness-error.ts";

/**
 * What the end of a case says about the deviation of its id. `deviates`: it failed, as it has to. `stale`: all cases of
 * the id have been run, and none failed. `undecided`: it held, and another case of the id may still fail.
 */
export type Finding = "deviates" | "stale" | "undecided";

export class KnownDeviations {
  readonly #byId = new Map<string, Deviation>();
  /** Cases of an id that have not been run yet, or undefined once one has failed. */
  readonly #open = new Map<string, number | undefined>();

  /** @throws MisuseError for an entry that is incomplete, or an id that there is not. */
  constructor(deviations: readonly Deviation[], suite: readonly Case[]) {
    for (const deviation of deviations) {
      const { id, reason, issue } = deviation;
      for (const [member, value] of Object.entries({ id, reason, issue })) {
        if (typeof value !== "string" || value === "") {
          throw new MisuseError(`a deviation needs id, reason and issue: ${member} is missing`);
        }
      }
      const count = suite.filter((each) => each.id === id).length;
      if (count === 0) throw new MisuseError(`deviations: there is no case ${id}`);
      if (this.#byId.has(id)) throw new MisuseError(`deviations: ${id} is listed twice`);
      this.#byId.set(id, deviation);
      this.#open.set(id, count);
    }
  }

  find(id: string): Deviation | undefined {
    return this.#byId.get(id);
  }

  /** Takes down how a case of an id that deviates has ended. */
  note({ id }: Case, held: boolean): Finding {
    const open = this.#open.get(id);
    if (!held) {
      this.#open.set(id, undefined);
      return "deviates";
    }
    if (open === undefined) return "undecided";
    this.#open.set(id, open - 1);
    return open === 1 ? "stale" : "undecided";
  }
}

export function staleMessage(id: string): string {
  return `${id} is listed as a deviation, and every case of it holds: take it off the list`;
}
