/** A relay in a process of its own: delivers to a receiver over HTTP, fails at random, and tells what became of each event. */
import { Agent, request } from "node:http";
import { connectSession, openOutbox } from "../../src/connect.ts";
import { Recorder } from "../../src/history/record.ts";
import { loadHarness } from "../../src/load-harness.ts";
import { override } from "../../src/override.ts";
import { recordedDriver } from "./recorded-driver.ts";

export interface Task {
  readonly harness: string;
  readonly locator: string;
  readonly name: string;
  readonly receiver: string;
  readonly leaseMs: number;
  /** The file of its history. */
  readonly history: string;
}

/** `delivered` and `lost` are what the relay's hooks say. */
export interface FromRelay {
  readonly kind: "started" | "delivered" | "lost" | "stopped";
  readonly id?: string;
  readonly attempt?: number;
}

export type ToRelay = { readonly kind: "stop" } | { readonly kind: "block"; readonly forMs: number };

const task = JSON.parse(String(process.argv[2])) as Task;
const tell = (message: FromRelay): void => {
  process.send?.(message);
};
const stop = new AbortController();
process.on("message", (message: ToRelay) => {
  if (message.kind === "stop") stop.abort();
  else {
    // The event loop is blocked: no timer fires, no lease is renewed.
    const until = performance.now() + message.forMs;
    while (performance.now() < until);
  }
});
process.on("disconnect", () => process.exit());

const agent = new Agent({ keepAlive: true });
const session = await connectSession(await loadHarness(task.harness), task.locator, undefined);
const recorder = new Recorder(task.history);
const outbox = openOutbox(override(session, { driver: recordedDriver(session.driver, recorder) }), undefined);
const relay = outbox.admin().relay({
  worker: task.name,
  leaseMs: task.leaseMs,
  concurrency: 16,
  pollMs: 50,
  maxAttempts: 1000,
  backoff: { baseMs: 5, maxMs: 50 },
  async deliver({ id }, { attempt }) {
    if (Math.random() < 0.05) throw new Error("a handler that fails at random");
    await post(`${task.receiver}/${id}?attempt=${attempt}&relay=${task.name}`);
    if (Math.random() < 0.02) throw new Error("a handler that fails after it delivered");
  },
  hooks: {
    delivered: ({ claim }) => tell({ kind: "delivered", id: idOf(claim.event), attempt: claim.attempt }),
    lostClaim: ({ claim }) => tell({ kind: "lost", id: idOf(claim.event), attempt: claim.attempt }),
  },
});
tell({ kind: "started" });
await relay.run({ signal: stop.signal });
await outbox.close();
await session.close();
agent.destroy();
process.send?.({ kind: "stopped" } satisfies FromRelay, () => process.disconnect());

function idOf(event: object): string {
  return "id" in event ? String(event.id) : "";
}

function post(url: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { method: "POST", agent }, (response) => {
      response.resume();
      response.once("end", resolve);
    });
    sent.once("error", reject);
    sent.end();
  });
}
