import { postgres } from "@dovecote/postgres";
import postgresjs from "postgres";
import { placed, type Shipment, type Shop } from "./shop.ts";

const SCHEMA = "order_shipping";

/** The search path makes the application's tables and the events share a schema of the demo's own. */
export function openPostgresShop(url: string): Shop {
  const sql = postgresjs(url, { onnotice: () => {}, connection: { search_path: SCHEMA } });
  const dovecote = postgres(sql, { schema: SCHEMA });
  return {
    events: dovecote,
    async setUp() {
      await sql`drop schema if exists ${sql(SCHEMA)} cascade`;
      await dovecote.migrate();
      await sql`create table orders (id integer primary key, item text not null)`;
      await sql`create table shipments (order_id integer primary key, attempt integer not null, worker text not null)`;
    },
    async placeOrder(order, payment) {
      await sql.begin(async (tx) => {
        await tx`insert into orders (id, item) values (${order.id}, ${order.item})`;
        await dovecote.enqueue(tx, placed(order));
        payment();
      });
    },
    async ship(orderId, attempt, worker) {
      const { count } = await sql`
        insert into shipments (order_id, attempt, worker) values (${orderId}, ${attempt}, ${worker})
        on conflict (order_id) do update set attempt = excluded.attempt, worker = excluded.worker
        where excluded.attempt > shipments.attempt`;
      return count === 1;
    },
    async shipments() {
      return await sql<Shipment[]>`select order_id as "orderId", attempt from shipments`;
    },
    async close() {
      await dovecote.close();
      await sql.end();
    },
  };
}
