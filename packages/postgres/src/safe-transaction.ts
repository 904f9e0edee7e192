/**
 * A transaction that survives the death of its connection.
 *
 * With postgres.js 3.4.9 a query on a connection that has closed is either sent on whatever connection takes its place,
 * where it commits by itself, or ends the process by a TypeError on a null socket; a query that waits behind another
 * never settles. This happens inside `sql.begin` and on `sql.reserve()` alike. Here the connection's close is watched,
 * nothing is sent once it is gone, and everything that waits is rejected (TX-06).
 */
import { DovecoteError } from "@dovecote/core";
import type { PostgresJs, PostgresJsReserved } from "./client.ts";
import { toDovecoteError } from "./errors.ts";

/** What postgres.js hands to `onexecute`: the connection that a query was sent on. */
interface RawConnection {
  onclose?: ((error: unknown) => void) | null;
}

/** A query of postgres.js, as far as it is intercepted. */
interface RawQuery {
  handler: (query: RawQuery) => unknown;
  reject(error: unknown): void;
  finally(callback: () => void): Promise<unknown>;
}

export interface SafeConnection {
  /** The reserved connection; sends nothing once the transaction has ended or the connection is gone. */
  readonly sql: PostgresJsReserved;
  /** Rejects when the connection closes. */
  readonly lost: Promise<never>;
  readonly ended: boolean;
}

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
  const transaction = new Transaction(await reserve(client));
  await transaction.begin(begin);
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

async function reserve(client: PostgresJs): Promise<PostgresJsReserved> {
  try {
    return await client.reserve();
  } catch (error) {
    throw toDovecoteError(error, "transaction");
  }
}

class Transaction implements SafeConnection {
  readonly sql: PostgresJsReserved;
  readonly lost: Promise<never>;
  readonly #reserved: PostgresJsReserved;
  readonly #outstanding = new Set<RawQuery>();
  #reportLoss: (error: DovecoteError) => void = () => {};
  #connection: RawConnection | undefined;
  #loss: DovecoteError | undefined;
  #firstFailure: unknown;
  #ended = false;

  constructor(reserved: PostgresJsReserved) {
    this.#reserved = reserved;
    this.sql = this.#guarded(reserved);
    this.lost = new Promise((_, reject) => {
      this.#reportLoss = reject;
    });
    this.lost.catch(() => {}); // whoever waits for it is told; nobody has to
  }

  get ended(): boolean {
    return this.#ended;
  }

  async begin(text: string): Promise<void> {
    try {
      await this.#reserved.unsafe(text, [], {
        simple: true,
        // Called with the connection when the query is written to it; true keeps the connection open for more.
        onexecute: (connection: RawConnection) => {
          this.#connection = connection;
          connection.onclose = (error) => this.#close(error);
          return true;
        },
      } as object);
    } catch (error) {
      this.#ended = true;
      this.#release();
      throw toDovecoteError(error, "transaction");
    }
  }

  race<T>(work: T): Promise<Awaited<T>> {
    return Promise.race([work, this.lost]) as Promise<Awaited<T>>;
  }

  async commit(): Promise<void> {
    const { command } = await this.#end("commit", { ambiguous: true });
    // A statement failed and the callback went on: the server answers COMMIT by rolling back, without an error.
    if (command === "ROLLBACK")
      throw this.#firstFailure ?? new DovecoteError("TX_CLOSED", "the transaction was aborted");
  }

  async rollback(): Promise<void> {
    // The connection may be gone, or go now: the server has rolled back by itself then.
    await this.#end("rollback", { ambiguous: false }).catch(() => {});
  }

  async #end(
    statement: string,
    { ambiguous }: { readonly ambiguous: boolean },
  ): Promise<{ readonly command?: string }> {
    if (this.#loss !== undefined) {
      this.#ended = true;
      throw this.#loss;
    }
    this.#ended = true;
    try {
      return await Promise.race([
        this.#reserved.unsafe(statement, [], { simple: true }) as PromiseLike<object>,
        this.lost,
      ]);
    } catch (error) {
      const lost = toDovecoteError(error, statement);
      throw lost.code === "CONNECTION_LOST"
        ? new DovecoteError("CONNECTION_LOST", `${statement}: the connection was lost`, {
            ambiguous,
            cause: error,
          })
        : lost;
    } finally {
      this.#release();
    }
  }

  /** A closed connection went back to the pool by itself; releasing it would hand out its null socket. */
  #release(): void {
    if (this.#connection !== undefined) this.#connection.onclose = null;
    if (this.#loss === undefined) this.#reserved.release();
  }

  #close(cause: unknown): void {
    this.#loss = new DovecoteError(
      "CONNECTION_LOST",
      "the connection was lost; the transaction was rolled back",
      { cause },
    );
    for (const query of this.#outstanding) query.reject(this.#loss);
    this.#outstanding.clear();
    this.#reportLoss(this.#loss);
  }

  /** Every query made through the handle is held back once the connection is gone or the transaction has ended. */
  #guarded(reserved: PostgresJsReserved): PostgresJsReserved {
    const intercept = (made: unknown): unknown => {
      if (!isQuery(made)) return made; // an identifier or a helper
      const send = made.handler;
      made.handler = (query) => {
        if (this.#loss !== undefined) return query.reject(this.#loss);
        if (this.#ended) return query.reject(new DovecoteError("TX_CLOSED", "this transaction has ended"));
        this.#outstanding.add(query);
        query
          .finally(() => this.#outstanding.delete(query))
          .catch((error: unknown) => {
            this.#firstFailure ??= error;
          });
        return send(query);
      };
      return made;
    };
    return new Proxy(reserved, {
      apply: (target, self, given) => intercept(Reflect.apply(target as never, self, given)),
      get: (target, key) => {
        const value: unknown = Reflect.get(target, key);
        if (key === "release") return () => {};
        if (key !== "unsafe" && key !== "file") return value;
        return (...given: unknown[]) => intercept((value as (...given: unknown[]) => unknown)(...given));
      },
    });
  }
}

function isQuery(value: unknown): value is RawQuery {
  return value instanceof Promise && typeof (value as unknown as RawQuery).handler === "function";
}
