/**
 * A Dovecote store on `node:sqlite`: a worked example of a driver, told step by step in docs/writing-a-driver.md.
 * Applications that want SQLite have `@dovecote/sqlite`.
 */
import {
  BOUNDS,
  checkStoreOptions,
  checkWhole,
  createDovecote,
  type Dovecote,
  type DovecoteOptions,
  invalid,
} from "@dovecote/core";
import { type NodeSqliteHandle, type NodeSqliteTransaction, openWritable } from "./client.ts";
import { NodeSqliteDriver } from "./driver.ts";

export { capabilities } from "./capabilities.ts";
export type { NodeSqliteHandle, NodeSqliteTransaction } from "./client.ts";

export type NodeSqliteDovecote = Dovecote<NodeSqliteHandle, true, NodeSqliteTransaction>;

export interface NodeSqliteOptions extends DovecoteOptions {
  /** How long a call may wait for the database's write lock, in ms. 0 to 600,000, default 20,000. */
  readonly busyBudgetMs?: number;
}

const DEFAULT_BUSY_BUDGET_MS = 20_000;

/**
 * A store on the SQLite database in a file. It opens a connection of its own, and `close` closes that one alone.
 *
 * @throws `INVALID_ARGUMENT`; `STORE_UNAVAILABLE` or `STORE_CORRUPT` for a path that cannot be opened.
 * @example
 * const dovecote = nodeSqlite("shop.db");
 * await dovecote.migrate();
 * const db = new DatabaseSync("shop.db");
 * db.exec("begin immediate");
 * db.prepare("insert into orders (id) values (?)").run(17);
 * dovecote.enqueue(db, { stream: "orders", source: "/shop", type: "order.placed", data: { id: 17 } });
 * db.exec("commit");
 */
export function nodeSqlite(path: string, options: NodeSqliteOptions = {}): NodeSqliteDovecote {
  if (typeof path !== "string" || path === "") throw invalid("path", "the path of a file", path);
  const { store, driver } = checkStoreOptions(options, ["busyBudgetMs"]);
  const budget = driver.busyBudgetMs === undefined ? DEFAULT_BUSY_BUDGET_MS : driver.busyBudgetMs;
  const busyBudgetMs = checkWhole(budget, BOUNDS.busyBudgetMs, "options.busyBudgetMs");
  return createDovecote(new NodeSqliteDriver({ client: openWritable(path), busyBudgetMs }), store);
}
