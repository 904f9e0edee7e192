/**
 * A transaction that survives the death of its connection.
 *
 * With postgres.js 3.4.9 a query on a connection that has closed is either sent on whatever connection takes its place,
 * where it commits by itself, or ends the process by a TypeError on a null socket; a query that waits behind another
 * never settles. This happens inside `sql.begin` and on `sql.reserve()` alike, and a `reserve()` that meets the error of
 * the connection's former life never gives it back. So a connection is taken as `sql.begin` takes it, by the query that
 * begins, and everything else is done here: its close is watched, nothing is sent once it is gone, and everything that
 * waits is rejected (TX-06).
 */
import { DovecoteError } from "@dovecote/core";
import { type PostgresJs, type PostgresJsConnection, untilClosed } from "./client.ts";
import { isConnectionLoss, isSchemaFault, toDovecoteError } from "./errors.ts";

/** What postgres.js hands to `onexecute`: the connection that a query was sent on. */
interface RawConnection {
  /** Called when it has answered everything; while it is set, the pool leaves the connection alone. */
  reserved?: (() => void) | null;
  onclose?: ((error: unknown) => void) | null;
  /** Sends a query; answers whether another one may be sent before its reply. */
  execute(query: RawQuery): unknown;
}

/** A query of postgres.js, as far as it is intercepted. */
interface RawQuery extends Promise<{ readonly command?: string }> {
  handler: (query: RawQuery) => unknown;
  reject(error: unknown): void;
}

export interface SafeConnection {
  /** Sends nothing once the transaction has ended or the connection is gone. */
  readonly sql: PostgresJsConnection;
}

/** Before BEGIN was answered nothing is lost by beginning again, on another connection. */
const BEGIN_ATTEMPTS = 3;

/**
 * Runs `work` between `begin` and a commit on a connection of its own.
 *
 * @throws what `work` throws, after a rollback; `CONNECTION_LOST`, retryable, promptly, when the connection closes,
 * `ambiguous` only if the commit had been sent.
 */
export async function safeTransaction<T>(
  client: PostgresJs,
  begin: string,
  work: (connection: SafeConnection) => T,
): Promise<Awaited<T>> {
  const transaction = await begun(client, begin);
  let result: Awaited<T>;
  try {
    result = await transaction.race(work(transaction));
  } catch (error) {
    await transaction.rollback();
    throw error;
  }
  await transaction.commit();
  return result;
}

async function begun(client: PostgresJs, begin: string): Promise<Transaction> {
  for (let attempt = 1; ; attempt++) {
    const transaction = new Transaction(client);
    try {
      await transaction.begin(begin);
      return transaction;
    } catch (error) {
      const { code, message, retryable } = toDovecoteError(error, "transaction");
      if (code === "CONNECTION_LOST") await untilClosed();
      if (code === "CONNECTION_LOST" && attempt < BEGIN_ATTEMPTS) continue;
      // Whatever was lost on the way to BEGIN, nothing had been written: it is never ambiguous.
      throw new DovecoteError(code, message, { retryable, cause: error });
    }
  }
}

class Transaction implements SafeConnection {
  readonly sql: PostgresJsConnection;
  readonly #client: PostgresJs;
  readonly #lost: Promise<never>;
  readonly #outstanding = new Set<RawQuery>();
  readonly #waiting: RawQuery[] = [];
  #reportLoss: (error: DovecoteError) => void = () => {};
  #connection: RawConnection | undefined;
  /** A query was sent that has to be answered before the next one. */
  #full = true;
  #loss: DovecoteError | undefined;
  #firstFailure: unknown;
  #ended = false;

