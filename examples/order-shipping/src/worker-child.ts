/** A worker process: a relay whose handler packs the parcel and ships it. */
import { setTimeout as delay } from "node:timers/promises";
import type { Claim } from "@dovecote/core";
import { type Order, openShop } from "./shop.ts";
import type { Report } from "./story.ts";

const [place = "", worker = "", lease = "", packing = ""] = process.argv.slice(2);
const shop = await openShop(place);

const report = (kind: Report["kind"], { event, attempt }: Pick<Claim, "event" | "attempt">): void => {
  const { id: orderId } = ("data" in event ? event.data : {}) as Order;
  process.send?.({ worker, kind, orderId, attempt } satisfies Report);
};

const stop = new AbortController();
process.on("message", () => stop.abort());

const relay = shop.events.relay({
  worker,
  leaseMs: Number(lease),
  concurrency: 1,
  streams: { shipping: {} },
  pollMs: 20,
  backoff: { baseMs: 1, maxMs: 1 },
  async deliver(event, { attempt, claim }) {
    report(claim.reclaimed ? "tookOver" : "claimed", claim);
    await delay(Number(packing)); // packing the parcel: here a worker freezes, or dies
    const { id } = event.data as Order;
    report((await shop.ship(id, attempt, worker)) ? "shipped" : "fenced", claim);
  },
  hooks: {
    delivered: ({ claim }) => report("acked", claim),
    lostClaim: ({ claim }) => report("refused", claim),
    error: ({ error, doing }) => console.error(`${worker}: ${doing}: ${error.message}`),
  },
});
await relay.run({ signal: stop.signal });
await shop.close();
process.disconnect();
