/** The guard that proves a transaction: see {@link Guard}. */
import { randomUUID } from "node:crypto";
import { DovecoteError } from "@dovecote/core";
import type { CallersConnection } from "./client.ts";

/** What a guarded statement answers: whether the guard held, and so whether it did anything. */
export interface Guarded {
  readonly guarded: boolean | null;
}

/**
 * The guard of one handle: a setting that lives exactly as long as the transaction it was armed in, and that every write
 * in it checks by itself. A handle of the root pool, or one whose connection died, has no transaction in which the
 * setting could live: the write then finds no input.
 *
 * Arming proves that the handle still has its connection, or a late write on one that was kept too long would be let into
 * a stranger's transaction. A rollback to a savepoint takes the setting away as well, so a miss arms it once more before
 * it is refused.
 */
export class Guard {
  /** What its statements look for. */
  readonly value: string = randomUUID();
  readonly #fromBegin: boolean;
  #armed: Promise<void> | undefined;

  constructor({ fromBegin }: { readonly fromBegin: boolean }) {
    this.#fromBegin = fromBegin;
  }

  /** For sending with BEGIN: no savepoint can take it away then, and it is never armed again. */
  get arming(): string {
    return `select set_config('dovecote.transaction', '${this.value}', true)`;
  }

  /** @throws `TX_REQUIRED` if the guard does not hold. */
  async run<T extends Guarded>(connection: CallersConnection, statement: () => Promise<T>): Promise<T> {
    for (let attempt = 1; attempt <= 2; attempt++) {
      const armed = this.#armed;
      if (!this.#fromBegin) await (armed ?? this.#arm(connection));
      const result = await statement();
      if (result.guarded === true) return result;
      // Unless another call has armed it meanwhile.
      if (this.#armed === armed) this.#armed = undefined;
      if (this.#fromBegin || armed === undefined) break;
    }
    throw required();
  }

  async #arm(connection: CallersConnection): Promise<void> {
    const arming = connection.arm(this.value).then((alive) => {
      if (!alive) throw required();
    });
    this.#armed = arming;
    try {
      await arming;
    } catch (error) {
      if (this.#armed === arming) this.#armed = undefined;
      throw error;
    }
  }
}

function required(): DovecoteError {
  const message = "this call belongs to a transaction of yours, but none is open on this handle";
  return new DovecoteError("TX_REQUIRED", message);
}
