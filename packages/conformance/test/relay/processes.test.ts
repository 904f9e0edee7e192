/**
 * Two relays in two processes on one database. One is killed, one is frozen past its lease and goes on, one has its event
 * loop blocked past its lease; where there is a server, its connections are severed, and it crashes and comes back. The
 * receiver counts.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { createDovecote } from "@dovecote/core";
import { expect, it, onTestFinished } from "vitest";
import { type Server, startServer } from "../../../../tools/postgres-server/src/index.ts";
import { eventually } from "../../src/cases/waiting.ts";
import { ClockSlack } from "../../src/engine/soak-clock.ts";
import { idOf } from "../../src/engine/soak-role.ts";
import { checkHistory, explain } from "../../src/history/check.ts";
import type { Operation } from "../../src/history/operation.ts";
import { readOperations } from "../../src/history/read.ts";
import { loadHarness } from "../../src/load-harness.ts";
import type { FromRelay, Task, ToRelay } from "./relay-child.ts";

/** How many events every stage has of its own, so that however fast the relays are, there is work left when it begins. */
const STAGES = { killed: 1000, frozen: 1000, blocked: 1000, severed: 2000 } as const;
const EVENTS = Object.values(STAGES).reduce((sum, count) => sum + count, 0);
const BATCH = 500;
const LEASE_MS = 1000;
/** Longer than a lease, the renewal in it, and a poll of the other relay. */
const AWAY_MS = 2 * LEASE_MS;
const ENTRY = fileURLToPath(new URL(`./relay-child${extname(import.meta.url)}`, import.meta.url));

interface Arrival {
  readonly relay: string;
  readonly attempt: number;
}

