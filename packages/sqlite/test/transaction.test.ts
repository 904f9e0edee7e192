import { setImmediate } from "node:timers/promises";
import Database from "better-sqlite3";
import { describe, expect, expectTypeOf, it } from "vitest";
import { type SqliteTransaction, sqlite } from "../src/index.ts";
import { contents, enqueued, event, ids, LIFECYCLE, migrated, refused, type Store } from "./support.ts";

const CALLS: readonly (readonly [string, (dovecote: Store) => Promise<unknown>])[] = [
  // A snapshot and a subscription have connections of their own; the transaction is not theirs to see.
  ...LIFECYCLE.filter(([name]) => !["snapshot", "subscribe", "tail"].includes(name)),
  ["transaction", (dovecote) => dovecote.transaction(() => expect.unreachable())],
  ["migrate", (dovecote) => dovecote.migrate()],
  ["checkSchema", (dovecote) => dovecote.checkSchema()],
];

describe("TX-07: inside dovecote.transaction(fn)", () => {
  it.each(CALLS)("%s is TX_OPEN, and the transaction goes on", async (_name, call) => {
    const { db, dovecote, other } = await migrated();
    enqueued(db, dovecote);
    let inside: Promise<unknown> | undefined;
    const { outcome } = await dovecote.transaction((tx) => {
      inside = refused("TX_OPEN", () => call(dovecote));
      return dovecote.enqueue(tx, event({ id: "own" }));
    });
    await inside;
    expect(outcome).toBe("enqueued");
    expect(ids(other)).toContain("own");
    expect(other.prepare("select distinct state from dovecote_deliveries").pluck().all()).toEqual([
      "pending",
    ]);
  });

  it.each(CALLS)("%s of another store on the same handle is TX_OPEN", async (_name, call) => {
    const { db, dovecote, store } = await migrated();
    const second = store(db);
    let inside: Promise<unknown> | undefined;
    await dovecote.transaction(() => {
      inside = refused("TX_OPEN", () => call(second));
    });
    await inside;
  });

  it("another store on the same handle can enqueue in it", async () => {
    const { db, dovecote, store, other } = await migrated();
    const second = store(db);
    await dovecote.transaction((tx) => {
      dovecote.enqueue(tx, event({ id: "first" }));
      second.enqueue(tx, event({ id: "second" }));
      second.enqueue(db, event({ id: "third" }));
    });
    expect(ids(other)).toEqual(["first", "second", "third"]);
  });

  it("is over when it is over, also after a callback that threw", async () => {
    const { db, dovecote } = await migrated();
    enqueued(db, dovecote);
    await dovecote.transaction(() => {});
    await expect(
      dovecote.transaction(() => {
        throw new Error("changed my mind");
      }),
    ).rejects.toThrow("changed my mind");
    expect(await dovecote.claim({ worker: "w" })).toHaveLength(1);
  });

  it("a store on another connection to the file is not inside", async () => {
    const { db, dovecote, store, open } = await migrated();
    enqueued(db, dovecote);
    const beside = store(open());
    let claim: Promise<readonly unknown[]> | undefined;
    await dovecote.transaction(() => {
      claim = beside.claim({ worker: "w" });
    });
    expect(await claim).toHaveLength(1);
  });
});

describe("TX-02: a callback that throws", () => {
  class Mine extends Error {}
  const busy = Object.assign(new Error("database is locked"), { code: "SQLITE_BUSY" });
  it.each([
    ["an error", new Mine("mine")],
    ["a text", "mine"],
    ["nothing", undefined],
    ["null", null],
    ["a busy database of its own", busy],
    ["an iterator of its own", new TypeError("This database connection is busy executing a query")],
  ])("passes %s on as it is, after one call", async (_what, thrown) => {
    const { dovecote, other } = await migrated();
    let calls = 0;
    const outcome = await dovecote
      .transaction((tx) => {
        calls += 1;
        dovecote.enqueue(tx, event());
        throw thrown;
      })
      .then(
        () => ["resolved"],
        (error: unknown) => ["rejected", error],
      );
    expect(outcome).toHaveLength(2);
    expect(outcome[1]).toBe(thrown);
    expect(calls).toBe(1);
    expect(ids(other)).toEqual([]);
  });

  it("passes a native error of the application's statement on as it is", async () => {
    const { dovecote, other } = await migrated();
    const insert = ({ client }: SqliteTransaction<Database.Database>) =>
      client.prepare("insert into business (id) values ('one')").run();
    await dovecote.transaction(insert);
    const error = await dovecote.transaction(insert).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(Database.SqliteError);
    expect(error).toMatchObject({ code: "SQLITE_CONSTRAINT_PRIMARYKEY" });
    expect(other.prepare("select id from business").pluck().all()).toEqual(["one"]);
  });

  it("passes a refusal of ours on as it is", async () => {
    const { dovecote, other } = await migrated();
    await refused("IDENTITY_CONFLICT", () =>
      dovecote.transaction((tx) => {
        dovecote.enqueue(tx, event({ id: "one", data: 1 }));
        dovecote.enqueue(tx, event({ id: "one", data: 2 }));
      }),
    );
    expect(ids(other)).toEqual([]);
  });

  it("answers with what the callback answered", async () => {
    const { dovecote } = await migrated();
    const answer = { some: "thing" };
    expect(await dovecote.transaction(() => answer)).toBe(answer);
    expect(await dovecote.transaction(() => undefined)).toBe(undefined);
    expectTypeOf(await dovecote.transaction((tx) => tx.client)).toEqualTypeOf<Database.Database>();
  });

  it.each([null, 7, "fn", {}])("ERR-03: %j is no callback", async (fn) => {
    const { dovecote } = await migrated();
    await refused("INVALID_ARGUMENT", () => dovecote.transaction(fn as never));
  });
});

