/** Transaction handles: our own, and whatever callers bring. */
import { DovecoteError } from "@dovecote/core";
import { answersOf, type PostgresHandle, type PostgresJs, type PostgresTransaction } from "./client.ts";
import { type Answers, type Extent, Guard } from "./guard.ts";
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

/** How to run a statement in the caller's transaction, and the guard that proves it. */
export function joined(
  tx: PostgresHandle,
  guards: WeakMap<object, Guard>,
): { readonly answers: Answers; readonly guard: Guard } {
  if (tx instanceof OwnTransaction) return { answers: answersOf(tx.sql), guard: tx.guard };
  const answers = answersOf(tx);
  const guard = guards.get(tx) ?? new Guard(extentOf(tx));
  guards.set(tx, guard);
  return { answers, guard };
}

/** postgres.js and drizzle make a handle per transaction; a reserved connection, and another client, may begin many. */
function extentOf(tx: PostgresHandle): Extent {
  if ("release" in tx && "unsafe" in tx) return "connection";
  return "query" in tx && !("rollback" in tx) ? "client" : "transaction";
}
