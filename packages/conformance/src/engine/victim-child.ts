/** The process of one victim: follows its script until it is done, or until it is killed. */
import type { Peer } from "../case.ts";
import { connectSession, openOutbox } from "../connect.ts";
import { loadHarness } from "../load-harness.ts";
import { type Steps, scripts } from "./scripts.ts";
import type { FromVictim, Sentence } from "./victim.ts";

const { harness: url, locator, mutant, script, input } = JSON.parse(process.argv[2] ?? "") as Sentence;

/** The suite has gone: there is nobody left to be killed by. */
process.on("disconnect", () => process.exit());

const steps: Steps = {
  checkpoint: (name, report = null) =>
    new Promise((resolve) => {
      process.once("message", () => resolve());
      tell({ kind: "checkpoint", name, report });
    }),
  progress: (report) => tell({ kind: "progress", report }),
};

try {
  const session = await connectSession(await loadHarness(url), locator, mutant ?? undefined);
  const peer: Peer = { session, outbox: openOutbox(session, mutant ?? undefined) };
  const follow = scripts[script] as (peer: Peer, input: unknown, steps: Steps) => Promise<unknown>;
  tell({ kind: "done", answer: await follow(peer, input, steps) });
} catch (error) {
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
  tell({ kind: "failed", message });
}

function tell(message: FromVictim): void {
  if (process.connected) process.send?.(message, () => {});
}
