import type Database from "better-sqlite3";
import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/better-sqlite3";
import { sql as sqlRc } from "drizzle-orm-rc";
import { drizzle as drizzleRc } from "drizzle-orm-rc/better-sqlite3";
import { describe, expect, it } from "vitest";
import { type DrizzleSqlite, sqlite } from "../src/index.ts";
import { event, ids, migrated, refused } from "./support.ts";

/** What the two versions have in common, in one shape; the handle stays the one that drizzle made. */
const VERSIONS = [
  ["0.45", (db: Database.Database) => old(drizzle({ client: db }))],
  ["1.0 rc", (db: Database.Database) => rc(drizzleRc({ client: db }))],
] as const;

describe.each(VERSIONS)("drizzle %s", (_version, over) => {
  it("TX-01: the transaction's handle", async () => {
    const { db, dovecote, other } = await migrated();
    over(db).transaction("immediate", (tx, { insert }) => {
      insert("order-1");
      dovecote.enqueue(tx, event({ id: "one" }));
    });
    expect(ids(other)).toEqual(["one"]);
    expect(other.prepare("select id from business").pluck().all()).toEqual(["order-1"]);
  });

  it("TX-02: a callback that throws leaves nothing", async () => {
    const { db, dovecote, other } = await migrated();
    const attempt = () =>
      over(db).transaction("immediate", (tx, { insert }) => {
        insert("order-1");
        dovecote.enqueue(tx, event({ id: "one" }));
        throw new Error("changed my mind");
      });
    expect(attempt).toThrow("changed my mind");
    expect(ids(other)).toEqual([]);
    expect(other.prepare("select id from business").pluck().all()).toEqual([]);
  });

  it("TX-01: drizzle's database while a transaction is open on its client", async () => {
    const { db, dovecote, other } = await migrated();
    const { handle } = over(db);
    await refused("TX_REQUIRED", () => dovecote.enqueue(handle, event()));
    db.exec("begin immediate");
    dovecote.enqueue(handle, event({ id: "one" }));
    expect(ids(other)).toEqual([]);
    db.exec("commit");
    expect(ids(other)).toEqual(["one"]);
  });

  it("TX-04: nested transactions", async () => {
    const { db, dovecote, other } = await migrated();
    over(db).transaction("immediate", (tx, { nested }) => {
      dovecote.enqueue(tx, event({ id: "outer" }));
      expect(() =>
        nested((inner) => {
          dovecote.enqueue(inner, event({ id: "dropped" }));
          throw new Error("inner");
        }),
      ).toThrow("inner");
      nested((inner) => dovecote.enqueue(inner, event({ id: "inner" })));
      dovecote.enqueue(tx, event({ id: "last" }));
    });
    expect(ids(other)).toEqual(["outer", "inner", "last"]);
  });

  it("TX-09: a handle that is used after its transaction", async () => {
    const { db, dovecote } = await migrated();
    let kept: DrizzleSqlite | undefined;
    over(db).transaction("immediate", (tx) => {
      kept = tx;
    });
    await refused("TX_REQUIRED", () => dovecote.enqueue(kept as DrizzleSqlite, event()));
  });

  it("TX-05: a handle over another database", async () => {
    const { dovecote } = await migrated();
    const foreign = await migrated();
    const code = over(foreign.db).transaction("immediate", (tx) => {
      try {
        return dovecote.enqueue(tx, event());
      } catch (error) {
        return error;
      }
    });
    expect(code).toMatchObject({ code: "TX_FOREIGN" });
  });

  it("makes a store, which leaves the client open", async () => {
    const { db, other } = await migrated();
    const { handle, transaction } = over(db);
    const dovecote = sqlite(handle);
    transaction("immediate", (tx) => dovecote.enqueue(tx, event({ id: "one" })));
    expect(await dovecote.claim({ worker: "w" })).toHaveLength(1);
    await dovecote.close();
    expect(db.open).toBe(true);
    expect(ids(other)).toEqual(["one"]);
  });

  it("SETTLE-05: redrives inside a transaction", async () => {
    const { db, dovecote, other } = await migrated();
    const { rowId } = over(db).transaction("immediate", (tx) => dovecote.enqueue(tx, event()));
    await dovecote.quarantine(rowId, { reason: "r" });
    over(db).transaction("immediate", (tx) => dovecote.redriveIn(tx, rowId));
    expect(other.prepare("select state from dovecote_deliveries").pluck().get()).toBe("pending");
  });

  // drizzle's default is `deferred`: SQLite refuses to make a writer of a reader that somebody overtook, whatever the
  // busy timeout says.
  it("a deferred transaction that reads and then enqueues is refused at once if somebody wrote in between", async () => {
    const { dovecote, other, open } = await migrated();
    const db = open({ timeout: 3_600_000 }); // would outlast the test if it were waited for
    const error = over(db).transaction("deferred", (tx, { read }) => {
      read();
      other.exec("insert into business (id) values ('theirs')");
      try {
        return dovecote.enqueue(tx, event());
      } catch (thrown) {
        return thrown;
      }
    });
    expect(error).toMatchObject({ code: "STORE_BUSY", retryable: true });
    expect(error).toMatchObject({ cause: { code: "SQLITE_BUSY_SNAPSHOT" } });
    expect(ids(other)).toEqual([]);
  });

  it("an immediate transaction that reads and then enqueues has no such window", async () => {
    const { db, dovecote, other } = await migrated();
    other.pragma("busy_timeout = 0");
    over(db).transaction("immediate", (tx, { read }) => {
      read();
      expect(() => other.exec("insert into business (id) values ('theirs')")).toThrow("locked");
      dovecote.enqueue(tx, event({ id: "one" }));
    });
    expect(ids(other)).toEqual(["one"]);
  });
});

