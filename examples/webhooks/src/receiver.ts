/** Somebody else's service: verifies who sent a webhook, reads the event, and handles each event one time. */
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { type CloudEvent, HTTP } from "cloudevents";
import { Webhook } from "standardwebhooks";

export interface Order {
  readonly id: number;
  readonly item: string;
}

/** What becomes of a request that is in order: `lost` handles it, and breaks the connection before it answers. */
export type Mood = "well" | "busy" | "lost" | "picky";

export interface Receiver {
  readonly url: string;
  /** Ids of orders that were handled, in order. */
  readonly handled: readonly number[];
  readonly duplicates: number;
  readonly forged: number;
  close(): Promise<void>;
}

/** @param mood what the receiver does with an order at its n-th request, from 1 on. */
export async function startReceiver(
  secret: string,
  mood: (order: Order, request: number) => Mood,
  tell: (line: string) => void,
): Promise<Receiver> {
  const webhook = new Webhook(secret);
  const seen = new Set<string>();
  const requests = new Map<number, number>();
  const handled: number[] = [];
  let duplicates = 0;
  let forged = 0;

  const server = createServer(async (request, response) => {
    const body = await text(request);
    const { headers } = request;
    try {
      webhook.verify(body, headers as Record<string, string>, { jsonParse: false });
    } catch {
      forged += 1;
      tell("a request without a valid signature: 401");
      response.writeHead(401).end("who are you?");
      return;
    }
    const { data: order, type } = toEvent(headers, body);
    if (order === undefined) throw new Error("an order was expected");
    const count = (requests.get(order.id) ?? 0) + 1;
    requests.set(order.id, count);
    const what = `${type} ${order.id} (${order.item}), fence ${headers["dovecote-fence"]}`;

    const now = mood(order, count);
    if (now === "busy") {
      tell(`${what}: busy, 503, come back in a second`);
      response.writeHead(503, { "retry-after": "1" }).end("busy");
      return;
    }
    if (now === "picky") {
      tell(`${what}: not wanted, 422`);
      response.writeHead(422).end("this shop sells no yachts");
      return;
    }
    // The same id at every delivery: what was handled before is only acknowledged.
    const id = String(headers["webhook-id"]);
    if (seen.has(id)) {
      duplicates += 1;
      tell(`${what}: a duplicate, 200`);
    } else {
      seen.add(id);
      handled.push(order.id);
      tell(`${what}: handled${now === "lost" ? ", and the connection breaks before the answer" : ", 200"}`);
    }
    if (now === "lost") response.destroy();
    else response.writeHead(200).end("thanks");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`,
    handled,
    get duplicates() {
      return duplicates;
    },
    get forged() {
      return forged;
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

function toEvent(headers: IncomingHttpHeaders, body: string): CloudEvent<Order> {
  const event = HTTP.toEvent<Order>({ headers, body });
  if (Array.isArray(event)) throw new Error("a single event was expected");
  return event as CloudEvent<Order>;
}
