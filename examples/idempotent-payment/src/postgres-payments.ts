import { postgres } from "@dovecote/postgres";
import postgresjs from "postgres";
import { chargedEvent, created, keyOf, newPayment, type Payment, type Payments } from "./payment.ts";

const SCHEMA = "idempotent_payment";

/** The search path makes the application's table and the store's share a schema of the example's own. */
export function openPostgresPayments(url: string): Payments {
  const sql = postgresjs(url, { onnotice: () => {}, connection: { search_path: SCHEMA } });
  const dovecote = postgres(sql, { schema: SCHEMA });
  return {
    events: dovecote,
    async setUp() {
      await sql`drop schema if exists ${sql(SCHEMA)} cascade`;
      await dovecote.migrate();
      await sql`create table payments (id text primary key, order_id text not null, amount integer not null)`;
    },
    pay(request, charged) {
      return dovecote.keys.run(keyOf(request), async ({ tx }) => {
        const payment = newPayment(request);
        await tx.sql`
          insert into payments (id, order_id, amount) values (${payment.id}, ${payment.orderId}, ${payment.amount})`;
        await dovecote.enqueue(tx, chargedEvent(payment));
        charged();
        return created(payment);
      });
    },
    async list() {
      return await sql<Payment[]>`select id, order_id as "orderId", amount from payments`;
    },
    async close() {
      await dovecote.close();
      await sql.end();
    },
  };
}
