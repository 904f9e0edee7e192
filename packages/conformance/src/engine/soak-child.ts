/** The process of one part of a soak. It never ends by itself. */
import { connectSession, openOutbox } from "../connect.ts";
import { Recorder } from "../history/record.ts";
import { loadHarness } from "../load-harness.ts";
import { pay } from "./soak-payer.ts";
import { produce } from "./soak-producer.ts";
import { seeded } from "./soak-random.ts";
import type { FromPart, Part, Stage } from "./soak-role.ts";
import { work } from "./soak-worker.ts";

const part = JSON.parse(process.argv[2] ?? "") as Part;
const mutant = part.mutant ?? undefined;

/** The suite has gone: there is nobody left to be killed by. */
process.on("disconnect", () => process.exit());

try {
  const session = await connectSession(await loadHarness(part.harness), part.locator, mutant);
  const stage: Stage = {
    session,
    outbox: openOutbox(session, mutant),
    p: part.p,
    recorder: new Recorder(part.file),
    random: seeded(part.seed),
    stalled: (rowIds) => toldToGoOn({ kind: "holding", rowIds }),
  };
  // A first call, so that what takes long is over before the soak begins.
  await stage.outbox.stats();
  await toldToGoOn({ kind: "ready" });
  await { producer: produce, worker: work, payer: pay }[part.role](stage);
} catch (error) {
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
  tell({ kind: "failed", message: `${part.p}: ${message}` });
}

function toldToGoOn(message: FromPart): Promise<void> {
  return new Promise((resolve) => {
    process.once("message", () => resolve());
    tell(message);
  });
}

function tell(message: FromPart): void {
  if (process.connected) process.send?.(message, () => {});
}
