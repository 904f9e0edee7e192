/**
 * Orders are placed and their events written in the same transaction, on a SQLite file or, with --postgres, on a Postgres
 * server of the demo's own (or the one that DATABASE_URL names). Two worker processes ship them. One is
 * frozen in mid-delivery until its lease is over, comes back as a zombie, and is killed in mid-delivery later on.
 * Exit code 1 if an order was lost, or if anything counts as delivered that its holder did not deliver.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { program } from "commander";
import { type Order, openShop } from "./shop.ts";
import { describe, heading, type Report, type Teller, table, tell } from "./story.ts";

const LEASE_MS = 1200;
const ITEMS = ["a kettle", "a lamp", "two chairs", "a clock", "a rug", "a mirror"];

const { postgres } = program
  .description("Orders, two workers, one of them frozen and killed, and no order lost.")
  .option("--postgres", "on Postgres: DATABASE_URL, or a server that the demo brings", false)
  .parse()
  .opts<{ postgres: boolean }>();
const place = await findPlace();
const shop = await openShop(place.locator);
await shop.setUp();

heading("The shop places its orders");
console.log(`Everything is in ${place.description}`);
const orders: readonly Order[] = ITEMS.map((item, index) => ({ id: index + 1, item }));
for (const order of orders) {
  await shop.placeOrder(order, () => {});
  tell("shop", `order ${order.id}, ${order.item}: row and event committed in one transaction`);
}
try {
  await shop.placeOrder({ id: 99, item: "a yacht" }, () => {
    throw new Error("card declined");
  });
} catch {
  tell("shop", "order 99, a yacht: card declined, so neither the row nor the event exists");
}

heading(`Two processes deliver, each claim under a lease of ${LEASE_MS} ms`);
const reports: Report[] = [];
const ann = startWorker("ann", 60);
// Ann begins alone, so that the story is the same on every machine.
const frozen = await next(ann, "claimed");
ann.kill("SIGSTOP");
tell("fate", `freezes ann (SIGSTOP) while order ${frozen.orderId} lies half packed on her table`);
const ben = startWorker("ben", 60);
await next(ben, "acked", frozen.orderId);
tell("fate", "lets ann go on (SIGCONT): she does not know how long she was away");
const back = next(ann, "refused", frozen.orderId);
ann.kill("SIGCONT");
await back;

heading("One more order, and a worker that dies");
const last: Order = { id: orders.length + 1, item: "a piano" };
// Ben is busy with nothing and would be faster: he is held back until ann has the order.
ben.kill("SIGSTOP");
const doomed = next(ann, "claimed", last.id);
await shop.placeOrder(last, () => {});
tell("shop", `order ${last.id}, ${last.item}: row and event committed in one transaction`);
await doomed;
ann.kill("SIGKILL");
tell(
  "fate",
  `kills ann (SIGKILL) in the middle of order ${last.id}; nobody is told, only her lease runs out`,
);
const rescued = next(ben, "acked", last.id);
ben.kill("SIGCONT");
await rescued;
ben.send("stop");
await once(ben, "exit");

heading("What the database says");
const { entries } = await shop.events.page({ limit: 1000 });
const shipments = new Map((await shop.shipments()).map((shipment) => [shipment.orderId, shipment]));
const faults: string[] = [];
const rows = [...orders, last].map(({ id, item }) => {
  const entry = entries.find(({ event }) => "id" in event && event.id === `order-${id}`);
  const shipment = shipments.get(id);
  const acks = reports.filter(({ kind, orderId }) => kind === "acked" && orderId === id);
  const [ack] = acks;
  if (entry?.delivery.state !== "delivered")
    faults.push(`order ${id} was lost: ${entry?.delivery.state ?? "no event"}`);
  if (acks.length !== 1) faults.push(`order ${id} was acknowledged ${acks.length} times`);
  if (ack?.attempt !== entry?.delivery.attempt) faults.push(`order ${id} was delivered by a zombie`);
  if (shipment?.attempt !== entry?.delivery.attempt)
    faults.push(`order ${id} was shipped by another attempt`);
  const past = reports.some(({ kind, orderId }) => kind === "tookOver" && orderId === id) ? "taken over" : "";
  return [id, item, entry?.delivery.state, entry?.delivery.attempt, ack?.worker, past];
});
table(["order", "item", "delivery", "attempts", "delivered by", ""], rows);
if (entries.length !== orders.length + 1)
  faults.push(`there are ${entries.length} events for ${orders.length + 1} orders`);
if (!reports.some(({ kind }) => kind === "refused")) faults.push("no late outcome was discarded");

await shop.close();
await place.leave();
for (const fault of faults) console.error(`FAULT: ${fault}`);
console.log(
  faults.length === 0
    ? `\nEvery order was delivered, none by a zombie. ${place.afterwards}`
    : "\nThe guarantees did not hold.",
);
process.exitCode = faults.length === 0 ? 0 : 1;

interface Place {
  readonly locator: string;
  readonly description: string;
  readonly afterwards: string;
  leave(): Promise<void>;
}

async function findPlace(): Promise<Place> {
  const url = process.env.DATABASE_URL;
  const schema = "the schema order_shipping of";
  if (postgres && url !== undefined && url !== "") {
    const afterwards = "The schema order_shipping is yours to look at.";
    return { locator: url, description: `${schema} your database`, afterwards, leave: async () => {} };
  }
  if (postgres) {
    const { startServer } = await import("@dovecote-internal/postgres-server");
    const server = await startServer();
    const description = `${schema} a Postgres server that was started for it`;
    return {
      locator: server.url,
      description,
      afterwards: "The server is gone.",
      leave: () => server.stop(),
    };
  }
  const file = join(mkdtempSync(join(tmpdir(), "dovecote-demo-")), "shop.db");
  const afterwards = `The file is yours to look at: ${file}`;
  return { locator: file, description: `one SQLite file: ${file}`, afterwards, leave: async () => {} };
}

function startWorker(worker: Teller, packingMs: number): ChildProcess {
  const entry = fileURLToPath(new URL(`./worker-child${extname(import.meta.url)}`, import.meta.url));
  const child = fork(entry, [place.locator, worker, String(LEASE_MS), String(packingMs)], {
    execArgv: ["--disable-warning=ExperimentalWarning"],
  });
  child.on("message", (report: Report) => {
    reports.push(report);
    tell(worker, describe(report));
  });
  process.once("exit", () => child.kill("SIGKILL"));
  return child;
}

/** The next report of a kind from a worker. */
function next(child: ChildProcess, kind: Report["kind"], orderId?: number): Promise<Report> {
  return new Promise((resolve, reject) => {
    const onMessage = (report: Report): void => {
      if (report.kind !== kind || (orderId !== undefined && report.orderId !== orderId)) return;
      child.off("message", onMessage);
      resolve(report);
    };
    child.on("message", onMessage);
    child.once("exit", (code, signal) => reject(new Error(`a worker ended early: ${code ?? signal}`)));
  });
}
