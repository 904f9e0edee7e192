/** One connection: its prepared statements, its clock, and the short synchronous transactions on it. */
import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite";
import { hasTransaction, prepare } from "./client.ts";
import type { StatementName, StatementTexts } from "./statements.ts";

/** `node:sqlite` refuses a parameter that the statement does not name: give it those alone. */
type Parameters = Readonly<Record<string, SQLInputValue>>;

export class Connection {
  readonly client: DatabaseSync;
  readonly #texts: StatementTexts;
  readonly #statements = new Map<StatementName, StatementSync>();

  constructor(client: DatabaseSync, texts: StatementTexts) {
    this.client = client;
    this.#texts = texts;
  }

  all<Row>(name: StatementName, parameters: Parameters = {}): readonly Row[] {
    return this.#statement(name).all(parameters) as Row[];
  }

  get<Row>(name: StatementName, parameters: Parameters = {}): Row | undefined {
    return this.#statement(name).get(parameters) as Row | undefined;
  }

  /** Answers how many rows were written. */
  run(name: StatementName, parameters: Parameters): number {
    return Number(this.#statement(name).run(parameters).changes);
  }

  /** Database time, in microseconds. Read after the lock was taken, so that no wait makes it stale (FENCE-05). */
  now(): number {
    return this.get<{ readonly now: number }>("now")?.now ?? Number.NaN;
  }

  /**
   * Runs `work` in a transaction of ours. `immediate` takes the write lock at the start: a read that becomes a write
   * later is refused at once, whatever the busy timeout says.
   */
  transaction<T>(mode: "immediate" | "deferred", work: () => T): T {
    this.client.exec(`begin ${mode}`);
    try {
      const result = work();
      this.client.exec("commit");
      return result;
    } catch (error) {
      this.#undo("rollback");
      throw error;
    }
  }

  /** Runs `work` in the caller's transaction: all of it stays, or none, whatever the caller does with an error. */
  savepoint<T>(work: () => T): T {
    this.client.exec("savepoint outbox");
    try {
      const result = work();
      this.client.exec("release outbox");
      return result;
    } catch (error) {
      this.#undo("rollback to outbox; release outbox");
      throw error;
    }
  }

  /** SQLite ends a transaction by itself after some errors, a full disk among them: then nothing is left to undo. */
  #undo(sql: string): void {
    if (hasTransaction(this.client)) this.client.exec(sql);
  }

  #statement(name: StatementName): StatementSync {
    let statement = this.#statements.get(name);
    if (statement === undefined) {
      statement = prepare(this.client, this.#texts[name]);
      this.#statements.set(name, statement);
    }
    return statement;
  }
}
