/**
 * A server of its own that stops, crashes, runs out of connections and becomes read-only while an application enqueues, another
 * one pays under idempotency keys, and a relay delivers: nobody's process ends, errors are typed, everything that was committed is delivered (RELAY-05).
 */
import { spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { chmodSync, chownSync, mkdtempSync, rmdirSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { fingerprint, isDovecoteError } from "@dovecote/core";
import postgresClient from "postgres";
import { beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { type Server, startServer } from "../../../tools/postgres-server/src/index.ts";
import { type PostgresDovecote, postgres } from "../src/index.ts";
import { event } from "./support.ts";

/** A commit that was answered has to outlive a crash of the server, though not one of the machine. */
const FLAGS = ["-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_connections=20"];
const COMMITTED_BETWEEN = 50;
const TIMEOUT_MS = 60_000;
const APPLICATION = "shop";

let server: Server;
beforeAll(async () => {
  server = await startServer({ flags: FLAGS });
  return () => server.stop();
}, TIMEOUT_MS);

function client(options: postgresClient.Options<Record<string, never>> = {}): postgresClient.Sql {
  const sql = postgresClient(server.url, {
    max: 3,
    fetch_types: false,
    backoff: () => 0.05,
    onnotice: () => {},
    ...options,
  });
  onTestFinished(() => sql.end({ timeout: 1 }));
  return sql;
}

/** Until so much has happened; what happens reports itself. */
class Count {
  #value = 0;
  readonly #waiting = new Map<() => void, number>();

  get value(): number {
    return this.#value;
  }

  add(): void {
    this.#value += 1;
    for (const [resolve, wanted] of this.#waiting) if (this.#value >= wanted) resolve();
  }

  reached(wanted: number): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.set(resolve, wanted);
      if (this.#value >= wanted) resolve();
    });
  }

  more(by: number): Promise<void> {
    return this.reached(this.#value + by);
  }
}

const DISK_SIZE = "32m";

/** A folder of the server's on a disk of its own; undefined where this user may not mount one. */
async function smallDisk(admin: postgresClient.Sql): Promise<string | undefined> {
  const [row] = await admin<{ folder: string }[]>`select current_setting('data_directory') as folder`;
  const owner = statSync(row?.folder ?? "");
  const disk = mkdtempSync(join(tmpdir(), "dovecote-disk-"));
  const { status } = spawnSync("mount", ["-t", "tmpfs", "-o", `size=${DISK_SIZE}`, "tmpfs", disk]);
  onTestFinished(() => {
    if (status === 0) spawnSync("umount", ["--lazy", disk]);
    rmdirSync(disk);
  });
  if (status !== 0) return undefined;
  chmodSync(disk, 0o700);
  chownSync(disk, owner.uid, owner.gid);
  return disk;
}

interface Busy {
  readonly schema: string;
  readonly committed: Count;
  readonly delivered: Count;
  /** Failures of the application's transactions, and of the relay. */
  readonly failed: Count;
  readonly codes: ReadonlySet<string>;
  /** Errors that are none of the contract. */
  readonly untyped: readonly unknown[];
  /** Ends all, and answers the ids that were committed and never delivered, and those of payments that were not made once. */
  finish(): Promise<readonly string[]>;
}

/** An application that enqueues and one that pays, one transaction after another, and a relay beside them. */
async function busy(): Promise<Busy> {
  const schema = `outage_${randomUUID().replaceAll("-", "")}`;
  const named = { connection: { application_name: APPLICATION } };
  const [sql, relaySql] = [client(named), client(named)];
  await sql.unsafe(`create schema ${schema}`);
  const [dovecote, relaying]: readonly PostgresDovecote<postgresClient.Sql>[] = [sql, relaySql].map((each) =>
    postgres(each, { schema }),
  );
  if (dovecote === undefined || relaying === undefined) throw new Error("there are two stores");
  await dovecote.migrate();
  const [committed, delivered, failed] = [new Count(), new Count(), new Count()];
  const [wanted, arrived] = [new Set<string>(), new Set<string>()];
  const codes = new Set<string>();
  const untyped: unknown[] = [];
  const note = (error: unknown): void => {
    if (isDovecoteError(error)) codes.add(error.code);
    else untyped.push(error);
    failed.add();
  };

  const stop = new AbortController();
  const delivering = relaying.admin().relay({
    deliver: ({ id }) => {
      arrived.add(id);
    },
    leaseMs: 2000,
    pollMs: 100,
    backoff: { baseMs: 10, maxMs: 100 },
    hooks: { delivered: () => delivered.add(), error: ({ error }) => note(error) },
  });
  const run = delivering.run({ signal: stop.signal });
  let enqueueing = true;
  const application = (async () => {
    for (let n = 0; enqueueing; n++) {
      const id = `event-${n}`;
      try {
        await dovecote.transaction((tx) => dovecote.enqueue(tx, event(id)));
        wanted.add(id);
        committed.add();
      } catch (error) {
        note(error);
        // A client that is refused at once is no reason to keep the process from everything else.
        await setImmediate();
      }
    }
  })();
  const paid = new Map<string, string>();
  /** Each payment is tried again under its key until it is known to be made; every try would have an event of its own. */
  const pay = async (key: string): Promise<void> => {
    const scope = { principal: null, method: "POST", path: "/payments" };
    const given = {
      scope,
      key,
      fingerprint: fingerprint.json("{}"),
      takeover: "rerun",
      leaseMs: 500,
    } as const;
    try {
      const outcome = await dovecote.keys.run(given, async ({ tx }) => {
        const id = `${key}-${randomUUID()}`;
        await dovecote.enqueue(tx, event(id));
        return { status: 200, body: id };
      });
      if (outcome.outcome === "completed" || outcome.outcome === "replay") {
        paid.set(key, Buffer.from(outcome.response.body).toString());
      }
    } catch (error) {
      note(error);
    }
    await setImmediate();
  };
  const payer = (async () => {
    for (let n = 0; enqueueing; n++) {
      const key = `pay-${n}`;
      while (!paid.has(key)) await pay(key);
    }
  })();
  const notPaidOnce = (): readonly string[] =>
    [...paid].flatMap(([key, id]) => {
      const made = [...arrived].filter((each) => each.startsWith(`${key}-`));
      return made.length === 1 && made[0] === id ? [] : [`${key}: ${made.join(" and ")}`];
    });
  return {
    schema,
    ...{ committed, delivered, failed, codes, untyped },
    async finish() {
      enqueueing = false;
      await Promise.all([application, payer]);
      let left = -1;
      while (left !== 0) {
        const stats = await dovecote.stats();
        left = stats.due.count + stats.scheduled.count + stats.claimed.count + stats.expired.count;
      }
      stop.abort();
      await run;
      await sql.unsafe(`drop schema ${schema} cascade`);
      return [...[...wanted].filter((id) => !arrived.has(id)), ...notPaidOnce()];
    },
  };
}

async function survives(work: Busy, outage: () => Promise<void>): Promise<void> {
  await work.committed.more(COMMITTED_BETWEEN);
  await work.delivered.more(COMMITTED_BETWEEN);
  await outage();
  await work.committed.more(COMMITTED_BETWEEN);
  await work.delivered.more(COMMITTED_BETWEEN);
}

/** What the contract calls an outage. */
const OUTAGE: ReadonlySet<string> = new Set(["CONNECTION_LOST", "STORE_UNAVAILABLE", "STORE_BUSY"]);

/** Everything that was committed is delivered, and only these errors came out. */
async function nothingLost(work: Busy, codes: ReadonlySet<string>): Promise<void> {
  expect(await work.finish()).toEqual([]);
  expect(work.untyped).toEqual([]);
  expect([...work.codes].filter((code) => !codes.has(code))).toEqual([]);
}

describe("RELAY-05, CRASH-07: an application and a relay go on by themselves, and nothing is lost, after", () => {
  it.each([["fast"], ["immediate"]] as const)(
    "a shutdown of the server (%s)",
    async (mode) => {
      const work = await busy();
      for (let times = 0; times < 3; times++) {
        await survives(work, async () => {
          await server.halt(mode);
          await work.failed.more(5);
          await server.resume();
        });
      }
      await nothingLost(work, OUTAGE);
    },
    TIMEOUT_MS,
  );

  it(
    "the end of every connection",
    async () => {
      const work = await busy();
      const admin = client({ max: 1 });
      for (let times = 0; times < 10; times++) {
        await survives(work, async () => {
          await admin`select pg_terminate_backend(pid) from pg_stat_activity where application_name = ${APPLICATION}`;
        });
      }
      await nothingLost(work, OUTAGE);
    },
    TIMEOUT_MS,
  );

  it(
    "a time without a free connection",
    async () => {
      const work = await busy();
      const admin = client({ max: 1 });
      await admin`select 1`;
      await survives(work, async () => {
        // Each takes the next place that is free, and keeps it.
        const hoarders = Array.from({ length: 20 }, () => client({ max: 1 }));
        let hoarding = true;
        const grabbing = hoarders.map(async (hoarder) => {
          while (hoarding && !(await hoarder`select 1`.catch(() => undefined)));
        });
        while (!work.codes.has("STORE_UNAVAILABLE")) {
          await admin`select pg_terminate_backend(pid) from pg_stat_activity where application_name = ${APPLICATION}`;
        }
        hoarding = false;
        await Promise.all(grabbing);
        await Promise.all(hoarders.map((hoarder) => hoarder.end({ timeout: 0 })));
      });
      await nothingLost(work, OUTAGE);
    },
    TIMEOUT_MS,
  );

  it(
    "a time without room on the disk",
    async ({ skip }) => {
      const admin = client({ max: 1 });
      const disk = await smallDisk(admin);
      if (disk === undefined) skip("this user may not mount a small disk");
      await admin.unsafe(`create tablespace small location '${disk}'`);
      const work = await busy();
      for (const table of ["dovecote_events", "dovecote_deliveries"]) {
        await admin.unsafe(`alter table ${work.schema}.${table} set tablespace small`);
      }
      const indexes = await admin<{ name: string }[]>`select indexname as name from pg_indexes
        where schemaname = ${work.schema}`;
      for (const { name } of indexes)
        await admin.unsafe(`alter index ${work.schema}.${name} set tablespace small`);
      await survives(work, async () => {
        await admin`create table ballast (bytes text) tablespace small`;
        const fits = (): Promise<boolean> =>
          admin`insert into ballast select repeat('x', 1000) from generate_series(1, 100)`.then(
            () => true,
            () => false,
          );
        while (await fits());
        while (!work.codes.has("STORE_FULL")) await fits();
        await work.failed.more(5);
        await admin`drop table ballast`;
      });
      await nothingLost(work, new Set([...OUTAGE, "STORE_FULL"]));
      await admin`drop tablespace small`;
    },
    TIMEOUT_MS,
  );

  it(
    "a failover to a server that was a standby before",
    async () => {
      const work = await busy();
      await survives(work, async () => {
        await server.halt("fast");
        await server.resume({ standby: true });
        while (!work.codes.has("STORE_READ_ONLY")) await work.failed.more(1);
        const admin = client({ max: 1 });
        await admin`select pg_promote()`;
      });
      await nothingLost(work, new Set([...OUTAGE, "STORE_READ_ONLY"]));
    },
    TIMEOUT_MS,
  );

  it(
    "a time in which the server could only be read",
    async () => {
      const work = await busy();
      const admin = client({ max: 1 });
      const readOnly = async (value: "on" | "off"): Promise<void> => {
        await admin.unsafe(`alter system set default_transaction_read_only = ${value}`);
        await admin`select pg_reload_conf()`;
      };
      await survives(work, async () => {
        await readOnly("on");
        await work.failed.more(5);
        await admin`set default_transaction_read_only = off`;
        await readOnly("off");
      });
      expect(work.codes).toContain("STORE_READ_ONLY");
      await nothingLost(work, new Set([...OUTAGE, "STORE_READ_ONLY"]));
    },
    TIMEOUT_MS,
  );
});
