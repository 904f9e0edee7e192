/**
 * What a driver declares about its database. The same object is read by users at run time, printed in the docs and
 * branched on by the conformance suite. A capability picks which of two behaviours is tested; it never removes a
 * guarantee.
 */
export interface Capabilities {
  /** Rows outlive the process. `false`: a store in memory, without schema and without cursors that can be restored. */
  readonly durable: boolean;
  /** The database is a server: connections can be severed while the process lives. */
  readonly serverSide: boolean;
  /** The caller's transaction can be rolled back to a savepoint (TX-04). */
  readonly savepoints: boolean;
  /**
   * A transaction's callback may be asynchronous. `false`: callbacks are synchronous, `enqueue` answers synchronously,
   * and an asynchronous callback is refused with `TX_ASYNC` before anything is written (TX-08).
   */
  readonly asyncTransactions: boolean;
  /**
   * Every caller's transaction has a handle of its own. `false`: two tasks of the user's that share one connection
   * across an `await` cannot be told apart (TX-07).
   */
  readonly transactionIdentity: boolean;
  /** What a writer locks. `row`: locked rows are skipped. `database`: one writer, others wait, bounded (CLAIM-08). */
  readonly lockScope: "row" | "database";
  /** `snapshot`: one consistent state across pages. `bounded`: an upper row id fixed at the start (PAGE-03). */
  readonly snapshotIsolation: "snapshot" | "bounded";
  /** Whose clock judges leases: the database server's, or that of the host the file lives on (CLOCK-02). */
  readonly clock: "server" | "host";
  /** `tail` is offered (PAGE-04). `false`: it rejects `UNSUPPORTED`. */
  readonly tail: boolean;
  /** `subscribe` is offered: a commit of any process wakes subscribers (WAKE-01). `false`: it rejects `UNSUPPORTED`. */
  readonly notify: boolean;
  /** `keys` and `inbox` are offered (KEY-01, INBOX-01). `false`: they reject `UNSUPPORTED`. */
  readonly keys: boolean;
}
