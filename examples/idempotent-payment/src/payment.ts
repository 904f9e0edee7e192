/** The application: payments under the idempotency keys of its customers, and their events, on either database. */
import { randomUUID } from "node:crypto";
import {
  fingerprint,
  type Handle,
  type KeyResponse,
  type NewEvent,
  type RunOptions,
  type RunOutcome,
} from "@dovecote/core";

/** What came in as `POST /payments` from a customer who is logged in. */
export interface PaymentRequest {
  readonly customer: string;
  readonly idempotencyKey: string;
  /** JSON text with an order and an amount. */
  readonly body: string;
}

export interface Payment {
  readonly id: string;
  readonly orderId: string;
  /** In cents. */
  readonly amount: number;
}

export interface Payments {
  readonly events: Handle;
  /** Creates the tables of the application and of the store. */
  setUp(): Promise<void>;
  /**
   * The payment, its event and the answer commit together. Whoever sends the same key again is given the same answer.
   *
   * @param charged is called when the payment and its event are written, and not yet committed.
   */
  pay(request: PaymentRequest, charged: () => void): Promise<RunOutcome>;
  list(): Promise<readonly Payment[]>;
  close(): Promise<void>;
}

/** Short, so that the story is: for how long a key is in flight after its holder was killed. */
const LEASE_MS = 1000;

/** Opens the payments at a file, or at the URL of a Postgres database; each process opens its own. */
export async function openPayments(place: string): Promise<Payments> {
  if (!/^postgres(ql)?:/.test(place)) return (await import("./sqlite-payments.ts")).openSqlitePayments(place);
  return (await import("./postgres-payments.ts")).openPostgresPayments(place);
}

/** All that an attempt does is undone with its transaction: the next one may do it again. */
export function keyOf({ customer, idempotencyKey, body }: PaymentRequest): RunOptions {
  return {
    scope: { principal: customer, method: "POST", path: "/payments" },
    key: idempotencyKey,
    fingerprint: fingerprint.json(body),
    takeover: "rerun",
    leaseMs: LEASE_MS,
  };
}

/** Every payment has an id of its own: one that is made twice would show. */
export function newPayment({ body }: PaymentRequest): Payment {
  const { orderId, amount } = JSON.parse(body) as Omit<Payment, "id">;
  return { id: randomUUID(), orderId, amount };
}

export function chargedEvent(payment: Payment): NewEvent {
  return {
    stream: "payments",
    source: "/payments",
    id: payment.id,
    type: "payment.charged",
    data: payment,
  };
}

export function created(payment: Payment): KeyResponse {
  return {
    status: 201,
    headers: [["content-type", "application/json"]],
    body: JSON.stringify(payment),
  };
}
