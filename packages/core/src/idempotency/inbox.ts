/** The inbox: what a consumer has done with an event commits together with the fact that it did (INBOX-01). */
import { checkName, checkOptions, checkWhole, invalid, orDefault } from "../arguments.ts";
import { BOUNDS } from "../bounds.ts";
import type { InTransaction } from "../driver.ts";
import { DovecoteError } from "../errors.ts";
import { after, isThenable } from "../in-transaction.ts";
import type { InboxMark, KeyDriver } from "./driver.ts";
import { digestOf } from "./frame.ts";

const DEFAULT_RETENTION_MS = 30 * 24 * 60 * 60 * 1000;

export interface OnceOptions {
  /** Who consumes: each consumer does it once. At most 255 bytes. */
  readonly consumer: string;
  /** Which event; any object with its identity will do, such as the event itself. */
  readonly event: { readonly source: string; readonly id: string };
  /** For how long the mark is kept. 1 ms to 366 days, default 30 days: longer than anything is redelivered. */
  readonly retentionMs?: number;
}

/** `seen`: it was done before, and nothing was called. */
export type OnceOutcome<T> = { readonly outcome: "first"; readonly result: T } | { readonly outcome: "seen" };

export interface Inbox<Tx, Sync extends boolean> {
  /**
   * Calls `fn` unless this consumer has seen the event; its effects and the mark commit together, in your transaction. A
   * rival that is at the same event is waited for: if its transaction rolls back, yours is the first.
   *
   * @throws `TX_REQUIRED` without an open transaction, `TX_ASYNC` if `fn` answers a promise where transactions are
   * synchronous, `INVALID_ARGUMENT`, and whatever `fn` throws.
   * @example
   * await sql.begin((tx) => shop.inbox.once(tx, { consumer: "invoices", event }, () => tx`insert into invoices …`));
   */
  once<T>(
    tx: Tx,
    options: OnceOptions,
    fn: () => T,
  ): InTransaction<Sync, OnceOutcome<Sync extends true ? T : Awaited<T>>>;
}

export interface InboxStore<Tx, Sync extends boolean> {
  readonly driver: () => KeyDriver<Tx, Sync>;
  /** Whether a callback in a transaction may be asynchronous. */
  readonly asynchronous: () => boolean;
  readonly tenant: string;
  readonly inTransaction: <T>(call: () => InTransaction<Sync, T>) => InTransaction<Sync, T>;
}

export function createInbox<Tx, Sync extends boolean>(store: InboxStore<Tx, Sync>): Inbox<Tx, Sync> {
  return {
    once<T>(tx: Tx, options: OnceOptions, fn: () => T) {
      type Result = Sync extends true ? T : Awaited<T>;
      return store.inTransaction<OnceOutcome<Result>>(() => {
        const mark = toMark(store.tenant, options);
        if (typeof fn !== "function") throw invalid("fn", "a function", fn);
        const marked = store.driver().markIn(tx, mark);
        return after(marked, (outcome): OnceOutcome<Result> | Promise<OnceOutcome<Result>> => {
          if (outcome === "seen") return { outcome };
          const result: unknown = fn();
          if (!isThenable(result)) return { outcome: "first", result: result as Result };
          const settled = Promise.resolve(result);
          if (store.asynchronous())
            return settled.then((value) => ({ outcome: "first", result: value as Result }));
          settled.catch(() => {});
          throw new DovecoteError(
            "TX_ASYNC",
            "the transactions of this driver are synchronous: fn must be, too",
          );
        }) as InTransaction<Sync, OnceOutcome<Result>>;
      });
    },
  };
}

function toMark(tenant: string, given: unknown): InboxMark {
  if (given === undefined) throw invalid("options", "{ consumer, event }", given);
  const { consumer, event, retentionMs } = checkOptions(
    given,
    ["consumer", "event", "retentionMs"],
    "options",
  );
  if (typeof event !== "object" || event === null)
    throw invalid("options.event", "an object with source and id", event);
  const { source, id } = event as { readonly source?: unknown; readonly id?: unknown };
  const who = checkName(consumer, BOUNDS.workerBytes, "options.consumer");
  const identity = [
    checkName(source, BOUNDS.sourceBytes, "options.event.source"),
    checkName(id, BOUNDS.idBytes, "options.event.id"),
  ] as const;
  return {
    tenant,
    consumer: who,
    event: digestOf("inbox", [tenant, who, ...identity]),
    retentionMs: checkWhole(
      orDefault(retentionMs, DEFAULT_RETENTION_MS),
      BOUNDS.retentionMs,
      "options.retentionMs",
    ),
  };
}
