/** A worker process: claims one event at a time under a lease, ships the order, acknowledges. */
import { setTimeout as delay } from "node:timers/promises";
import { isDecoded, isDovecoteError } from "@dovecote/core";
import { type Order, openShop } from "./shop.ts";
import type { Report } from "./story.ts";

const [place = "", worker = "", lease = "", packing = ""] = process.argv.slice(2);
const shop = await openShop(place);

const report = (kind: Report["kind"], orderId: number, attempt: number): void => {
  process.send?.({ worker, kind, orderId, attempt } satisfies Report);
};

let stopping = false;
process.on("message", () => {
  stopping = true;
});

while (!stopping) {
  const [claim] = await shop.events.claim({ worker, leaseMs: Number(lease), limit: 1, stream: "shipping" });
  if (claim === undefined) {
    await delay(20);
    continue;
  }
  if (!isDecoded(claim.event)) throw new Error(claim.event.undecodable);
  const { id } = claim.event.data as Order;
  const { attempt } = claim;
  report(claim.reclaimed ? "tookOver" : "claimed", id, attempt);
  await delay(Number(packing)); // packing the parcel: here a worker freezes, or dies
  report((await shop.ship(id, attempt, worker)) ? "shipped" : "fenced", id, attempt);
  try {
    await shop.events.ack(claim);
    report("acked", id, attempt);
  } catch (error) {
    if (!isDovecoteError(error, "LOST_CLAIM", "ILLEGAL_TRANSITION")) throw error;
    report("refused", id, attempt);
  }
}

await shop.close();
process.disconnect();
