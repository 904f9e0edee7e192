import type { AnyDriver, Mutant, SqlMutant } from "@dovecote/conformance";
import type Database from "better-sqlite3";
import type { StatementName } from "../../src/statements.ts";

/** Replaces a method by one that uses the connection in a wrong way. */
interface DriverMutant extends Mutant {
  wrap(driver: AnyDriver, client: Database.Database): AnyDriver;
}

export type SqliteMutant = SqlMutant<StatementName> | DriverMutant;
