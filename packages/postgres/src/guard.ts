/** The guard that proves a transaction: see {@link Guard}. */
import { randomUUID } from "node:crypto";
import { DovecoteError } from "@dovecote/core";

/** Runs a statement with one text column, and answers that column. */
export type Answers = (text: string, parameters: readonly (string | null)[]) => Promise<readonly string[]>;

/**
 * What a handle stays within, and so what must be unchanged before the guard may be armed once more on it.
 * `transaction`: it is one transaction's. `connection`: it may begin several, all on one connection. `client`: it
 * belongs to a client that never changes its connection by itself.
 */
export type Extent = "transaction" | "connection" | "client";

const CONNECTION = "pg_backend_pid()::text";
const TRANSACTION = `${CONNECTION} || ' ' || extract(epoch from now())::text`;

/**
 * The guard of one transaction: a setting that lives exactly as long as the transaction it was armed in, and that every
 * write in it checks by itself. A handle of the root pool, or one whose connection died, has no transaction in which the
 * setting could live: the write then finds no input.
 *
 * A rollback to a savepoint takes the setting away as well, so a miss arms it once more before it is refused; but only
 * where the handle still is, or a late write of a transaction whose connection died would be let into a stranger's.
 */
export class Guard {
  readonly value: string = randomUUID();
  readonly #extent: Extent;
  /** Where it was armed first; undefined until then, null if it was armed elsewhere and cannot be armed again. */
  #home: Promise<string | undefined> | null | undefined;

  constructor(extent: Extent) {
    this.#extent = extent;
  }

  /** A guard that is armed by {@link Guard.arming} with BEGIN: before every savepoint, so that none can take it away. */
  static ofBegin(): Guard {
    const guard = new Guard("transaction");
    guard.#home = null;
    return guard;
  }

  /**
   * The statement that arms it and answers where. Without parameters, so that postgres.js sends it at once and the guarded
   * one behind it: on a handle whose transaction has ended, a query that waits for another one is never sent.
   */
  get arming(): string {
    const home = this.#extent === "transaction" ? TRANSACTION : CONNECTION;
    return `select ${home} || left(set_config('dovecote.transaction', '${this.value}', true), 0) as answer`;
  }

  /**
   * Runs a guarded statement. The arming goes out with it, without waiting: a connection that pipelines sends both at once.
   *
   * @throws `TX_REQUIRED` if the guard does not hold.
   */
  async run<T extends { readonly guarded: boolean | null }>(
    answers: Answers,
    statement: () => Promise<T>,
  ): Promise<T> {
    const arming = this.#home === undefined ? this.#arm(answers) : undefined;
    const [first] = await Promise.all([statement(), arming]);
    if (first.guarded === true) return first;
    if (this.#home !== null && (await this.#armAgain(answers))) {
      const second = await statement();
      if (second.guarded === true) return second;
    }
    const message = "this call belongs to a transaction of yours, but none is open on this handle";
    throw new DovecoteError("TX_REQUIRED", message);
  }

  #arm(answers: Answers): Promise<string | undefined> {
    const home = answers(this.arming, []).then(([answer]) => answer);
    home.catch(() => {}); // whoever runs the statement beside it is told
    this.#home = home;
    return home;
  }

  /** Answers whether it was armed: not if the handle is somewhere else by now. */
  async #armAgain(answers: Answers): Promise<boolean> {
    const home = await this.#home;
    if (home === undefined || home === null) return false;
    const here = this.#extent === "transaction" ? TRANSACTION : CONNECTION;
    const still = this.#extent === "client" ? "" : ` where ${here} = '${home}'`;
    return (await answers(`${this.arming}${still}`, [])).length === 1;
  }
}
