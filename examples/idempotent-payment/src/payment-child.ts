/**
 * The payment service: a line with a request comes in, a line with its reply goes out. It stalls where it is told to, so
 * that it can be killed there.
 */
import { writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { openPayments, type PaymentRequest } from "./payment.ts";
import { type Reply, toFailure, toReply } from "./reply.ts";
import type { Said, Stage } from "./service.ts";

/** Whoever should have killed it is gone by then. */
const LONGEST_STALL_MS = 60_000;

const [place = "", stallAt = ""] = process.argv.slice(2);
const payments = await openPayments(place);
say({ outcome: "ready" });
for await (const line of createInterface({ input: process.stdin })) {
  say(await handle(JSON.parse(line)).catch(toFailure));
}
await payments.close();

async function handle(request: PaymentRequest): Promise<Reply> {
  const result = await payments.pay(request, () => reached("beforeCommit"));
  if (result.outcome === "completed") reached("beforeReply");
  return toReply(result);
}

/** Blocks the whole process: a transaction of SQLite cannot wait for anything else. */
function reached(stage: Stage): void {
  if (stage !== stallAt) return;
  say({ outcome: "stalled" });
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LONGEST_STALL_MS);
}

/** Has been written when it returns: a process that is blocked sends nothing. */
function say(said: Said): void {
  writeSync(1, `${JSON.stringify(said)}\n`);
}
