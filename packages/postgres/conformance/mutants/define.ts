import type { AnyDriver, Mutant, SqlMutant } from "@dovecote/conformance";
import type postgresClient from "postgres";
import type { ListenerOptions } from "../../src/listener.ts";
import type { StatementName } from "../../src/statements.ts";

/** Replaces a method by one that uses the client in a wrong way. */
interface DriverMutant extends Mutant {
  wrap(driver: AnyDriver, client: postgresClient.Sql, schema: string): AnyDriver;
}

/** Listens in a wrong way. */
interface ListenerMutant extends Mutant {
  readonly listener: Partial<ListenerOptions>;
}

export type PostgresMutant = SqlMutant<StatementName> | DriverMutant | ListenerMutant;

export const TOKEN = "claim_token = (select $4::text::bytea[])[place] and ";
/** Every parameter has to be named, or the statement fails for its own sake. */
export const NO_TOKEN = "cardinality((select $4::text::bytea[])) > 0 and ";
export const EXPIRY = "then claim_expires_at > clock_timestamp() end";
/** `statement_timestamp()` is read before the rows are locked. */
export const EXPIRY_AT_THE_START = "then claim_expires_at > statement_timestamp() end";
export const NO_EXPIRY = "then true end";

/** Of `enqueue`: who finds nothing inserts, although another transaction may be about to. */
export const readThenInsert = [
  "from input order by place\n  on conflict (identity_digest) do nothing",
  (statement: string): string => {
    const events = /insert into (\S+dovecote_events)/.exec(statement)?.[1];
    return `from (select distinct on (identity_digest) * from input order by identity_digest, place) as input
    where not exists (select 1 from ${events} e where e.identity_digest = input.identity_digest) order by place`;
  },
] as const;