  constructor(client: PostgresJs) {
    this.#client = client;
    this.sql = this.#guarded(client);
    this.#lost = new Promise((_, reject) => {
      this.#reportLoss = reject;
    });
    this.#lost.catch(() => {}); // whoever waits for it is told; nobody has to
  }

  async begin(text: string): Promise<void> {
    await this.#client.unsafe(text, [], {
      simple: true,
      // Called with the connection when the query was written to it; false keeps the pool's other queries off it.
      onexecute: (connection: RawConnection) => {
        this.#connection = connection;
        connection.reserved = this.#takeNext;
        connection.onclose = (error) => this.#close(error);
        return false;
      },
    } as object);
  }

  race<T>(work: T): Promise<Awaited<T>> {
    return Promise.race([work, this.#lost]) as Promise<Awaited<T>>;
  }

  async commit(): Promise<void> {
    const { command } = await this.#end("commit", { ambiguous: true });
    // A statement failed and the callback went on: the server answers COMMIT by rolling back, without an error.
    if (command === "ROLLBACK") {
      const cause = this.#firstFailure;
      throw new DovecoteError("TX_CLOSED", "the transaction was aborted by a statement that failed in it", {
        cause,
      });
    }
  }

  async rollback(): Promise<void> {
    // The connection may be gone, or go now: the server has rolled back by itself then.
    await this.#end("rollback", { ambiguous: false }).catch(() => {});
  }

  /** When the server says that the transaction is over, postgres.js gives the connection back by itself. */
  async #end(
    statement: string,
    { ambiguous }: { readonly ambiguous: boolean },
  ): Promise<{ readonly command?: string }> {
    this.#ended = true;
    // Nothing goes out behind a query that is still under way: postgres.js does not recover from losing both.
    await Promise.race([Promise.allSettled(this.#outstanding), this.#lost.catch(() => {})]);
    if (this.#loss !== undefined) {
      await untilClosed();
      throw this.#loss;
    }
    if (!this.#holds()) throw overByItself();
    const query = this.#client.unsafe(statement, [], { simple: true }) as unknown as RawQuery;
    query.handler = (sent) => this.#send(sent);
    try {
      return await Promise.race([query, this.#lost]);
    } catch (error) {
      const failure = toDovecoteError(error, statement);
      if (isSchemaFault(error)) {
        // A constraint of the application's own, deferred to the commit.
        throw new DovecoteError("DRIVER_FAILURE", `${statement}: Postgres refused it`, { cause: error });
      }
      if (failure.code !== "CONNECTION_LOST") throw failure;
      await untilClosed();
      const message = `${statement}: the connection was lost`;
      throw new DovecoteError("CONNECTION_LOST", message, { ambiguous, cause: error });
    }
  }

  /** Whether the connection is still ours: not after a COMMIT or ROLLBACK of the callback's own. */
  #holds(): boolean {
    return this.#connection?.reserved === this.#takeNext;
  }

  #send(query: RawQuery): void {
    this.#outstanding.add(query);
    query
      .finally(() => this.#outstanding.delete(query))
      .catch((error: unknown) => {
        this.#firstFailure ??= error;
        // postgres.js reports the error before the close. What is sent in between stays in the connection's queue through
        // its reconnect, waits there for an answer that nobody will give, and the pool has lost the connection.
        if (isConnectionLoss(error)) this.#close(error);
      });
    if (this.#full) this.#waiting.push(query);
    else this.#full = !this.#connection?.execute(query);
  }

  readonly #takeNext = (): void => {
    const next = this.#waiting.shift();
    if (next === undefined) this.#full = false;
    else this.#connection?.execute(next);
  };

  #close(cause: unknown): void {
    if (this.#loss !== undefined) return;
    const message = "the connection was lost; the transaction was rolled back";
    this.#loss = new DovecoteError("CONNECTION_LOST", message, { cause });
    for (const query of this.#outstanding) query.reject(this.#loss);
    this.#outstanding.clear();
    this.#waiting.length = 0;
    this.#reportLoss(this.#loss);
  }

  /** The client as a connection: every query made with it goes to the transaction, or is refused. */
  #guarded(client: PostgresJs): PostgresJsConnection {
    const intercept = (made: unknown): unknown => {
      if (!isQuery(made)) return made; // an identifier or a helper
      made.handler = (query) => {
        if (this.#loss !== undefined) query.reject(this.#loss);
        else if (this.#ended) query.reject(new DovecoteError("TX_CLOSED", "this transaction has ended"));
        else if (!this.#holds()) query.reject(overByItself());
        else this.#send(query);
      };
      return made;
    };
    return new Proxy(client, {
      apply: (target, self, given) => intercept(Reflect.apply(target as never, self, given)),
      get: (target, key) => {
        if (key === "release") return () => {}; // it gives itself back
        const value: unknown = Reflect.get(target, key);
        if (typeof value !== "function" || PURE.has(key)) return value;
        if (key === "unsafe") {
          return (...given: unknown[]) => intercept((value as (...given: unknown[]) => unknown)(...given));
        }
        return () => {
          throw new DovecoteError(
            "UNSUPPORTED",
            `${String(key)} is not offered on the connection of a transaction`,
          );
        };
      },
    }) as unknown as PostgresJsConnection;
  }
}

/** Members of a client that send nothing. */
const PURE: ReadonlySet<string | symbol> = new Set(["json", "array", "typed", "types"]);

function overByItself(): DovecoteError {
  return new DovecoteError("TX_CLOSED", "the transaction was ended by a statement of its own callback");
}

function isQuery(value: unknown): value is RawQuery {
  return value instanceof Promise && typeof (value as unknown as RawQuery).handler === "function";
}
