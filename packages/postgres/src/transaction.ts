/** Transaction handles: our own, and whatever callers bring. */
import { DovecoteError } from "@dovecote/core";
import {
  type Answers,
  callersConnection,
  type PostgresHandle,
  type PostgresJs,
  type PostgresTransaction,
} from "./client.ts";
import { Guard, type Guarded } from "./guard.ts";
import type { SafeConnection } from "./safe-transaction.ts";

/** Our own transaction. Knows when it ended, and was guarded from its BEGIN on. */
export class OwnTransaction<Client extends PostgresJs> implements PostgresTransaction<Client> {
  readonly guard: Guard;
  readonly #connection: SafeConnection;
  #open = true;

  constructor(connection: SafeConnection, guard: Guard) {
    this.#connection = connection;
    this.guard = guard;
  }

  get sql(): Awaited<ReturnType<Client["reserve"]>> {
    if (!this.#open)
      throw new DovecoteError("TX_CLOSED", "this transaction has ended; its handle cannot be used again");
    return this.#connection.sql as Awaited<ReturnType<Client["reserve"]>>;
  }

  end(): void {
    this.#open = false;
  }
}

/** How a statement is run: in autocommit, or in a transaction behind its guard. */
export interface Via {
  readonly answers: Answers;
  /** What the statement compares with the transaction's setting; null in autocommit. */
  readonly guard: string | null;
  /** Runs a statement that says whether the guard held. */
  run<T extends Guarded>(statement: () => Promise<T>): Promise<T>;
}

/** The caller's transaction. */
export function joined(tx: PostgresHandle, guards: WeakMap<object, Guard>): Via {
  const own = tx instanceof OwnTransaction;
  const connection = callersConnection(own ? tx.sql : tx);
  const guard = own ? tx.guard : (guards.get(tx) ?? new Guard({ fromBegin: false }));
  if (!own) guards.set(tx, guard);
  const { answers } = connection;
  return { answers, guard: guard.value, run: (statement) => guard.run(connection, statement) };
}
