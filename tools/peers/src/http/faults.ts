/** Faults of idempotency middleware for Express, each as what a client sees of it. */
import { randomUUID } from "node:crypto";

/** How a request wants to be answered. */
export interface Script {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** In base64. */
  readonly body?: string;
  /** Default "send". */
  readonly by?: "send" | "end" | "pipe";
  readonly waits?: boolean;
}

/** A server that answers scripts at `/orders`, and behind the routers `/v1` and `/v2`. */
export interface Served {
  readonly url: string;
  /** How often its handler ran. */
  runs(): number;
  /** Resolves when a handler waits. */
  waiting(): Promise<{ goOn(): void }>;
}

export interface Fault {
  readonly name: string;
  shows(served: Served): Promise<boolean>;
}

interface Sent {
  readonly path?: string;
  readonly user?: string;
  readonly text?: string;
}

async function post({ url }: Served, key: string, script: Script, sent: Sent = {}): Promise<Response> {
  return fetch(`${url}${sent.path ?? "/orders"}`, {
    method: "POST",
    body: sent.text ?? JSON.stringify(script),
    headers: {
      "content-type": "application/json",
      "idempotency-key": key,
      ...(sent.user !== undefined && { "x-user": sent.user }),
    },
  });
}

/** The same request twice. */
async function twice(served: Served, script: Script): Promise<readonly [Response, Response]> {
  const key = randomUUID();
  return [await post(served, key, script), await post(served, key, script)];
}

const BYTES = Buffer.from(Uint8Array.from({ length: 256 }, (_, byte) => byte));
const TEXT = { headers: { "content-type": "text/plain" }, body: Buffer.from("done").toString("base64") };

/** Those that a server shows by itself; what takes a lease that is over is not among them. */
export const FAULTS: readonly Fault[] = [
  {
    name: "the middleware's own 409 is recorded and replayed",
    async shows(served) {
      const key = randomUUID();
      const first = post(served, key, { waits: true });
      const handler = await served.waiting();
      const { status } = await post(served, key, { waits: true });
      handler.goOn();
      await first;
      return status === 409 && (await post(served, key, { waits: true })).status === 409;
    },
  },
  {
    name: "one mismatching request overwrites the good record",
    async shows(served) {
      const key = randomUUID();
      await post(served, key, TEXT);
      await post(served, key, { ...TEXT, status: 202 });
      const again = await post(served, key, TEXT);
      return (await again.text()) !== "done";
    },
  },
  {
    name: "a handler that answers 204 runs twice, or is never answered again",
    async shows(served) {
      const [, again] = await twice(served, { status: 204, by: "end" });
      return again.status !== 204 || served.runs() !== 1;
    },
  },
  {
    name: "two routers mounted at different prefixes answer for each other",
    async shows(served) {
      const key = randomUUID();
      for (const path of ["/v1/orders", "/v2/orders"]) await post(served, key, TEXT, { path });
      return served.runs() !== 2;
    },
  },
  {
    name: "answers by end() or a stream never complete",
    async shows(served) {
      for (const by of ["end", "pipe"] as const) {
        const [, again] = await twice(served, { ...TEXT, by });
        if (again.status !== 200 || (await again.text()) !== "done") return true;
      }
      return false;
    },
  },
  {
    name: "user B gets user A's answer",
    async shows(served) {
      const key = randomUUID();
      for (const user of ["a", "b"]) await post(served, key, TEXT, { user });
      return served.runs() !== 2;
    },
  },
  {
    name: "binary bodies are corrupted",
    async shows(served) {
      const headers = { "content-type": "application/pdf" };
      const [, again] = await twice(served, { headers, body: BYTES.toString("base64") });
      return !Buffer.from(await again.arrayBuffer()).equals(BYTES);
    },
  },
  {
    name: "the same JSON with its keys in another order is a mismatch",
    async shows(served) {
      const key = randomUUID();
      const texts = ['{"status":200,"by":"send"}', '{"by":"send","status":200}'];
      const statuses: number[] = [];
      for (const text of texts) statuses.push((await post(served, key, {}, { text })).status);
      return statuses[1] !== 200;
    },
  },
  {
    name: "a replayed 201 has lost its Location",
    async shows(served) {
      const [, again] = await twice(served, { status: 201, headers: { location: "/orders/1" } });
      return again.headers.get("location") !== "/orders/1";
    },
  },
  {
    name: "a Set-Cookie is replayed to another client",
    async shows(served) {
      const [, again] = await twice(served, { headers: { "set-cookie": "session=1" } });
      return again.headers.has("set-cookie");
    },
  },
  {
    name: "two requests at the same time both run",
    async shows(served) {
      const key = randomUUID();
      await Promise.all([1, 2, 3, 4].map(() => post(served, key, TEXT)));
      return served.runs() !== 1;
    },
  },
];
