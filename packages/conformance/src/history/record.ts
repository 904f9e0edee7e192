/** Writing a history. Every process has a file of its own, so that a kill can cost nothing but its last line. */
import { createHash } from "node:crypto";
import { closeSync, openSync, writeSync } from "node:fs";
import { isDovecoteError } from "@dovecote/core";
import type { Outcome, Subject, Verb } from "./operation.ts";

/** What became of one item of a call. */
export interface ItemResult extends Subject {
  readonly type: Outcome;
  readonly answer?: string;
}

/** A line of the file: a call, written before it is made, or its completion. Times are ns of the monotonic clock. */
export type Line =
  | { readonly n: number; readonly op: Verb; readonly t0: string; readonly items: readonly Subject[] }
  | { readonly n: number; readonly t1: string; readonly items: readonly ItemResult[] };

/** What a recorded call answers: its value, and what it means for every item. */
export interface Recorded<T> {
  readonly value: T;
  readonly items: readonly ItemResult[];
}

/** How the answer of a call begins that was rejected with anything but an error of the contract. */
export const UNTYPED = "untyped";

export class Recorder {
  readonly #file: number;
  #calls = 0;

  constructor(path: string) {
    this.#file = openSync(path, "a");
  }

  /**
   * Makes a call between two lines. An error is an answer, `undefined` here: the items did not apply, or nobody knows,
   * which is also what an error means that has no type.
   */
  async call<T>(
    op: Verb,
    items: readonly Subject[],
    make: () => Promise<Recorded<T>>,
  ): Promise<T | undefined> {
    const n = this.#calls++;
    this.#write({ n, op, t0: String(process.hrtime.bigint()), items });
    const complete = (results: readonly ItemResult[]): void =>
      this.#write({ n, t1: String(process.hrtime.bigint()), items: results });
    try {
      const { value, items: results } = await make();
      complete(results);
      return value;
    } catch (error) {
      const known = isDovecoteError(error);
      const type = known && !error.ambiguous ? "fail" : "info";
      const answer = known ? error.code : `${UNTYPED} ${String(error)}`;
      complete((items.length > 0 ? items : [{}]).map((item) => ({ ...item, type, answer })));
      return undefined;
    }
  }

  close(): void {
    closeSync(this.#file);
  }

  #write(line: Line): void {
    writeSync(this.#file, `${JSON.stringify(line)}\n`);
  }
}

/** What stands for a token in a history. */
export function tokenHash(token: string): string {
  return createHash("sha256").update(token).digest("hex").slice(0, 32);
}
