/**
 * What a driver's author writes. A harness is a module, not a closure: contenders of a race are real processes that
 * load it and build the driver by themselves.
 */
import type { Capabilities, DeliveryState, Driver } from "@dovecote/core";
import { assertHarness } from "./validate-harness.ts";

/** A driver whose transaction handles the suite only passes on. */
export type AnyDriver = Driver<unknown, boolean>;

/** What can be sent to another process. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };

export interface Harness {
  readonly driver: {
    /** As published, such as `@acme/dovecote-foo`. */
    readonly name: string;
    readonly version: string;
    /** The contract that the driver implements. */
    readonly contract: 1;
  };
  /** The very object that the driver exports at run time. */
  readonly capabilities: Capabilities;
  /**
   * A fresh, un-migrated place: a file, a database, a schema. Empty but for the application's own table, which
   * `writeBusinessRow` fills. Never handed out twice.
   */
  createSpace(): Promise<Space>;
  /** One session with connections of its own. `mutant` names one of {@link Harness.mutants}. */
  connect(locator: Json, options: ConnectOptions): Promise<Session>;
  /** Deliberately broken forms of this driver, beyond those that the suite can make of any driver. */
  readonly mutants?: readonly Mutant[];
  /** Guarantees that the driver is known not to keep. */
  readonly deviations?: readonly Deviation[];
}

/**
 * A guarantee that a driver is known not to keep. Its cases are run all the same and have to fail; once all of them
 * hold, the run fails until the entry is removed. A level with a deviation is `partial`.
 */
export interface Deviation {
  /** As in SPEC.md. */
  readonly id: string;
  readonly reason: string;
  /** Where it is discussed, such as the URL of an issue. */
  readonly issue: string;
}

export interface Space {
  /** How another process finds it. */
  readonly locator: Json;
  dispose(): Promise<void>;
}

export interface ConnectOptions {
  readonly mutant?: string;
  /**
   * A session whose settings an application may have chosen, and which must change nothing: the planner is pushed off
   * its usual plans (CLAIM-01) with statistics as they are when it connects; time zone, formats of times and bytes,
   * search path, default isolation and whatever else a session can set are unusual (CLOCK-04); and there are as few
   * connections as the driver can work with. Every driver has such sessions, and one whose database knows no settings
   * ignores the option. The suite repeats on one what the hot operations do, and never nests calls there that would
   * need two connections at once.
   */
  readonly hostile?: true;
}

/** A driver with exactly one thing broken, and the case that has to notice. */
export interface Mutant {
  readonly name: string;
  /** The id whose case must fail. */
  readonly breaks: string;
  /** What the message of the failed assertion says: it fails for the right reason, not for any. */
  readonly because: RegExp;
}

export interface Session {
  readonly driver: AnyDriver;
  /** What an application may hand to `enqueue` by mistake: its client, without a transaction. */
  readonly root: unknown;
  /** The same mistake with other kinds of handles, where the driver takes several. */
  readonly otherRoots?: readonly unknown[];
  /**
   * The application's own transaction, in the way of its client: commits when `fn` returns, rolls back when it throws.
   * Without `asyncTransactions`, `fn` has to be synchronous.
   */
  transaction<T>(fn: (tx: AppTransaction) => T): Promise<Awaited<T>>;
  /** As `transaction`, left open until it is ended by hand. */
  begin(): Promise<OpenTransaction>;
  /** Reads over a connection that the driver has no part in: it never vouches for itself. */
  readonly probe: Probe;
  readonly faults: Faults;
  /**
   * What the client that the application gave the driver is set to, by name: whatever a driver could be tempted to
   * change, such as time limits. Empty where there is no client, or none with settings.
   */
  settings(): Promise<Readonly<Record<string, string>>>;
  /** Idempotent. Whoever used the session has closed the store before, and the driver with it. */
  close(): Promise<void>;
}

export interface AppTransaction {
  /** What the application hands to `enqueue`. */
  readonly handle: unknown;
  /** Inserts a row into the application's own table. A promise only with `asyncTransactions`. */
  writeBusinessRow(id: string): void | Promise<void>;
}

export interface OpenTransaction extends AppTransaction {
  commit(): Promise<void>;
  rollback(): Promise<void>;
  /** With the capability `savepoints`: everything after the call can be undone by what it answers. */
  savepoint(): Promise<{ rollback(): Promise<void> }>;
}

/** A row of the delivery relation, as plain comparable values: equal exactly if the row is byte-identical. */
export interface ProbedDelivery {
  readonly rowId: number;
  readonly tenant: string;
  readonly state: DeliveryState;
  /** Times are microseconds since the epoch. */
  readonly availableAt: number;
  readonly attempts: number;
  readonly forgiven: number;
  /** 32 hexadecimal digits. */
  readonly token: string | null;
  readonly worker: string | null;
  readonly shared: boolean | null;
  readonly expiresAt: number | null;
  readonly failureCode: string | null;
  readonly failureDetail: string | null;
  readonly failedAt: number | null;
  readonly deliveredAt: number | null;
  readonly quarantinedAt: number | null;
  readonly quarantineReason: string | null;
}

