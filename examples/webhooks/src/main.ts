/**
 * Orders in a SQLite file become signed webhooks. The receiver is busy for one, answers nothing to another, and does not want
 * a third: the relay waits, delivers again, and sets aside. Exit code 1 if an order was lost, or handled more often than once.
 */
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sqlite } from "@dovecote/sqlite";
import { httpTransport } from "@dovecote/webhooks";
import Database from "better-sqlite3";
import { type Mood, type Order, startReceiver } from "./receiver.ts";

const ITEMS = ["a kettle", "a lamp", "two chairs", "a clock", "a yacht", "a rug"];
const started = performance.now();
const tell = (who: string, line: string): void => {
  const seconds = ((performance.now() - started) / 1000).toFixed(2).padStart(5);
  console.log(`${seconds} s  ${who.padEnd(8)} ${line}`);
};

const folder = mkdtempSync(join(tmpdir(), "dovecote-webhooks-"));
const db = new Database(join(folder, "shop.db"));
const dovecote = sqlite(db);
await dovecote.migrate();
db.exec("create table orders (id integer primary key, item text not null)");

// Two secrets while they are being changed: the receiver still knows the old one only.
const [oldSecret, newSecret] = [1, 2].map(() => `whsec_${randomBytes(32).toString("base64")}`) as [
  string,
  string,
];
const receiver = await startReceiver(oldSecret, moodOf, (line) => tell("receiver", line));

for (const [index, item] of ITEMS.entries()) {
  const order: Order = { id: index + 1, item };
  db.transaction(() => {
    db.prepare("insert into orders (id, item) values (?, ?)").run(order.id, order.item);
    dovecote.enqueue(db, {
      stream: "orders",
      source: "/shop",
      id: `order-${order.id}`,
      type: "order.placed",
      data: order,
    });
  }).immediate();
  tell("shop", `order ${order.id}, ${item}: row and event committed in one transaction`);
}

const settled = new AbortController();
let left = ITEMS.length;
const oneLess = (): void => {
  left -= 1;
  if (left === 0) settled.abort();
};
const relay = dovecote.admin().relay({
  deliver: httpTransport({
    byStream: { orders: { url: receiver.url, sign: { secrets: [newSecret, oldSecret] }, timeoutMs: 5000 } },
  }),
  backoff: { baseMs: 300 },
  hooks: {
    delivered: oneLess,
    retried: ({ delayMs, failure }) => tell("relay", `again in ${delayMs} ms: ${failure.detail}`),
    quarantined: ({ reason }) => {
      tell("relay", `set aside: ${reason}`);
      oneLess();
    },
    error: ({ error, doing }) => tell("relay", `${doing}: ${error.message}`),
  },
});
const report = await relay.run({ signal: AbortSignal.any([settled.signal, AbortSignal.timeout(30_000)]) });

await fetch(receiver.url, { method: "POST", body: '{"forged":true}' });
const aside = await dovecote.list({ state: "quarantined" });

console.log(
  `\n${report.delivered} delivered, ${report.retried} tried again, ${aside.entries.length} set aside; ` +
    `the receiver handled ${receiver.handled.length} orders, and saw ${receiver.duplicates} duplicate and ${receiver.forged} forged`,
);
const faults: string[] = [];
if (receiver.handled.length !== new Set(receiver.handled).size)
  faults.push("an order was handled more often than once");
if (receiver.handled.length !== ITEMS.length - 1) faults.push("an order was lost");
if (receiver.duplicates !== 1) faults.push("the order whose answer was lost did not come again");
if (receiver.forged !== 1) faults.push("a request without a signature was taken");
if (aside.entries.length !== 1) faults.push("the order that was not wanted was not set aside");
for (const fault of faults) console.error(`FAULT: ${fault}`);

await receiver.close();
await dovecote.close();
db.close();
rmSync(folder, { recursive: true });
process.exitCode = faults.length === 0 ? 0 : 1;

function moodOf({ id }: Order, request: number): Mood {
  if (id === 2 && request === 1) return "busy";
  if (id === 4 && request === 1) return "lost";
  return id === 5 ? "picky" : "well";
}
