/** The process of one contender. Builds the driver by itself, then acts on command, at a given moment. */
import { setTimeout } from "node:timers/promises";
import type { Peer } from "../case.ts";
import { connectSession, openOutbox } from "../connect.ts";
import { loadHarness } from "../load-harness.ts";
import { type Actors, actors } from "./actors.ts";
import type { FromContender, ToContender } from "./protocol.ts";

let peer: Peer | undefined;

async function obey(message: ToContender): Promise<FromContender> {
  switch (message.kind) {
    case "connect": {
      const harness = await loadHarness(message.harness);
      const session = await connectSession(harness, message.locator, message.mutant ?? undefined);
      peer = { session, outbox: openOutbox(session, message.mutant ?? undefined) };
      return { kind: "ready" };
    }
    case "disconnect": {
      await peer?.outbox.close();
      await peer?.session.close();
      peer = undefined;
      return { kind: "ready" };
    }
    case "act": {
      if (peer === undefined) throw new Error("told to act before it was connected");
      const act = actors[message.actor] as (peer: Peer, input: unknown) => ReturnType<Actors["claim"]>;
      const at = BigInt(message.at);
      const late = process.hrtime.bigint() > at;
      const from = await reached(at);
      const answer = await act(peer, message.input);
      return { kind: "done", answer, late, from: String(from), to: String(process.hrtime.bigint()) };
    }
  }
}

/** How long before the release a contender stops to sleep: longer than a timer is late. */
const SPIN_NS = 3_000_000n;

/** Answers the moment it is, once the monotonic clock has reached `at`. */
async function reached(at: bigint): Promise<bigint> {
  const ahead = at - SPIN_NS - process.hrtime.bigint();
  if (ahead > 0n) await setTimeout(Number(ahead / 1_000_000n));
  let now = process.hrtime.bigint();
  // A busy wait: a timer would wake the contenders milliseconds apart.
  while (now < at) now = process.hrtime.bigint();
  return now;
}

process.on("message", (message: ToContender) => {
  obey(message).then(reply, (error: unknown) => {
    reply({
      kind: "failed",
      message: error instanceof Error ? (error.stack ?? error.message) : String(error),
    });
  });
});
// The suite has gone: there is nobody left to act for.
process.on("disconnect", () => process.exit());

function reply(message: FromContender): void {
  // The suite may have gone meanwhile: it discards contenders after a failure.
  if (process.connected) process.send?.(message, () => {});
}
