import { sqlite } from "@dovecote/sqlite";
import Database from "better-sqlite3";
import { placed, type Shipment, type Shop } from "./shop.ts";

export function openSqliteShop(file: string): Shop {
  const db = new Database(file);
  const dovecote = sqlite(db);
  return {
    events: dovecote,
    async setUp() {
      await dovecote.migrate();
      db.exec(`
        create table orders (id integer primary key, item text not null);
        create table shipments (order_id integer primary key, attempt integer not null, worker text not null)`);
    },
    async placeOrder(order, payment) {
      db.transaction(() => {
        db.prepare("insert into orders (id, item) values (?, ?)").run(order.id, order.item);
        dovecote.enqueue(db, placed(order));
        payment();
      }).immediate();
    },
    async ship(orderId, attempt, worker) {
      const { changes } = db
        .prepare(
          `insert into shipments (order_id, attempt, worker) values (?, ?, ?)
          on conflict (order_id) do update set attempt = excluded.attempt, worker = excluded.worker
          where excluded.attempt > shipments.attempt`,
        )
        .run(orderId, attempt, worker);
      return changes === 1;
    },
    async shipments() {
      return db.prepare('select order_id as "orderId", attempt from shipments').all() as Shipment[];
    },
    async close() {
      await dovecote.close();
      db.close();
    },
  };
}
