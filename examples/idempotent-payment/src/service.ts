/** Processes of the payment service, as whoever calls and kills them sees them. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { extname } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { PaymentRequest } from "./payment.ts";
import type { Reply } from "./reply.ts";
import { tell } from "./story.ts";

/** Where a process can stall: within the transaction, or between its commit and the reply. */
export type Stage = "beforeCommit" | "beforeReply";

/** A line of a process. */
export type Said = Reply | { readonly outcome: "ready" | "stalled" };

export interface Service {
  /** Sends a request; the process replies, or stalls. */
  ask(request: PaymentRequest): Promise<Said>;
  kill(): Promise<void>;
  stop(): Promise<void>;
}

export async function startService(place: string, stallAt?: Stage): Promise<Service> {
  const entry = fileURLToPath(new URL(`./payment-child${extname(import.meta.url)}`, import.meta.url));
  const child = spawn(
    process.execPath,
    ["--disable-warning=ExperimentalWarning", entry, place, stallAt ?? "nowhere"],
    { stdio: ["pipe", "pipe", "inherit"] },
  );
  process.once("exit", () => child.kill("SIGKILL"));
  const exit = once(child, "exit");
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async (): Promise<Said> => {
    const line = await lines.next();
    if (line.done) throw new Error("a service ended early");
    return JSON.parse(line.value) as Said;
  };
  await next();
  return {
    async ask(request) {
      child.stdin.write(`${JSON.stringify(request)}\n`);
      return next();
    },
    async kill() {
      child.kill("SIGKILL");
      await exit;
    },
    async stop() {
      child.stdin.end();
      await exit;
    },
  };
}

/** A customer who asks again with the same key until something else than "not yet" is said. */
export async function insist(service: Service, request: PaymentRequest): Promise<Said> {
  for (;;) {
    const said = await service.ask(request);
    if (!("retryAfterMs" in said) || said.retryAfterMs === undefined) return said;
    tell("customer", `${said.status} ${said.outcome}: asks again in ${said.retryAfterMs} ms`);
    await delay(said.retryAfterMs);
  }
}
