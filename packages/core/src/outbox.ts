/** The portable API over a driver: validates, completes, draws tokens, and turns outcomes into what people handle. */
import { checkRowId, invalid } from "./arguments.ts";
import { BaseHandle } from "./base-handle.ts";
import { BOUNDS } from "./bounds.ts";
import type { Capabilities } from "./capabilities.ts";
import type { Driver, InTransaction, MigrateReport, SchemaReport } from "./driver.ts";
import type * as api from "./handle.ts";
import { createInbox, type Inbox, type InboxStore } from "./idempotency/inbox.ts";
import { Keys } from "./idempotency/keys.ts";
import { checkStoreOptions, checkTenant, closed, type DovecoteOptions, type Store } from "./options.ts";
import { OpenSnapshots } from "./snapshot.ts";
import { systemRandomBytes } from "./token.ts";

/** The tenant of applications that have only one. */
export const DEFAULT_TENANT = "default";

/**
 * A store over a driver. Applications use the factory of their driver's package instead.
 *
 * @throws `INVALID_ARGUMENT`. Touches no database.
 */
export function createDovecote<Tx, Sync extends boolean, Own extends Tx = Tx>(
  driver: Driver<Tx, Sync, Own>,
  options: DovecoteOptions = {},
): api.Dovecote<Tx, Sync, Own> {
  const {
    maxEventBytes = BOUNDS.eventBytes,
    maxAnswerBytes = BOUNDS.answerBytes,
    keySecret,
    redact,
    randomBytes,
  } = checkStoreOptions(options).store;
  const store: Store<Tx, Sync, Own> = {
    driver,
    maxEventBytes,
    redact,
    maxAnswerBytes,
    keySecret: keySecret as Uint8Array | undefined,
    randomBytes: randomBytes ?? systemRandomBytes,
    snapshots: new OpenSnapshots(),
    closing: undefined,
    closed: new AbortController(),
  };
  return new RootHandle(store);
}

class Tenant<Tx, Sync extends boolean, Own extends Tx>
  extends BaseHandle<Tx, Sync>
  implements api.TenantHandle<Tx, Sync, Own>
{
  readonly tenantId: string;
  readonly keys: Keys<Tx, Sync, Own>;
  readonly inbox: Inbox<Tx, Sync>;

  constructor(store: Store<Tx, Sync, Own>, tenantId: string) {
    super(store, tenantId);
    this.tenantId = tenantId;
    const shared: InboxStore<Tx, Sync> = {
      driver: () => this.keyDriver,
      asynchronous: () => this.driver.capabilities.asyncTransactions,
      tenant: tenantId,
      inTransaction: (call) => this.inTransaction(call),
    };
    const { keySecret: secret, maxAnswerBytes, randomBytes } = store;
    const transaction = async <T>(fn: (tx: Own) => T): Promise<Awaited<T>> => {
      if (store.closing !== undefined) throw closed();
      return store.driver.transaction(fn);
    };
    this.keys = new Keys({ ...shared, secret, maxAnswerBytes, randomBytes, transaction });
    this.inbox = createInbox(shared);
  }

  enqueue(tx: Tx, event: unknown, options?: api.EnqueueOptions): InTransaction<Sync, api.Enqueued> {
    return this.single(tx, this.tenantId, event, options);
  }

  enqueueMany(
    tx: Tx,
    events: readonly unknown[],
    options?: api.EnqueueOptions,
  ): InTransaction<Sync, readonly api.EnqueueManyOutcome[]> {
    return this.many(tx, this.tenantId, events, options);
  }
}

class Admin<Tx, Sync extends boolean> extends BaseHandle<Tx, Sync> implements api.AdminHandle<Tx, Sync> {
  constructor(store: Store<Tx, Sync>) {
    super(store, null);
  }

  enqueue(
    tx: Tx,
    event: unknown,
    given: api.EnqueueOptions & { readonly tenant: string },
  ): InTransaction<Sync, api.Enqueued> {
    return this.inTransaction<api.Enqueued>(() => {
      const { tenant, options } = named(given);
      return this.single(tx, tenant, event, options);
    });
  }

  enqueueMany(
    tx: Tx,
    events: readonly unknown[],
    given: api.EnqueueOptions & { readonly tenant: string },
  ): InTransaction<Sync, readonly api.EnqueueManyOutcome[]> {
    return this.inTransaction<readonly api.EnqueueManyOutcome[]>(() => {
      const { tenant, options } = named(given);
      return this.many(tx, tenant, events, options);
    });
  }

  async reconcile(rowId: number): Promise<api.ReconcileOutcome> {
    return { outcome: await this.driver.reconcile(checkRowId(rowId, "rowId")) };
  }
}

class RootHandle<Tx, Sync extends boolean, Own extends Tx>
  extends Tenant<Tx, Sync, Own>
  implements api.Dovecote<Tx, Sync, Own>
{
  readonly #store: Store<Tx, Sync, Own>;
  readonly #admin: Admin<Tx, Sync>;

  constructor(store: Store<Tx, Sync, Own>) {
    super(store, DEFAULT_TENANT);
    this.#store = store;
    this.#admin = new Admin(store);
  }

  get capabilities(): Capabilities {
    return this.#store.driver.capabilities;
  }

  tenant(id: string): api.TenantHandle<Tx, Sync, Own> {
    return new Tenant(this.#store, checkTenant(id, "id"));
  }

  admin(): api.AdminHandle<Tx, Sync> {
    return this.#admin;
  }

  async migrate(): Promise<MigrateReport> {
    return this.driver.migrate();
  }

  async checkSchema(): Promise<SchemaReport> {
    return this.driver.checkSchema();
  }

  async transaction<T>(fn: (tx: Own) => T): Promise<Awaited<T>> {
    if (typeof fn !== "function") throw invalid("fn", "a function", fn);
    if (this.#store.closing !== undefined) throw closed();
    return this.#store.driver.transaction(fn);
  }

  async close(): Promise<void> {
    const store = this.#store;
    store.closing ??= store.snapshots
      .close()
      .then(() => store.driver.close())
      .catch((error: unknown) => {
        store.closing = undefined; // it can be tried again
        throw error;
      });
    store.closed.abort();
    return store.closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** The tenant that an admin's enqueue names, and the options that remain. */
function named(given: unknown): { readonly tenant: string; readonly options: Record<string, unknown> } {
  if (typeof given !== "object" || given === null) throw invalid("options", "an object with a tenant", given);
  const { tenant, ...options } = given as Record<string, unknown>;
  return { tenant: checkTenant(tenant, "options.tenant"), options };
}
