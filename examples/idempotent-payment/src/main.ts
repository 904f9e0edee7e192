/**
 * A customer pays, and the service is killed twice: before its commit, and after it before the reply. Then two processes get
 * one request at the same time. On a SQLite file or, with --postgres, on a Postgres server of the example's own (or the one
 * that DATABASE_URL names). Exit code 1 if an order was charged twice or never, or answered in two ways.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isDecoded } from "@dovecote/core";
import { program } from "commander";
import { openPayments, type Payment, type PaymentRequest } from "./payment.ts";
import { insist, type Said, type Service, startService } from "./service.ts";
import { tell } from "./story.ts";

const { postgres } = program
  .description("Payments that are sent again and again, and charged once.")
  .option("--postgres", "on Postgres: DATABASE_URL, or a server that the example brings", false)
  .parse()
  .opts<{ postgres: boolean }>();
const place = await findPlace();
const payments = await openPayments(place.locator);
await payments.setUp();
console.log(`Everything is in ${place.description}.`);

const faults: string[] = [];
/** The bytes of every 201 that a customer was given, by order. */
const answers = new Map<string, string[]>();
const [first, second, third, fourth] = await Promise.all([
  startService(place.locator, "beforeCommit"),
  startService(place.locator, "beforeReply"),
  startService(place.locator),
  startService(place.locator),
]);

const kettle = request("key-1", { orderId: "order-17", amount: 4200 });
tell("customer", "POST /payments with key-1: order-17, 42.00");
check("the first attempt", (await insist(first, kettle)).outcome, "stalled");
await first.kill();
tell("fate", "kills the service (SIGKILL) after it wrote payment and event, before its commit");
check("what is committed", await committed(), "payments: 0, events: 0");

tell("customer", "heard nothing, and sends key-1 again");
check("the second attempt", (await insist(second, kettle)).outcome, "stalled");
await second.kill();
tell("fate", "kills the service (SIGKILL) after its commit, before its reply");
check("what is committed", await committed(), "payments: 1, events: 1");

tell("customer", "heard nothing, and sends key-1 again, and again");
for (const service of [third, fourth]) check("a retry", await hear(service, kettle), "replay");
tell("customer", "sends key-1 again, with 43.00");
const dearer = request("key-1", { orderId: "order-17", amount: 4300 });
check("another amount", await hear(third, dearer), "mismatch");

const lamp = request("key-2", { orderId: "order-18", amount: 1900 });
tell("customer", "POST /payments with key-2, to two processes at the same time: order-18, 19.00");
const both = await Promise.all([hear(third, lamp), hear(fourth, lamp)]);
check("two at the same time", both.sort().join(" and "), "completed and replay");
await Promise.all([third.stop(), fourth.stop()]);

console.log("");
const [charged, events] = [await payments.list(), await chargedEvents()];
for (const orderId of ["order-17", "order-18"]) {
  const isIts = (payment: Payment): boolean => payment.orderId === orderId;
  const [rows, sent, given] = [charged.filter(isIts), events.filter(isIts), answers.get(orderId) ?? []];
  // Each payment that is made has an id of its own: the row, the event and every answer have to name the same one.
  const same = [...sent.map(toBytes), ...given].every((bytes) => bytes === toBytes(rows[0]));
  const found = `${rows.length} payment, ${sent.length} event, ${given.length} answers, ${same ? "all the same" : "not the same"}`;
  console.log(`${orderId}: ${found}`);
  check(orderId, found, "1 payment, 1 event, 2 answers, all the same");
}

await payments.close();
await place.leave();
for (const fault of faults) console.error(`FAULT: ${fault}`);
console.log(
  faults.length === 0
    ? "Each order was charged once, with one event, and everybody was told the same."
    : "The guarantees did not hold.",
);
process.exitCode = faults.length === 0 ? 0 : 1;

function request(idempotencyKey: string, order: Omit<Payment, "id">): PaymentRequest {
  return { customer: "customer-7", idempotencyKey, body: JSON.stringify(order) };
}

/** A customer who asks until there is an answer, and keeps it. Answers the outcome. */
async function hear(service: Service, asked: PaymentRequest): Promise<Said["outcome"]> {
  const said = await insist(service, asked);
  if (!("status" in said)) return said.outcome;
  tell("customer", `hears ${said.status} ${said.outcome}`);
  const { orderId } = JSON.parse(asked.body) as Payment;
  if (said.status === 201) answers.set(orderId, [...(answers.get(orderId) ?? []), said.body]);
  return said.outcome;
}

async function chargedEvents(): Promise<readonly Payment[]> {
  const { entries } = await payments.events.page({ limit: 1000 });
  return entries.flatMap(({ event }) => (isDecoded(event) ? [event.data as Payment] : []));
}

/** As a reader sees it: what is not committed is not there. */
async function committed(): Promise<string> {
  const counts = `payments: ${(await payments.list()).length}, events: ${(await chargedEvents()).length}`;
  tell("database", counts);
  return counts;
}

function toBytes(payment: Payment | undefined): string {
  return Buffer.from(JSON.stringify(payment)).toString("base64");
}

function check(what: string, found: string, expected: string): void {
  if (found !== expected) faults.push(`${what}: ${found}, and not ${expected}`);
}

interface Place {
  readonly locator: string;
  readonly description: string;
  leave(): Promise<void>;
}

async function findPlace(): Promise<Place> {
  const url = process.env.DATABASE_URL;
  const schema = "the schema idempotent_payment of";
  if (postgres && url !== undefined && url !== "") {
    return { locator: url, description: `${schema} your database`, leave: async () => {} };
  }
  if (postgres) {
    const { startServer } = await import("@dovecote-internal/postgres-server");
    const server = await startServer();
    const description = `${schema} a Postgres server that was started for it`;
    return { locator: server.url, description, leave: () => server.stop() };
  }
  const folder = mkdtempSync(join(tmpdir(), "dovecote-payment-"));
  return {
    locator: join(folder, "payments.db"),
    description: "a SQLite file that is removed at the end",
    leave: async () => rmSync(folder, { recursive: true }),
  };
}
