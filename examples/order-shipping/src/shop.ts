/** The application: orders, the warehouse's shipments, and the store of its events, on either database. */
import type { Handle, NewEvent } from "@dovecote/core";

export interface Order {
  readonly id: number;
  readonly item: string;
}

export interface Shipment {
  readonly orderId: number;
  readonly attempt: number;
}

export interface Shop {
  /** Claiming, settling and reading are the same whatever the database is. */
  readonly events: Handle;
  /** Creates the tables of the application and of the events. */
  setUp(): Promise<void>;
  /** The order and its event commit together, or, when the payment throws, neither does. */
  placeOrder(order: Order, payment: () => void): Promise<void>;
  /**
   * What the warehouse does with a delivery. Its fence: an attempt that is not newer than the one it has seen is
   * ignored, so that a worker that was taken for dead cannot ship again. Answers whether it shipped.
   */
  ship(orderId: number, attempt: number, worker: string): Promise<boolean>;
  shipments(): Promise<readonly Shipment[]>;
  close(): Promise<void>;
}

/** Opens the shop at a file, or at the URL of a Postgres database; each process opens its own. */
export async function openShop(place: string): Promise<Shop> {
  if (!/^postgres(ql)?:/.test(place)) return (await import("./sqlite-shop.ts")).openSqliteShop(place);
  return (await import("./postgres-shop.ts")).openPostgresShop(place);
}

export function placed(order: Order): NewEvent {
  return {
    stream: "shipping",
    source: "/shop",
    id: `order-${order.id}`,
    type: "com.example.order.placed",
    data: order,
  };
}
