import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { promisify } from "node:util";
import Database from "better-sqlite3";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { sqlite } from "../src/index.ts";
import { enqueued, event, migrated, refused } from "./support.ts";

/** Every watcher that was made, and whether it was closed: unreferenced ones are not among a process's resources. */
const watchers = vi.hoisted(() => [] as { closed: boolean }[]);

vi.mock("node:fs", async (original) => {
  const fs = await original<typeof import("node:fs")>();
  const watch = (...parameters: Parameters<typeof fs.watch>) => {
    const watcher = fs.watch(...parameters);
    const record = { closed: false };
    watchers.push(record);
    watcher.once("close", () => {
      record.closed = true;
    });
    return watcher;
  };
  return { ...fs, watch };
});

afterEach(() => {
  vi.restoreAllMocks();
  watchers.length = 0;
});

/** A listener, and a promise for its next call. */
function bell() {
  let ring = () => {};
  let calls = 0;
  return {
    listener: () => {
      calls += 1;
      ring();
    },
    next: () =>
      new Promise<void>((resolve) => {
        ring = resolve;
      }),
    get calls() {
      return calls;
    },
  };
}

const SOURCES = [
  "the store's connection",
  "another connection",
  "a transaction of ours",
  "another process",
] as const;

describe("WAKE-01: a file", () => {
  it.each(SOURCES)("a commit over %s wakes a subscriber", async (source) => {
    const { db, dovecote, open, store, file } = await migrated();
    const { listener, next } = bell();
    await using _subscription = await dovecote.subscribe(listener);
    const woken = next();
    switch (source) {
      case "the store's connection":
        enqueued(db, dovecote);
        break;
      case "another connection": {
        const theirs = open();
        enqueued(theirs, store(theirs));
        break;
      }
      case "a transaction of ours":
        await dovecote.transaction((tx) => dovecote.enqueue(tx, event()));
        break;
      case "another process":
        await node(
          `const [, file, driver] = process.argv;
          const { sqlite } = await import(driver);
          const dovecote = sqlite(file);
          await dovecote.transaction((tx) => dovecote.enqueue(tx, { stream: "s", source: "/s", type: "t" }));
          await dovecote.close();`,
          file,
        );
    }
    await woken;
  });

  it.each(["release", "retry", "redrive", "reconcile"] as const)(
    "a %s wakes a subscriber, for the row is due again",
    async (verb) => {
      const { db, dovecote, other } = await migrated();
      const [rowId = 0] = enqueued(db, dovecote);
      if (verb === "redrive") await dovecote.quarantine(rowId, { reason: "r" });
      const claims = verb === "redrive" ? [] : await dovecote.claim({ worker: "w" });
      if (verb === "reconcile") other.exec("delete from dovecote_deliveries");
      const { listener, next } = bell();
      await using _subscription = await dovecote.subscribe(listener);
      const woken = next();
      if (verb === "release") await dovecote.release(claims);
      if (verb === "retry") await dovecote.retry(claims, { failure: { code: "c", detail: "d" } });
      if (verb === "redrive") await dovecote.redrive(rowId);
      if (verb === "reconcile") await dovecote.admin().reconcile(rowId);
      await woken;
    },
  );

  it("wakes every subscriber, and one as often as it subscribed", async () => {
    const { db, dovecote } = await migrated();
    const [one, two] = [bell(), bell()];
    for (const { listener } of [one, two, two]) await dovecote.subscribe(listener);
    const woken = [one.next(), two.next()];
    enqueued(db, dovecote);
    await Promise.all(woken);
    expect(two.calls).toBe(2 * one.calls);
  });

  it("a subscription that was closed is silent, the others are not", async () => {
    const { db, dovecote } = await migrated();
    const [gone, staying] = [bell(), bell()];
    const subscription = await dovecote.subscribe(gone.listener);
    await dovecote.subscribe(staying.listener);
    await subscription.close();
    await subscription.close();
    const woken = staying.next();
    enqueued(db, dovecote);
    await woken;
    expect(gone.calls).toBe(0);
  });

  it("can be subscribed to again after the last subscription was closed", async () => {
    const { db, dovecote } = await migrated();
    await (await dovecote.subscribe(() => {})).close();
    const { listener, next } = bell();
    await dovecote.subscribe(listener);
    const woken = next();
    enqueued(db, dovecote);
    await woken;
  });

  it("a closed store calls nobody", async () => {
    const { db, dovecote, store } = await migrated();
    const [silent, heard] = [bell(), bell()];
    await dovecote.subscribe(silent.listener);
    const second = store(db);
    await second.subscribe(heard.listener);
    const woken = heard.next();
    enqueued(db, dovecote); // looked at in a microtask
    await dovecote.close();
    const callsAtClose = silent.calls;
    enqueued(db, second);
    await woken;
    await setImmediate();
    expect(silent.calls).toBe(callsAtClose);
    await refused("CLOSED", () => dovecote.subscribe(() => {}));
  });

  it.each(["the subscription", "the store"] as const)(
    "LIFE-05: closing %s ends the watcher, its timer and its connection",
    async (what) => {
      const set = vi.spyOn(globalThis, "setInterval");
      const cleared = vi.spyOn(globalThis, "clearInterval");
      const { db, dovecote, other, file } = await migrated();
      const subscription = await dovecote.subscribe(() => {});
      expect(watchers).toEqual([{ closed: false }]);
      expect(set).toHaveBeenCalledOnce();
      const timer: unknown = set.mock.results[0]?.value;
      expect((timer as NodeJS.Timeout).hasRef()).toBe(false);
      await (what === "the store" ? dovecote : subscription).close();
      expect(cleared).toHaveBeenCalledWith(timer);
      await setImmediate();
      expect(watchers).toEqual([{ closed: true }]);
      // The last connection to a database takes the write-ahead log with it: no other one is left open.
      other.close();
      db.close();
      expect(existsSync(`${file}-wal`)).toBe(false);
    },
  );

  it("one watcher serves every subscription", async () => {
    const { dovecote } = await migrated();
    const first = await dovecote.subscribe(() => {});
    const second = await dovecote.subscribe(() => {});
    await first.close();
    expect(watchers).toEqual([{ closed: false }]);
    await second.close();
    await setImmediate();
    expect(watchers).toEqual([{ closed: true }]);
  });

  it("ERR-03: what is no function cannot subscribe", async () => {
    const { dovecote } = await migrated();
    await refused("INVALID_ARGUMENT", () => dovecote.subscribe("listener" as never));
    expect(watchers).toEqual([]);
  });

  it("a listener that throws ends nothing, and keeps nobody from being called", async () => {
    const { db, dovecote } = await migrated();
    await dovecote.subscribe(() => {
      throw new Error("listener");
    });
    const { listener, next } = bell();
    await dovecote.subscribe(listener);
    let heard = false;
    void next().then(() => {
      heard = true;
    });
    // A look that was swallowed is not made up for: two commits, each followed by a look in a microtask.
    for (let turn = 0; turn < 2; turn++) {
      enqueued(db, dovecote);
      await setImmediate();
    }
    expect(heard).toBe(true);
  });
});

