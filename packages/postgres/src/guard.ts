/** The guard that proves a transaction: see {@link Guard}. */
import { randomUUID } from "node:crypto";
import { DovecoteError } from "@dovecote/core";
import type { StatementTexts } from "./statements.ts";

/** Runs a statement with one text column, and answers that column. */
export type Answers = (text: string, parameters: readonly (string | null)[]) => Promise<readonly string[]>;

/**
 * The guard of one transaction: a setting that lives exactly as long as the transaction it was armed in, and that every
 * write in it checks by itself. A handle of the root pool, or one whose connection died, has no transaction in which the
 * setting could live: the write then finds no input. A rollback to a savepoint takes the setting away as well, so a miss
 * arms it once more before it is refused.
 */
export class Guard {
  readonly value: string = randomUUID();
  /**
   * The statement that arms it. Without parameters, so that postgres.js sends it at once and the guarded one behind it:
   * on a handle whose transaction has ended, a query that has to wait for another one is never sent, and never settles.
   */
  readonly arming: string = `select set_config('dovecote.transaction', '${this.value}', true)`;
  #armed: boolean;

  constructor({ armed }: { readonly armed: boolean }) {
    this.#armed = armed;
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
    for (let attempt = 1; attempt <= 2; attempt++) {
      const arming = this.#armed ? undefined : answers(this.arming, []);
      this.#armed = true;
      const [result] = await Promise.all([statement(), arming]);
      if (result.guarded === true) return result;
      this.#armed = false;
    }
    const message = "this call belongs to a transaction of yours, but none is open on this handle";
    throw new DovecoteError("TX_REQUIRED", message);
  }

  /** For statements that do not check the guard by themselves: proves the transaction in one of its own. */
  async assertHolds(answers: Answers, texts: StatementTexts): Promise<void> {
    await this.run(answers, async () => {
      const [holds] = await answers(texts.guardHolds, [this.value]);
      return { guarded: holds === "true" };
    });
  }
}