describe("TX-08: an asynchronous callback", () => {
  it("is TX_ASYNC, and is not even called", async () => {
    const { dovecote, other } = await migrated();
    const before = contents(other);
    let called = false;
    await refused("TX_ASYNC", () =>
      dovecote.transaction(async () => {
        called = true;
      }),
    );
    expect(called).toBe(false);
    expect(contents(other)).toEqual(before);
  });

  it("is TX_ASYNC if it turns out to be one, and is rolled back", async () => {
    const { db, dovecote, other } = await migrated();
    let late: Promise<unknown> | undefined;
    await refused("TX_ASYNC", () =>
      dovecote.transaction((tx) => {
        dovecote.enqueue(tx, event({ id: "before-await" }));
        late = (async () => {
          await undefined;
          return dovecote.enqueue(tx, event({ id: "after-await" }));
        })();
        return late;
      }),
    );
    await refused("TX_CLOSED", () => late);
    expect(db.inTransaction).toBe(false);
    expect(ids(other)).toEqual([]);
  });

  it("does not end the process when it rejects later", async () => {
    const { dovecote, other } = await migrated();
    // The runner fails the file for an unhandled rejection.
    await refused("TX_ASYNC", () =>
      dovecote.transaction(() => setImmediate().then(() => Promise.reject(new Error("late")))),
    );
    for (let turn = 0; turn < 5; turn++) await setImmediate();
    expect(ids(other)).toEqual([]);
  });

  const resolves = (resolve: (value: undefined) => void) => resolve(undefined);
  const throws = () => {
    throw new Error("no");
  };
  it.each([
    ["an object", thenable({}, resolves)],
    ["a function", thenable(() => {}, resolves)],
    ["an object whose method throws", thenable({}, throws)],
  ])("%s that can be awaited is one too", async (_what, answer) => {
    const { dovecote, other } = await migrated();
    await refused("TX_ASYNC", () =>
      dovecote.transaction((tx) => {
        dovecote.enqueue(tx, event());
        return answer;
      }),
    );
    expect(ids(other)).toEqual([]);
  });
});

describe("TX-09: the handle of a transaction of ours", () => {
  it("is TX_CLOSED afterwards, also while another transaction is open", async () => {
    const { db, dovecote, other } = await migrated();
    const kept = await dovecote.transaction((tx) => tx);
    await refused("TX_CLOSED", () => dovecote.enqueue(kept, event()));
    await refused("TX_CLOSED", () => dovecote.redriveIn(kept, 1));
    await refused("TX_CLOSED", () => kept.client);
    db.exec("begin immediate");
    await refused("TX_CLOSED", () => dovecote.enqueue(kept, event()));
    db.exec("commit");
    let inside: Promise<unknown> | undefined;
    await dovecote.transaction(() => {
      inside = refused("TX_CLOSED", () => dovecote.enqueue(kept, event()));
    });
    await inside;
    expect(ids(other)).toEqual([]);
  });

  it("is TX_CLOSED after a rollback", async () => {
    const { dovecote } = await migrated();
    let kept: SqliteTransaction | undefined;
    await expect(
      dovecote.transaction((tx) => {
        kept = tx;
        throw new Error("changed my mind");
      }),
    ).rejects.toThrow();
    await refused("TX_CLOSED", () => dovecote.enqueue(kept as SqliteTransaction, event()));
  });

  it("belongs to the database of its store", async () => {
    const { dovecote } = await migrated();
    const foreign = await migrated();
    await refused("TX_FOREIGN", () => foreign.dovecote.transaction((tx) => dovecote.enqueue(tx, event())));
    expect(ids(foreign.other)).toEqual([]);
  });

  it("gives the application the very connection of the store", async () => {
    const { db, dovecote } = await migrated();
    await dovecote.transaction((tx) => {
      expect(tx.client).toBe(db);
      expect(db.inTransaction).toBe(true);
    });
    expectTypeOf(sqlite(db).transaction)
      .parameter(0)
      .parameter(0)
      .toEqualTypeOf<SqliteTransaction<Database.Database>>();
  });
});

function thenable(target: object, then: (resolve: (value: undefined) => void) => void): object {
  return Object.assign(target, { then });
}
