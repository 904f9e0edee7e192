/**
 * The soak engine. Producers and workers run freely in processes of their own, are killed, stopped and started again,
 * and write down what they do; in the end everything that is left is delivered, and the history has to be explicable.
 * The seed repeats who does what and what is done to whom, though not how the processes interleave. How long a soak
 * takes is wall time.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, parse } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { Peer } from "../case.ts";
import type { Json } from "../define-harness.ts";
import { checkHistory } from "../history/check.ts";
import { KEY_ID } from "../history/keys.ts";
import type { Operation } from "../history/operation.ts";
import { readOperations } from "../history/read.ts";
import { Recorder } from "../history/record.ts";
import { ClockSlack } from "./soak-clock.ts";
import { drain, expire } from "./soak-drain.ts";
import { begin } from "./soak-payer.ts";
import { SoakProcess } from "./soak-process.ts";
import { type Random, seeded } from "./soak-random.ts";
import { countsOf, missing, type SoakReport } from "./soak-report.ts";
import type { Part } from "./soak-role.ts";

export interface SoakPlan {
  readonly durationMs: number;
  readonly producers: number;
  readonly workers: number;
  /** Processes that claim idempotency keys; 0 where the driver has none. */
  readonly payers: number;
}

/** Where a soak takes place. */
export interface SoakSpace {
  readonly harness: string;
  readonly locator: Json;
  readonly mutant: string | null;
  readonly seed: number;
  readonly session: Peer["session"];
  connect(): Promise<Peer>;
}

/** How much longer a soak goes on, on a slow machine, until everything has happened that should. */
const PATIENCE_MS = 20_000;
const TAKEOVER_MS = 1_000;
const LAST_LEASE_MS = 60_000;

interface Chaos {
  readonly space: SoakSpace;
  readonly processes: SoakProcess[];
  readonly random: Random;
  readonly recorder: Recorder;
  readonly clock: ClockSlack;
  readonly start: (part: Pick<Part, "role" | "p">) => SoakProcess;
  readonly history: () => readonly Operation[];
  readonly payers: number;
  kills: number;
  freezes: number;
  zombies: number;
}

export async function soak(space: SoakSpace, plan: SoakPlan): Promise<SoakReport> {
  const { harness, locator, mutant, seed, session } = space;
  const folder = mkdtempSync(join(tmpdir(), "dovecote-soak-"));
  const begun = process.hrtime.bigint();
  const random = seeded(seed);
  const start: Chaos["start"] = ({ role, p }) => {
    const file = join(folder, `${p}.jsonl`);
    return new SoakProcess({ role, p, file, harness, locator, mutant, seed: random.below(2 ** 32) });
  };
  const processes = [
    ...Array.from({ length: plan.producers }, (_, n) => start({ role: "producer", p: `producer-${n}` })),
    ...Array.from({ length: plan.workers }, (_, n) => start({ role: "worker", p: `worker-${n}` })),
    ...Array.from({ length: plan.payers }, (_, n) => start({ role: "payer", p: `payer-${n}` })),
  ];
  const recorder = new Recorder(join(folder, "suite.jsonl"));
  const chaos: Chaos = {
    ...{ space, processes, random, recorder, start, kills: 0, freezes: 0, zombies: 0 },
    payers: plan.payers,
    clock: new ClockSlack(session.probe),
    history: () => historyIn(folder, begun),
  };
  try {
    await Promise.all(processes.map(({ ready }) => ready));
    await chaos.clock.sample();
    for (const each of processes) each.goOn();
    await disturb(chaos, plan.durationMs);
    await Promise.all(processes.map((each) => each.kill()));
    const fresh = await space.connect();
    const final = await drain(fresh, recorder, session);
    await chaos.clock.sample();
    await askAgain({ ...fresh, recorder }, chaos.history());
    const operations = chaos.history();
    const businessRows = await session.probe.businessRows();
    const violations = checkHistory({ operations, final, businessRows, clockSlackNs: chaos.clock.ns });
    const { kills, freezes, zombies } = chaos;
    const { payers } = plan;
    return { seed, payers, kills, freezes, zombies, violations, ...countsOf(operations, final) };
  } finally {
    await Promise.all(processes.map((each) => each.kill()));
    recorder.close();
    rmSync(folder, { recursive: true });
  }
}

async function disturb(chaos: Chaos, durationMs: number): Promise<void> {
  const { processes, random, clock } = chaos;
  const begun = performance.now();
  const over = (): boolean => {
    const elapsed = performance.now() - begun;
    if (elapsed < durationMs) return false;
    return elapsed >= durationMs + PATIENCE_MS || missing(chaos, countsOf(chaos.history(), [])).length === 0;
  };
  while (!over()) {
    const whim = random.below(4);
    const holder = processes.find(({ holding }) => holding !== undefined);
    if (holder !== undefined) await makeZombie(chaos, holder);
    else if (whim === 0 && processes.every(({ started }) => started)) await replace(chaos);
    else if (whim === 1) await freeze(chaos);
    else await pause(random.below(150));
    const failed = processes.find(({ failure }) => failure !== undefined);
    if (failed !== undefined) throw new Error(`a process of the soak failed: ${failed.failure}`);
    await clock.sample();
  }
}

/** Kills a process anywhere in what it does; another one takes its place. */
async function replace(chaos: Chaos): Promise<void> {
  const { processes, random } = chaos;
  const place = random.below(processes.length);
  const victim = processes[place] as SoakProcess;
  await victim.kill();
  const { role, p } = victim.part;
  chaos.kills += 1;
  const [name] = p.split(".");
  const next = chaos.start({ role, p: `${name}.${chaos.kills}` });
  processes[place] = next;
  next.ready.then(
    () => next.goOn(),
    () => {}, // seen as its failure, unless it was killed
  );
}

/** Stops a worker or a payer anywhere in what it does, for longer than its shorter leases. */
async function freeze(chaos: Chaos): Promise<void> {
  const workers = chaos.processes.filter(({ part }) => part.role !== "producer");
  const worker = chaos.random.pick(workers);
  worker.freeze();
  // Nothing is done to the database meanwhile: the worker may have stopped with its lock.
  await pause(200 + chaos.random.below(300));
  worker.thaw();
  chaos.freezes += 1;
}

/** Stops a worker between its calls until its claims were taken over: then it goes on and does not know. */
async function makeZombie(chaos: Chaos, worker: SoakProcess): Promise<void> {
  const { recorder } = chaos;
  const { session } = chaos.space;
  const { holding = [], part } = worker;
  const rowIds = new Set(holding);
  worker.freeze();
  await expire(session, recorder, holding);
  const deadline = performance.now() + TAKEOVER_MS;
  const stillHeld = async (): Promise<boolean> =>
    (await session.probe.deliveries()).some(
      ({ rowId, worker: name }) => rowIds.has(rowId) && name === part.p,
    );
  while ((await stillHeld()) && performance.now() < deadline) await pause(2);
  worker.thaw();
  worker.goOn();
  chaos.zombies += 1;
}

/** What is answered to every key in the end is on record, too. */
async function askAgain(
  asking: Parameters<typeof begin>[0],
  operations: readonly Operation[],
): Promise<void> {
  const keys = operations.flatMap(({ id }) => (id?.startsWith(KEY_ID) ? [id.slice(KEY_ID.length)] : []));
  for (const key of new Set(keys)) await begin(asking, key, LAST_LEASE_MS);
}

function historyIn(folder: string, begun: bigint): readonly Operation[] {
  return readdirSync(folder).flatMap((file) =>
    readOperations(parse(file).name, readFileSync(join(folder, file), "utf8"), begun),
  );
}
