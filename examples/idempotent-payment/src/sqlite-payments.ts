import { sqlite } from "@dovecote/sqlite";
import Database from "better-sqlite3";
import { chargedEvent, created, keyOf, newPayment, type Payment, type Payments } from "./payment.ts";

export function openSqlitePayments(file: string): Payments {
  const db = new Database(file);
  const dovecote = sqlite(db);
  return {
    events: dovecote,
    async setUp() {
      await dovecote.migrate();
      db.exec("create table payments (id text primary key, order_id text not null, amount integer not null)");
    },
    pay(request, charged) {
      return dovecote.keys.run(keyOf(request), ({ tx }) => {
        const payment = newPayment(request);
        tx.client
          .prepare("insert into payments (id, order_id, amount) values (:id, :orderId, :amount)")
          .run(payment);
        dovecote.enqueue(tx, chargedEvent(payment));
        charged();
        return created(payment);
      });
    },
    async list() {
      return db.prepare('select id, order_id as "orderId", amount from payments').all() as Payment[];
    },
    async close() {
      await dovecote.close();
      db.close();
    },
  };
}