/** What the receiver got, by event. */
async function receiver(): Promise<{
  readonly url: string;
  readonly arrivals: ReadonlyMap<string, readonly Arrival[]>;
  /** Until so many different events arrived. */
  reached(count: number): Promise<void>;
  /** Until a request of this relay waits for its answer: it has a claim in hand. Answered when the answer is called. */
  held(relay: string): Promise<() => void>;
}> {
  const arrivals = new Map<string, Arrival[]>();
  const waiting = new Set<() => void>();
  const holds = new Map<string, (release: () => void) => void>();
  const server = createServer((request, response) => {
    const url = new URL(String(request.url), "http://receiver");
    const id = url.pathname.slice(1);
    const relay = String(url.searchParams.get("relay"));
    const attempt = Number(url.searchParams.get("attempt"));
    arrivals.set(id, [...(arrivals.get(id) ?? []), { relay, attempt }]);
    request.resume();
    const hold = holds.get(relay);
    holds.delete(relay);
    if (hold === undefined) response.end();
    else hold(() => void response.end());
    for (const look of waiting) look();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    arrivals,
    held: (relay) => new Promise((resolve) => holds.set(relay, resolve)),
    reached: (count) =>
      new Promise((resolve) => {
        const look = (): void => {
          if (arrivals.size < count) return;
          waiting.delete(look);
          resolve();
        };
        waiting.add(look);
        look();
      }),
  };
}

class RelayProcess {
  readonly name: string;
  readonly said: FromRelay[] = [];
  readonly #process: ChildProcess;

  constructor(task: Task) {
    this.name = task.name;
    this.#process = fork(ENTRY, [JSON.stringify(task)], {
      execArgv: ["--experimental-strip-types", "--disable-warning=ExperimentalWarning"],
    });
    this.#process.on("message", (message: FromRelay) => this.said.push(message));
    onTestFinished(() => void this.#process.kill("SIGKILL"));
  }

  signal(name: NodeJS.Signals): void {
    this.#process.kill(name);
  }

  tell(message: ToRelay): void {
    this.#process.send(message);
  }

  async gone(): Promise<void> {
    if (this.#process.exitCode === null && this.#process.signalCode === null)
      await once(this.#process, "exit");
  }
}

/** A server that may crash. What it answered has to outlive that. */
async function ownServer(): Promise<Server> {
  const server = await startServer({ flags: ["-c", "fsync=off", "-c", "full_page_writes=off"] });
  const shared = process.env.DOVECOTE_TEST_POSTGRES_URL;
  process.env.DOVECOTE_TEST_POSTGRES_URL = server.url;
  onTestFinished(async () => {
    if (shared === undefined) delete process.env.DOVECOTE_TEST_POSTGRES_URL;
    else process.env.DOVECOTE_TEST_POSTGRES_URL = shared;
    await server.stop();
  });
  return server;
}

it.each([
  ["SQLite", "../../../sqlite/conformance/harness.ts"],
  ["Postgres", "../../../postgres/conformance/harness.ts"],
])(
  "RELAY-01 to RELAY-05: two relays on %s, killed, frozen, blocked: everything arrives, nothing is recorded by a zombie",
  async (_, path) => {
    const harnessUrl = new URL(path, import.meta.url).href;
    const harness = await loadHarness(harnessUrl);
    const server = harness.capabilities.serverSide ? await ownServer() : undefined;
    const space = await harness.createSpace();
    const session = await harness.connect(space.locator, {});
    const outbox = createDovecote(session.driver);
    onTestFinished(async () => {
      await outbox.close();
      await session.close();
      await space.dispose();
    });
    await outbox.migrate();
    const folder = mkdtempSync(join(tmpdir(), "dovecote-relays-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const clock = new ClockSlack(session.probe);
    await clock.sample();
    const begun = process.hrtime.bigint();
    const now = (): number => Number(process.hrtime.bigint() - begun);
    const enqueues: Operation[] = [];
    const enqueue = async (stage: keyof typeof STAGES): Promise<void> => {
      for (const end = enqueues.length + STAGES[stage]; enqueues.length < end; ) {
        const done = enqueues.length;
        const events = Array.from({ length: BATCH }, (__, at) => ({
          ...{ stream: "orders", source: "/test", type: "test" },
          id: String(done + at),
        }));
        const t0 = now();
        const outcomes = await session.transaction((tx) => outbox.enqueueMany(tx.handle, events));
        const times = { t0, t1: now() };
        for (const [at, { rowId, outcome }] of outcomes.entries()) {
          const id = idOf("default", String(done + at));
          enqueues.push({ p: "shop", op: "enqueue", ...times, id, rowId, type: "ok", answer: outcome });
        }
      }
    };
    const { url, arrivals, reached, held } = await receiver();
    const start = (name: string): RelayProcess =>
      new RelayProcess({
        ...{ harness: harnessUrl, locator: String(space.locator), receiver: url },
        ...{ name, leaseMs: LEASE_MS, history: join(folder, name) },
      });

    await enqueue("killed");
    const killed = start("killed");
    const frozen = start("frozen");
    await reached(STAGES.killed / 2);
    killed.signal("SIGKILL");
    await killed.gone();
    const blocked = start("blocked");
    const frozenHolds = held(frozen.name);
    await enqueue("frozen");
    const answerFrozen = await frozenHolds;
    frozen.signal("SIGSTOP");
    const until = (await session.probe.now()) + AWAY_MS * 1000;
    await eventually(session, "time must pass", async () => (await session.probe.now()) > until);
    frozen.signal("SIGCONT");
    answerFrozen();
    const blockedHolds = held(blocked.name);
    await enqueue("blocked");
    const answerBlocked = await blockedHolds;
    blocked.tell({ kind: "block", forMs: AWAY_MS });
    const back = (await session.probe.now()) + 1.5 * AWAY_MS * 1000;
    await eventually(session, "time must pass", async () => (await session.probe.now()) > back);
    answerBlocked();
    await enqueue("severed");
    if (server !== undefined) {
      const before = EVENTS - STAGES.severed;
      for (const part of [0.1, 0.2, 0.3]) {
        await reached(before + STAGES.severed * part);
        await session.faults.severConnections();
      }
      for (const [part, mode] of [
        [0.4, "fast"],
        [0.7, "immediate"],
      ] as const) {
        await reached(before + STAGES.severed * part);
        await server.halt(mode);
        await server.resume();
      }
    }
    await reached(EVENTS);
    await eventually(
      session,
      "what arrived must be recorded as delivered",
      async () => (await session.probe.deliveries()).every(({ state }) => state === "delivered"),
      60_000,
    );
    const relays = [frozen, blocked];
    for (const relay of relays) relay.tell({ kind: "stop" });
    for (const relay of relays) await relay.gone();

    // At least once.
    expect(arrivals.size).toBe(EVENTS);
    // And what every claim, renewal and settlement was answered contradicts none of the rules of a history.
    await clock.sample();
    const operations = [killed, ...relays].flatMap(({ name }) =>
      readOperations(name, readFileSync(join(folder, name), "utf8"), begun),
    );
    const names = new Map(enqueues.map(({ rowId, id }) => [rowId, id]));
    const final = (await session.probe.deliveries()).map(({ rowId, state, attempts: used }) => ({
      ...{ id: String(names.get(rowId)), rowId, state, attempts: used },
    }));
    expect(operations.length).toBeGreaterThan(EVENTS);
    const violations = checkHistory({
      operations: [...enqueues, ...operations],
      final,
      clockSlackNs: clock.ns,
    });
    expect(violations, explain(violations, 0)).toEqual([]);
    const rows = new Map((await session.probe.events()).map(({ rowId, id }) => [rowId, id]));
    const attempts = new Map(
      (await session.probe.deliveries()).map(({ rowId, attempts }) => [rows.get(rowId), attempts]),
    );
    // What was acknowledged was acknowledged by the last claim, once, whoever may have thought otherwise.
    const acks = [killed, ...relays].flatMap(({ said }) => said.filter(({ kind }) => kind === "delivered"));
    const byEvent = Map.groupBy(acks, ({ id }) => String(id));
    for (const [id, each] of byEvent) {
      expect(
        each.map(({ attempt }) => attempt),
        `event ${id}`,
      ).toEqual([attempts.get(id)]);
    }
    // Every arrival beyond the first belongs to an attempt of its own: the event was claimed again, and the fence says so.
    for (const [id, each] of arrivals) {
      const distinct = new Set(each.map(({ attempt }) => attempt));
      expect(distinct.size, `event ${id} arrived twice in one attempt`).toBe(each.length);
    }
    // And it came since the attempt before it was not recorded: its handler failed, its process had died, its claim was lost,
    // or the answer of the database was.
    const unexplained = [...arrivals].flatMap(([id, each]) =>
      each.filter(({ relay, attempt }) => {
        if (attempt === attempts.get(id) || relay === killed.name) return false;
        const process = relays.find(({ name }) => name === relay);
        const lost = process?.said.some(
          (said) => said.kind === "lost" && said.id === id && said.attempt === attempt,
        );
        const ended = operations.some(
          ({ p, op, type, ...of }) =>
            p === relay &&
            of.id === idOf("default", id) &&
            of.attempt === attempt &&
            (type === "info" || (type === "ok" && op === "retry")),
        );
        return lost !== true && !ended;
      }),
    );
    expect(unexplained, "arrivals that nothing explains").toEqual([]);
    expect(frozen.said.filter(({ kind }) => kind === "lost").length).toBeGreaterThan(0);
    expect(blocked.said.filter(({ kind }) => kind === "lost").length).toBeGreaterThan(0);
  },
  180_000,
);
