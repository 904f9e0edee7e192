/** Broken statements: a driver's texts by name, with one of them rewritten. */
import type { Mutant } from "../define-harness.ts";

export interface SqlMutant<Name extends string> extends Mutant {
  texts<Texts extends Readonly<Record<Name, string>>>(original: Texts): Texts;
}

/** Rewrites one named statement. The pattern has to match exactly once, so that a mutant cannot rot. */
export function sqlMutant<Name extends string>(
  name: string,
  breaks: string,
  because: RegExp,
  statement: Name,
  pattern: string,
  replacement: string,
): SqlMutant<Name> {
  return {
    name,
    breaks,
    because,
    texts(original) {
      const parts = original[statement].split(pattern);
      if (parts.length !== 2) {
        const found = parts.length - 1;
        throw new Error(
          `mutant ${name}: the pattern must match exactly once in ${statement}, found ${found}`,
        );
      }
      return { ...original, [statement]: parts.join(replacement) };
    },
  };
}