/** A row of the event relation. */
export interface ProbedEvent {
  readonly rowId: number;
  readonly tenant: string;
  readonly stream: string;
  readonly id: string;
  readonly source: string;
  readonly type: string;
  readonly subject: string | null;
  readonly time: string | null;
  readonly datacontenttype: string | null;
  readonly dataschema: string | null;
  readonly partitionkey: string | null;
  readonly extensions: string | null;
  readonly dataKind: string;
  /** Hexadecimal digits; null exactly if the kind is `absent`, and an empty text for no bytes. */
  readonly data: string | null;
  readonly enqueuedAt: number;
}

/** Rows are plain objects: prototypes are compared, too. */
export interface Probe {
  /** Ascending row ids. */
  deliveries(): Promise<readonly ProbedDelivery[]>;
  /** Ascending row ids. */
  events(): Promise<readonly ProbedEvent[]>;
  /**
   * With the capability `keys`: every record of an idempotency key, in any order that stays the same, each as texts: equal
   * exactly if the record is byte-identical.
   */
  keys(): Promise<readonly Readonly<Record<string, string | null>>[]>;
  /** The application's own rows, ascending. */
  businessRows(): Promise<readonly string[]>;
  /** The database's clock, in microseconds. */
  now(): Promise<number>;
}

/** What is done to the database behind the driver's back, so that nothing has to sleep or to be lucky. */
export interface Faults {
  /** Makes the leases of claimed rows end in the past. */
  expireLeases(rowIds: readonly number[]): Promise<void>;
  /** Writes columns of a delivery as they are given; rejects if the database refuses the combination. */
  overwriteDelivery(rowId: number, columns: Partial<Omit<ProbedDelivery, "rowId">>): Promise<void>;
  /** With the capability `keys`: moves every time of every record, and of every mark of the inbox, into the past. */
  ageKeys(ms: number): Promise<void>;
  /** Removes the delivery of an event, leaving the event. */
  deleteDelivery(rowId: number): Promise<void>;
  /** Makes the data of a JSON event undecodable. */
  corruptData(rowId: number): Promise<void>;
  /** Holds the lock of a delivery row, or of the database where there is no smaller one, until released. */
  holdLock(rowId: number): Promise<{ release(): Promise<void> }>;
  /**
   * From now until the release, every transaction that wrote to a delivery fails when it commits, and not earlier: by a
   * deferred constraint, or by whatever the store asks last. Called while no transaction is open. For every driver: what
   * was written must be gone, and the call rejected with a typed error, whoever opened the transaction (CLAIM-14, TX-02).
   */
  failCommits(): Promise<{ release(): Promise<void> }>;
  /**
   * From now until the release, the storage of this session cannot grow, over the driver's own connections as little as
   * over the application's: what needs room fails as on a full disk, by the error that the database itself has for it.
   * What needs none may still succeed. For every driver: the error is `STORE_FULL`, nothing is half-written, and the
   * store works again once there is room (ERR-02).
   */
  fillDisk(): Promise<{ release(): Promise<void> }>;
  /** With the capability `serverSide`: severs every connection of this session's driver and application, by the server. */
  severConnections(): Promise<void>;
  /**
   * With the capabilities `serverSide` and `notify`: the connections over which this session's driver hears of events fall
   * silent, as in a network that drops everything: nothing arrives any more, and nothing is closed. Later ones work.
   */
  silenceListeners(): Promise<void>;
  /** With the capability `durable`: writes the marker of the schema. */
  writeSchemaMarker(marker: { readonly version: number; readonly requires: number }): Promise<void>;
  /**
   * With the capability `durable`: removes or changes one object of the schema, and answers the name that
   * `checkSchema` must give for it.
   */
  damageSchema(object: "table" | "column" | "index" | "constraint"): Promise<string>;
  /** With the capability `durable`: an object of the user's own, which is no fault. */
  addForeignObjects(): Promise<void>;
}

/**
 * Declares a harness; the default export of its module.
 *
 * @throws HarnessError if it lacks a member, or one of them is not legal.
 *
 * @example
 * export default defineHarness({
 *   driver: { name: "@acme/dovecote-foo", version: "1.0.0", contract: 1 },
 *   capabilities,
 *   createSpace: async () => ({ locator: await createDatabase(), dispose: dropDatabase }),
 *   connect: async (locator) => new FooSession(locator),
 * });
 */
export function defineHarness(harness: Harness): Harness {
  assertHarness(harness);
  return Object.freeze(harness);
}
