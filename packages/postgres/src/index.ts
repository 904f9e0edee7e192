import {
  checkOptions,
  checkStoreOptions,
  createDovecote,
  type Dovecote,
  type DovecoteError,
  type DovecoteOptions,
  invalid,
} from "@dovecote/core";
import postgresClient from "postgres";
import type { PostgresHandle, PostgresJs, PostgresTransaction } from "./client.ts";
import { PostgresDriver, type PostgresDriverOptions } from "./driver.ts";
import type { ClientOptions } from "./listening-connection.ts";
import { checkSchemaName } from "./schema.ts";

// What an application needs beside the store, so that it installs one package.
export {
  type BeginOptions,
  type Begun,
  BOUNDS,
  type Claim,
  type ClaimRef,
  type Delivery,
  DovecoteError,
  type Entry,
  type ErrorCode,
  type Fingerprint,
  fingerprint,
  fromCloudEvent,
  isDecoded,
  isDovecoteError,
  type KeyClaim,
  type KeyResponse,
  type KeyScope,
  type NewEvent,
  type OutboxEvent,
  Quarantine,
  type RecordRunOptions,
  Release,
  RetryLater,
  type RunOptions,
  type RunOutcome,
  recordsByDefault,
  type TransactionRunOptions,
  toStructuredJson,
} from "@dovecote/core";
export { capabilities } from "./capabilities.ts";
export type * from "./client.ts";
export { schemaSql } from "./schema.ts";

/** A store on Postgres. */
export type PostgresDovecote<Client extends PostgresJs = PostgresJs> = Dovecote<
  PostgresHandle,
  false,
  PostgresTransaction<Client>
>;

export interface PostgresOptions extends DovecoteOptions {
  /** The schema of the tables, any name that Postgres takes. Default `public`. */
  readonly schema?: string;
  /**
   * Wake-ups by LISTEN and NOTIFY, for relays, tails and subscribers (WAKE-01). Default `false`: they poll.
   *
   * `true` listens with the settings of the client. Every store that enqueues into the schema has to say it, too: it is
   * the enqueue that notifies, once per transaction. Such commits take turns with each other in the server, and such a
   * transaction cannot be prepared (two-phase commit).
   */
  readonly notify?: boolean | NotifyOptions;
}

export interface NotifyOptions {
  /**
   * Where to listen, directly at the server: a pooler that lends connections by the transaction forgets a LISTEN. `ssl` is
   * the client's if the URL does not say it.
   */
  readonly listenUrl?: string;
  /** Hears of a listening connection that was lost or refused, before it is made again. What it throws is ignored. */
  readonly onError?: (error: DovecoteError) => void;
}

/**
 * A store on a Postgres database: a postgres.js client, or the URL to make one from.
 *
 * A client that is passed in stays the caller's: `close` leaves it open, its options are never changed. Nothing is
 * connected before the first call.
 *
 * @throws `INVALID_ARGUMENT`.
 * @example
 * const sql = postgresjs("postgres://localhost/shop");
 * const dovecote = postgres(sql);
 * await dovecote.migrate();
 * await sql.begin(async (tx) => {
 *   await tx`insert into orders (id) values (17)`;
 *   await dovecote.enqueue(tx, { stream: "orders", source: "/shop", type: "order.placed", data: { id: 17 } });
 * });
 */
export function postgres<Client extends PostgresJs>(
  client: Client,
  options?: PostgresOptions,
): PostgresDovecote<Client>;
export function postgres(url: string, options?: PostgresOptions): PostgresDovecote<postgresClient.Sql>;
export function postgres(target: PostgresJs | string, options: PostgresOptions = {}): PostgresDovecote {
  const { store, driver } = checkStoreOptions(options, ["schema", "notify"]);
  const schema = checkSchemaName(driver.schema, "options.schema");
  const ownsClient = typeof target === "string";
  const client = ownsClient ? connect(target) : target;
  if (typeof client?.unsafe !== "function" || typeof client.reserve !== "function") {
    throw invalid("client", "a postgres.js client or a URL", target);
  }
  const listener = toListenerOptions(driver.notify, client);
  return createDovecote(new PostgresDriver({ client, ownsClient, schema, listener }), store);
}

function toListenerOptions(
  given: unknown,
  client: PostgresJs,
): PostgresDriverOptions<PostgresJs>["listener"] {
  if (given === undefined || given === false) return undefined;
  const path = "options.notify";
  const { listenUrl, onError } = given === true ? {} : checkOptions(given, ["listenUrl", "onError"], path);
  if (onError !== undefined && typeof onError !== "function") {
    throw invalid(`${path}.onError`, "a function", onError);
  }
  const own = (client as { options?: ClientOptions }).options;
  const direct =
    listenUrl === undefined
      ? undefined
      : (connect(listenUrl, `${path}.listenUrl`) as { options?: ClientOptions });
  // What a certificate is checked against is no part of a URL.
  const options = direct === undefined ? own : { ...direct.options, ssl: direct.options?.ssl || own?.ssl };
  if (typeof options !== "object" || options === null) {
    throw invalid(path, "{ listenUrl } beside a client that has no options of its own", given);
  }
  return {
    client: options,
    ...(onError !== undefined && { onError: onError as (error: DovecoteError) => void }),
  };
}

/** In s, jittered. The client's own goes up to 20 s, for which a store would go on failing after an outage is over. */
function reconnectAfterS(retries: number): number {
  return (0.5 + Math.random() / 2) * Math.min(3 ** retries / 100, 1);
}

function connect(url: unknown, path = "url"): PostgresJs {
  try {
    // postgres.js takes anything for a URL: of nothing it makes a connection to localhost.
    if (typeof url !== "string" || !/^postgres(ql)?:\/\//i.test(url)) throw new Error("another protocol");
    return postgresClient(url, { onnotice: () => {}, fetch_types: false, backoff: reconnectAfterS });
  } catch {
    // The message of the original quotes the URL, password included.
    throw invalid(path, "a Postgres URL", "one that cannot be parsed");
  }
}
