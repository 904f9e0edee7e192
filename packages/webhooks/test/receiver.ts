/** A receiver of webhooks on this machine, and what a delivery needs beside it. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { ClaimToken, type DeliveryContext, type OutboxEvent } from "@dovecote/core";

interface Received {
  readonly headers: IncomingMessage["headers"];
  readonly rawHeaders: readonly string[];
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly body: Buffer;
}

export interface Receiver {
  readonly url: string;
  readonly requests: readonly Received[];
  /** Connections that were opened so far. */
  readonly connections: number;
  /** What the next requests are answered with. */
  answer: Answer;
  close(): Promise<void>;
}

type Answer = (response: ServerResponse, request: IncomingMessage) => void;

export function status(code: number, headers: Record<string, string> = {}, body = ""): Answer {
  return (response) => response.writeHead(code, headers).end(body);
}

export async function startReceiver(): Promise<Receiver> {
  const requests: Received[] = [];
  let connections = 0;
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const { headers, rawHeaders, method, url } = request;
      requests.push({ headers, rawHeaders, method, url, body: Buffer.concat(chunks) });
      receiver.answer(response, request);
    });
  });
  server.on("connection", () => {
    connections += 1;
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const receiver: Receiver = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    get connections() {
      return connections;
    },
    answer: status(204),
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
  return receiver;
}

const encoder = new TextEncoder();

export function someEvent(more: Partial<OutboxEvent> = {}): OutboxEvent {
  return {
    specversion: "1.0",
    id: "order-17",
    source: "/shop",
    type: "order.placed",
    extensions: {},
    dataKind: "json",
    data: { order: 17 },
    dataBytes: encoder.encode('{"order":17}'),
    ...more,
  };
}

export function someContext(more: Partial<DeliveryContext> = {}, attempt = 1): DeliveryContext {
  const tenant = "default";
  const stream = "orders";
  const claim = {
    ...{ rowId: 7, tenant, stream, attempt, forgiven: 0, worker: "relay", reclaimed: false, shared: true },
    ...{ token: new ClaimToken(new Uint8Array(16).fill(1)), expiresAt: new Date(0), event: someEvent() },
  };
  const signal = new AbortController().signal;
  return { signal, tenant, stream, attempt, fence: { rowId: 7, attempt }, claim, ...more };
}

/** What a delivery throws. */
export async function failureOf(delivery: unknown): Promise<Error & Record<string, unknown>> {
  try {
    await delivery;
  } catch (error) {
    return error as Error & Record<string, unknown>;
  }
  throw new Error("it was delivered");
}
