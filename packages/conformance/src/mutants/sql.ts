/** Broken statements: a driver's texts by name, with one of them rewritten. */
import type { Mutant } from "../define-harness.ts";

export interface SqlMutant<Name extends string> extends Mutant {
  texts<Texts extends Readonly<Record<Name, string>>>(original: Texts): Texts;
}

/**
 * Rewrites one named statement. The pattern has to match exactly once, so that a mutant cannot rot. A replacement may be
 * made from the statement, for names that are only known there.
 */
export function sqlMutant<Name extends string>(
  name: string,
  breaks: string,
  because: RegExp,
  statement: Name,
  pattern: string,
  replacement: string | ((statement: string) => string),
): SqlMutant<Name> {
  return {
    name,
    breaks,
    because,
    texts(original) {
      const text: string = original[statement];
      const parts = text.split(pattern);
      if (parts.length !== 2) {
        const found = parts.length - 1;
        throw new Error(
          `mutant ${name}: the pattern must match exactly once in ${statement}, found ${found}`,
        );
      }
      const replaced = typeof replacement === "string" ? replacement : replacement(text);
      return { ...original, [statement]: parts.join(replaced) };
    },
  };
}
