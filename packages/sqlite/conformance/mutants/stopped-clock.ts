/** What happens when a driver reads the time before it waits for the lock. */
import type Database from "better-sqlite3";
import { Connection } from "../../src/connection.ts";
import { withLock } from "../../src/lock-wait.ts";
import { STATEMENTS } from "../../src/statements.ts";

const BUSY_BUDGET_MS = 5_000;

class Stopped extends Connection {
  #at = 0;

  stop(): void {
    this.#at = super.now();
  }

  override now(): number {
    return this.#at;
  }
}

/** Does in a transaction of ours what the driver does, but by the time at which the call came in. */
export function atTheTimeOfTheCall<T>(
  client: Database.Database,
  work: (connection: Connection) => T,
): Promise<T> {
  const connection = new Stopped(client, STATEMENTS);
  connection.stop();
  return withLock(() => connection.run("immediate", () => work(connection)), {
    doing: "a call by an old time",
    budgetMs: BUSY_BUDGET_MS,
    assertOpen: () => {},
  });
}
