/** One connection: its prepared statements, its clock, and the short synchronous transactions of ours on it. */
import { DovecoteError } from "@dovecote/core";
import type { SqliteClient, SqliteStatement } from "./client.ts";
import type { StatementName, StatementTexts } from "./statements.ts";

/**
 * How long SQLite itself may wait for a lock: it blocks the event loop for all of it (CLAIM-08). Longer waits are
 * asynchronous, see `lock-wait.ts`.
 */
export const LOCK_WAIT_MS = 10;

/** Connections on which a `dovecote.transaction(fn)` runs right now, whichever store it belongs to (TX-07). */
const inOwnTransaction = new WeakSet<SqliteClient>();

export class Connection {
  readonly client: SqliteClient;
  readonly #texts: StatementTexts;
  readonly #statements = new Map<string, SqliteStatement>();

  constructor(client: SqliteClient, texts: StatementTexts) {
    this.client = client;
    this.#texts = texts;
  }

  statement(name: StatementName): SqliteStatement {
    return this.#prepared(this.#texts[name]);
  }

  /** The database's time, in microseconds. Read after the lock was taken, so that no wait makes it stale. */
  now(): number {
    return (this.statement("now").get() as { now: number }).now;
  }

  /**
   * Runs `work` in a transaction of ours: `immediate` takes the write lock at the start, since a read that becomes a
   * write later is refused at once, whatever the busy timeout says (H9). The busy timeout that the connection came
   * with is restored before anybody else can run (LIFE-04).
   *
   * @throws `TX_OPEN` inside `dovecote.transaction(fn)`, `STORE_BUSY` while somebody else's transaction is open here.
   */
  run<T>(mode: "immediate" | "deferred", work: () => T): T {
    const { client } = this;
    this.assertFree();
    const { timeout } = this.#prepared("select timeout from pragma_busy_timeout").get() as {
      timeout: number;
    };
    client.exec(`pragma busy_timeout = ${LOCK_WAIT_MS}`);
    try {
      this.#prepared(`begin ${mode}`).run();
      try {
        const result = work();
        this.#prepared("commit").run();
        return result;
      } catch (error) {
        // SQLite rolls back by itself after some errors, a full disk among them.
        if (client.inTransaction) this.#prepared("rollback").run();
        throw error;
      }
    } finally {
      client.exec(`pragma busy_timeout = ${timeout}`);
    }
  }

  /** @throws `TX_OPEN` or `STORE_BUSY` while a transaction is open on the connection, as `run` does. */
  assertFree(): void {
    if (inOwnTransaction.has(this.client)) {
      const message = "only enqueue and redriveIn can be called inside dovecote.transaction(fn)";
      throw new DovecoteError("TX_OPEN", message);
    }
    if (this.client.inTransaction) {
      throw new DovecoteError("STORE_BUSY", "a transaction that is not ours is open on the connection");
    }
  }

  /** As `run("immediate")`, for the callback of `dovecote.transaction(fn)`. */
  runOwn<T>(work: () => T): T {
    return this.run("immediate", () => {
      inOwnTransaction.add(this.client);
      try {
        return work();
      } finally {
        inOwnTransaction.delete(this.client);
      }
    });
  }

  /** Runs `work` in the caller's transaction: all of it stays, or none of it, whatever the caller does with an error. */
  savepoint<T>(work: () => T): T {
    this.#prepared("savepoint dovecote").run();
    try {
      const result = work();
      this.#prepared("release dovecote").run();
      return result;
    } catch (error) {
      if (this.client.inTransaction) {
        this.#prepared("rollback to dovecote").run();
        this.#prepared("release dovecote").run();
      }
      throw error;
    }
  }

  #prepared(sql: string): SqliteStatement {
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      statement = this.client.prepare(sql);
      // The connection may have been told to answer with bigints.
      if (!/^(begin|commit|rollback|savepoint|release)/.test(sql)) statement.safeIntegers(false);
      this.#statements.set(sql, statement);
    }
    return statement;
  }
}