describe("WAKE-01: in memory", () => {
  async function inMemory() {
    const db = new Database(":memory:");
    const dovecote = sqlite(db);
    onTestFinished(async () => {
      await dovecote.close();
      db.close();
    });
    await dovecote.migrate();
    return { db, dovecote };
  }

  it.each([true, false])("a commit wakes a subscriber (the caller's transaction: %s)", async (callers) => {
    const { db, dovecote } = await inMemory();
    const { listener, next } = bell();
    await using _subscription = await dovecote.subscribe(listener);
    const woken = next();
    if (callers) enqueued(db, dovecote);
    else await dovecote.transaction((tx) => dovecote.enqueue(tx, event()));
    await woken;
    expect(watchers).toEqual([]);
  });

  it("a transaction that is held open wakes a subscriber once it is committed", async () => {
    const { db, dovecote } = await inMemory();
    const { listener, next } = bell();
    await dovecote.subscribe(listener);
    const woken = next();
    db.exec("begin");
    dovecote.enqueue(db, event());
    await setImmediate();
    db.exec("commit");
    await woken;
  });

  it("a closed store calls nobody", async () => {
    const { db, dovecote } = await inMemory();
    const { listener } = bell();
    const silent = vi.fn(listener);
    await dovecote.subscribe(silent);
    enqueued(db, dovecote);
    await dovecote.close();
    const calls = silent.mock.calls.length;
    await setImmediate();
    expect(silent).toHaveBeenCalledTimes(calls);
  });

  const prelude = `const [, Database, driver] = process.argv;
    const { default: Client } = await import(Database);
    const { sqlite } = await import(driver);
    const { setImmediate } = await import("node:timers/promises");
    const db = new Client(":memory:");
    const dovecote = sqlite(db);
    await dovecote.migrate();
    let number = 0;
    const enqueue = () =>
      db.transaction(() => dovecote.enqueue(db, { stream: "s", source: "/s", type: "t", id: String(++number) }))();`;

  it.each([
    [
      "a listener that throws",
      "await dovecote.subscribe(() => { throw new Error('listener'); }); enqueue();",
    ],
    [
      "an iterator that is open after a commit",
      `await dovecote.subscribe(() => {});
      enqueue();
      const rows = db.prepare("select 1 union all select 2").iterate();
      rows.next();
      await setImmediate();
      rows.return();`,
    ],
    [
      "a schema that is dropped after a commit",
      `await dovecote.subscribe(() => {});
      enqueue();
      db.exec("drop table dovecote_deliveries");`,
    ],
  ])("%s does not end the process", async (_what, script) => {
    const { stdout } = await node(
      `${prelude}\n${script}\nawait setImmediate();\nconsole.log("alive");`,
      import.meta.resolve("better-sqlite3"),
    );
    expect(stdout.trim()).toBe("alive");
  });
});

/** Runs a module in another process; the driver's URL is its last argument. */
function node(script: string, argument: string): Promise<{ readonly stdout: string }> {
  const driver = new URL("../src/index.ts", import.meta.url).href;
  const parameters = ["--no-warnings", "--input-type=module", "--eval", script, argument, driver];
  return promisify(execFile)(process.execPath, parameters);
}