describe("asynchronous callbacks", () => {
  it("TX-08: drizzle 0.45 refuses them, and nothing is stored", async () => {
    const { db, dovecote, other } = await migrated();
    let late: Promise<void> | undefined;
    const attempt = () =>
      drizzle({ client: db }).transaction((tx) => {
        late = (async () => {
          dovecote.enqueue(tx, event({ id: "before-await" }));
          await undefined;
          dovecote.enqueue(tx, event({ id: "after-await" }));
        })();
        return late;
      });
    expect(attempt).toThrow("cannot return a promise");
    await refused("TX_REQUIRED", () => late);
    expect(ids(other)).toEqual([]);
  });

  // What drizzle does is its own. What matters: no enqueue pretends to be part of a transaction that is gone.
  it("TX-05: drizzle 1.0 rc commits at the first await, and an enqueue after it is refused", async () => {
    const { db, dovecote, other } = await migrated();
    const steps: string[] = [];
    const callback = async (tx: DrizzleSqlite): Promise<void> => {
      dovecote.enqueue(tx, event({ id: "before-await" }));
      steps.push("enqueued");
      await undefined;
      steps.push("resumed");
      dovecote.enqueue(tx, event({ id: "after-await" }));
    };
    // Its types forbid it, what runs does not.
    const run: unknown = drizzleRc({ client: db }).transaction(callback as never);
    expect(steps).toEqual(["enqueued"]);
    expect(ids(other), "committed without waiting").toEqual(["before-await"]);
    await refused("TX_REQUIRED", () => run);
    expect(steps).toEqual(["enqueued", "resumed"]);
    expect(ids(other)).toEqual(["before-await"]);
  });
});

interface Inside {
  read(): void;
  insert(id: string): void;
  nested<T>(fn: (tx: DrizzleSqlite) => T): T;
}

interface Common {
  readonly handle: DrizzleSqlite;
  transaction<T>(behavior: "deferred" | "immediate", fn: (tx: DrizzleSqlite, inside: Inside) => T): T;
}

function old(orm: ReturnType<typeof drizzle>): Common {
  return {
    handle: orm,
    transaction: (behavior, fn) =>
      orm.transaction(
        (tx) =>
          fn(tx, {
            read: () => void tx.all(sql`select * from business`),
            insert: (id) => void tx.run(sql`insert into business (id) values (${id})`),
            nested: (inner) => tx.transaction((handle) => inner(handle)),
          }),
        { behavior },
      ),
  };
}

function rc(orm: ReturnType<typeof drizzleRc>): Common {
  return {
    handle: orm,
    transaction<T>(behavior: "deferred" | "immediate", fn: (tx: DrizzleSqlite, inside: Inside) => T) {
      // By way of a variable: its types want to know that what is answered is no promise.
      let result: T | undefined;
      orm.transaction(
        (tx) => {
          result = fn(tx, {
            read: () => void tx.all(sqlRc`select * from business`),
            insert: (id) => void tx.run(sqlRc`insert into business (id) values (${id})`),
            nested<U>(inner: (handle: DrizzleSqlite) => U) {
              let answer: U | undefined;
              tx.transaction((handle) => {
                answer = inner(handle);
              });
              return answer as U;
            },
          });
        },
        { behavior },
      );
      return result as T;
    },
  };
}
