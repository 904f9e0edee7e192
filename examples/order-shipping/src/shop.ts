/** The application: orders, the warehouse's shipments, and one function that places an order. */
import type { SqliteDovecote } from "@dovecote/sqlite";
import Database from "better-sqlite3";

export interface Order {
  readonly id: number;
  readonly item: string;
}

/** A process of the shop opens its own connection; SQLite serialises their writes. */
export function openShop(file: string): Database.Database {
  const db = new Database(file);
  db.exec(`
    create table if not exists orders (id integer primary key, item text not null);
    create table if not exists shipments (order_id integer primary key, attempt integer not null, worker text not null);
  `);
  return db;
}

/** The order and its event commit together, or neither does. */
export function placeOrder(
  db: Database.Database,
  dovecote: SqliteDovecote,
  order: Order,
  payment: () => void,
): void {
  db.transaction(() => {
    db.prepare("insert into orders (id, item) values (?, ?)").run(order.id, order.item);
    dovecote.enqueue(db, {
      stream: "shipping",
      source: "/shop",
      id: `order-${order.id}`,
      type: "com.example.order.placed",
      data: order,
    });
    payment();
  }).immediate();
}

/**
 * What the warehouse does with a delivery. Its fence: an attempt that is not newer than the one it has seen is
 * ignored, so that a worker that was taken for dead cannot ship again.
 */
export function ship(db: Database.Database, orderId: number, attempt: number, worker: string): boolean {
  const { changes } = db
    .prepare(
      `insert into shipments (order_id, attempt, worker) values (?, ?, ?)
      on conflict (order_id) do update set attempt = excluded.attempt, worker = excluded.worker
      where excluded.attempt > shipments.attempt`,
    )
    .run(orderId, attempt, worker);
  return changes === 1;
}
