/** Broken forms of the Postgres driver: each breaks one thing, and the case named for it has to notice. */
import type { AnyDriver, Mutant } from "@dovecote/conformance";
import type postgresClient from "postgres";
import type { StatementName, StatementTexts } from "../src/statements.ts";

/** Rewrites one named statement. The pattern has to match exactly once, so that a mutant cannot rot. */
export interface SqlMutant extends Mutant {
  texts(original: StatementTexts): StatementTexts;
}

export interface DriverMutant extends Mutant {
  wrap(driver: AnyDriver, client: postgresClient.Sql, schema: string): AnyDriver;
}

export const sqlMutants: readonly SqlMutant[] = [];
export const driverMutants: readonly DriverMutant[] = [];

export const mutants: readonly Mutant[] = [...sqlMutants, ...driverMutants].map(
  ({ name, breaks, because }) => ({
    name,
    breaks,
    because,
  }),
);

export function sqlMutant(
  name: string,
  breaks: string,
  because: RegExp,
  statement: StatementName,
  pattern: string,
  replacement: string,
): SqlMutant {
  return {
    name,
    breaks,
    because,
    texts(original) {
      const parts = original[statement].split(pattern);
      if (parts.length !== 2) {
        throw new Error(
          `mutant ${name}: the pattern must match exactly once in ${statement}, found ${parts.length - 1}`,
        );
      }
      return { ...original, [statement]: parts.join(replacement) };
    },
  };
}
