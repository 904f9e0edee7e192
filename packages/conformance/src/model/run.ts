/** Random sequences of calls, on the store and on the model at once. */
import assert from "node:assert/strict";
import * as fc from "fast-check";
import type { Peer } from "../case.ts";
import { claimCommand, claimCommands } from "./claim-commands.ts";
import { enqueueCommand, enqueueCommands } from "./enqueue-commands.ts";
import { operatorCommands } from "./operator-commands.ts";
import { emptyModel } from "./state.ts";
import { Store } from "./store.ts";

const RUNS = 30;
const COMMANDS = 40;
/** After a failure, how long a shorter one is looked for. */
const PATIENCE_MS = 20_000;

/** What every sequence goes on from: pending and claimed rows of both tenants, in both streams. */
const BEGINNING = (["a", "b"] as const).flatMap((tenant) => [
  enqueueCommand({
    tenant,
    events: [
      { id: "1", stream: "x", data: 1 },
      { id: "2", stream: "y", data: 1 },
      { id: "3", stream: "x", data: 1 },
    ],
    later: false,
    undo: false,
  }),
  claimCommand({ scope: { via: tenant, stream: undefined }, limit: 2, shared: tenant === "a", worker: "w1" }),
]);

/** Runs sequences made of the seed; fails with the shortest one found on which store and model do not agree. */
export async function compareWithModel(peer: Peer, seed: number): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  let runs = 0;
  const sequence = fc.commands([...enqueueCommands, ...claimCommands, ...operatorCommands], {
    maxCommands: COMMANDS,
    // Sequences as long as that: by default they are too short to get anywhere.
    size: "max",
  });
  const property = fc.asyncProperty(sequence, async (commands) => {
    if (performance.now() > deadline) return;
    runs += 1;
    const store = new Store(peer, `run-${runs}`);
    const model = emptyModel();
    for (const each of BEGINNING) await each.run(model, store);
    await fc.asyncModelRun(() => ({ model, real: store }), commands);
  });
  const result = await fc.check(property, { seed: seed | 0, numRuns: RUNS });
  if (!result.failed) return;
  // The report ends with the seed, and with the path that replays the shortest sequence.
  assert.fail(`store and model do not agree; ${await fc.asyncDefaultReportMessage(result)}`);
}
