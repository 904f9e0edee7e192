/** The caller's own transaction of postgres.js: what joins it, and what becomes of a handle whose transaction is gone. */
import { extname } from "node:path";
import type postgresClient from "postgres";
import { describe, expect, it } from "vitest";
import type { CallersTransactionReport, CallersTransactionTask } from "./callers-transaction-child.ts";
import { event, migrated, refused, runChild, serverUrl, written } from "./support.ts";

const ENTRY = new URL(`./callers-transaction-child${extname(import.meta.url)}`, import.meta.url);

describe("TX-06: the backend of a caller's own transaction is killed", () => {
  const run = async (
    how: Pick<CallersTransactionTask, "successor" | "used">,
  ): Promise<{
    readonly report: CallersTransactionReport | undefined;
    readonly events: readonly string[];
    readonly business: readonly string[];
  }> => {
    const { schema, other } = await migrated();
    const task: CallersTransactionTask = { url: serverUrl(), schema, ...how };
    const { report } = await runChild<CallersTransactionReport>(ENTRY, task);
    return { report, ...(await written(other, schema)) };
  };

  it.each([true, false])(
    "a late enqueue meets other queries on its connection (enqueued before: %s)",
    async (used) => {
      const { report, events, business } = await run({ successor: "queries", used });
      expect(report).toEqual({ begin: "rejected", late: "TX_REQUIRED", thrown: 0 });
      expect({ events, business }).toEqual({ events: [], business: ["successor"] });
    },
  );

  it.each([true, false])(
    "a late enqueue meets somebody else's transaction on its connection (enqueued before: %s)",
    async (used) => {
      const { report, events, business } = await run({ successor: "transaction", used });
      expect(report).toEqual({ begin: "rejected", late: "TX_REQUIRED", thrown: 0 });
      expect({ events, business }).toEqual({ events: [], business: ["successor"] });
    },
  );

  // The client writes to a null socket then and throws out of a timer (3.4.9): only what is committed is ours.
  it.each([true, false])("a late enqueue meets no connection (enqueued before: %s)", async (used) => {
    const { events, business } = await run({ successor: "nothing", used });
    expect({ events, business }).toEqual({ events: [], business: [] });
  });
});

describe("TX-05: without a transaction", () => {
  it("the root client is refused and nothing is written", async () => {
    const { sql, schema, other, dovecote } = await migrated();
    for (const id of ["one", "two"]) {
      // @ts-expect-error: the pool is no transaction
      await refused("TX_REQUIRED", () => dovecote.enqueue(sql, event(id)));
      // @ts-expect-error: the pool is no transaction
      await refused("TX_REQUIRED", () => dovecote.enqueueMany(sql, [event(`${id}-a`), event(`${id}-b`)]));
      // @ts-expect-error: the pool is no transaction
      await refused("TX_REQUIRED", () => dovecote.redriveIn(sql, 1));
    }
    expect((await written(other, schema)).events).toEqual([]);
  });

  it("a reserved connection before its begin and after its commit is refused", async () => {
    const { sql, schema, other, dovecote } = await migrated();
    const reserved = await sql.reserve();
    await refused("TX_REQUIRED", () => dovecote.enqueue(reserved, event("early")));
    await reserved`begin`;
    await dovecote.enqueue(reserved, event("inside"));
    await reserved`commit`;
    await refused("TX_REQUIRED", () => dovecote.enqueue(reserved, event("late")));
    reserved.release();
    expect((await written(other, schema)).events).toEqual(["inside"]);
  });

  it("a reserved connection serves one transaction after another", async () => {
    const { sql, schema, other, dovecote } = await migrated();
    const reserved = await sql.reserve();
    for (const id of ["one", "two", "three"]) {
      await reserved`begin`;
      await dovecote.enqueue(reserved, event(id));
      await reserved.unsafe(id === "two" ? "rollback" : "commit");
    }
    reserved.release();
    expect((await written(other, schema)).events).toEqual(["one", "three"]);
  });

  it("TX-09: a handle kept beyond its commit is refused", async () => {
    const { sql, schema, other, dovecote } = await migrated({ max: 1 });
    const kept: postgresClient.TransactionSql[] = [];
    await sql.begin(async (tx) => {
      kept.push(tx);
      await dovecote.enqueue(tx, event("inside"));
    });
    for (const tx of kept) await refused("TX_REQUIRED", () => dovecote.enqueue(tx, event("late")));
    expect((await written(other, schema)).events).toEqual(["inside"]);
  });

  it("TX-09: a handle kept beyond its commit cannot enter the next transaction of its connection", async () => {
    const { sql, schema, other, dovecote } = await migrated({ max: 1 });
    const kept: postgresClient.TransactionSql[] = [];
    await sql.begin(async (tx) => {
      kept.push(tx);
      await dovecote.enqueue(tx, event("first"));
    });
    await sql.begin(async (tx) => {
      await dovecote.enqueue(tx, event("second"));
      for (const late of kept) await refused("TX_REQUIRED", () => dovecote.enqueue(late, event("late")));
      for (const late of kept) await refused("TX_REQUIRED", () => dovecote.redriveIn(late, 1));
      await dovecote.enqueue(tx, event("third"));
    });
    expect((await written(other, schema)).events).toEqual(["first", "second", "third"]);
  });
});

describe("TX-04: savepoints", () => {
  it("rollback to one drops what came after it; the handles stay usable", async () => {
    const { sql, schema, other, dovecote } = await migrated();
    await sql.begin(async (tx) => {
      const inner = tx.savepoint(async (nested) => {
        await dovecote.enqueue(nested, event("dropped"));
        await dovecote.enqueue(tx, event("dropped too"));
        throw new Error("inner");
      });
      await expect(inner).rejects.toThrow("inner");
      await dovecote.enqueue(tx, event("outer"));
      await tx.savepoint(async (nested) => {
        await dovecote.enqueue(nested, event("kept"));
      });
      await dovecote.enqueue(tx, event("last"));
    });
    expect((await written(other, schema)).events).toEqual(["outer", "kept", "last"]);
  });

  it("the guard is armed again after each of several rollbacks", async () => {
    const { sql, schema, other, dovecote } = await migrated();
    await sql.begin(async (tx) => {
      for (const id of ["one", "two", "three"]) {
        await tx`savepoint here`;
        await dovecote.enqueue(tx, event(`${id}-dropped`));
        await tx`rollback to savepoint here`;
        await Promise.all([dovecote.enqueue(tx, event(`${id}-a`)), dovecote.enqueue(tx, event(`${id}-b`))]);
      }
    });
    expect([...(await written(other, schema)).events].sort()).toEqual(
      ["one", "two", "three"].flatMap((id) => [`${id}-a`, `${id}-b`]).sort(),
    );
  });
});

describe("TX-01: every isolation level", () => {
  it.each(["read committed", "repeatable read", "serializable"])("%s", async (isolation) => {
    const { sql, schema, other, dovecote } = await migrated();
    await sql.begin(`isolation level ${isolation}`, async (tx) => {
      await tx`insert into ${tx(schema)}.business (id) values ('one')`;
      expect((await dovecote.enqueue(tx, event("one"))).outcome).toBe("enqueued");
      expect((await dovecote.enqueue(tx, event("one"))).outcome).toBe("alreadyEnqueued");
    });
    expect(await written(other, schema)).toEqual({ events: ["one"], business: ["one"] });
  });

  it.each(["repeatable read", "serializable"])(
    "TX-11: %s, a rival's identity, then a retry",
    async (isolation) => {
      const { sql, schema, other, dovecote } = await migrated();
      let attempts = 0;
      const attempt = () =>
        sql.begin(`isolation level ${isolation}`, async (tx) => {
          await tx`select count(*) from ${tx(schema)}.business`; // the snapshot is taken
          attempts += 1;
          if (attempts === 1) await dovecote.transaction((rival) => dovecote.enqueue(rival, event("one")));
          return dovecote.enqueue(tx, event("one"));
        });
      const error = await refused("SERIALIZATION_FAILURE", attempt);
      expect(error.retryable).toBe(true);
      expect((await attempt()).outcome).toBe("alreadyEnqueued");
      expect((await written(other, schema)).events).toEqual(["one"]);
    },
  );
});

it("TX-10: concurrent enqueues in one transaction all land, or none", async () => {
  const { sql, schema, other, dovecote } = await migrated();
  const names = Array.from({ length: 20 }, (_, n) => `event-${n}`);
  const attempt = (fail: boolean) =>
    sql.begin(async (tx) => {
      await Promise.all(names.map((name) => dovecote.enqueue(tx, event(name))));
      if (fail) throw new Error("none");
    });
  await expect(attempt(true)).rejects.toThrow("none");
  expect((await written(other, schema)).events).toEqual([]);
  await attempt(false);
  expect([...(await written(other, schema)).events].sort()).toEqual([...names].sort());
});

it("TX-02: redriveIn with rollback leaves the row quarantined, with commit it is pending", async () => {
  const { sql, other, schema, dovecote } = await migrated();
  const { rowId } = await dovecote.transaction((tx) => dovecote.enqueue(tx, event("one")));
  await dovecote.quarantine(rowId, { reason: "stuck" });
  const row = () => other`select * from ${other(schema)}.dovecote_deliveries`;
  const before = await row();
  const undone = sql.begin(async (tx) => {
    await dovecote.redriveIn(tx, rowId);
    throw new Error("undone");
  });
  await expect(undone).rejects.toThrow("undone");
  const filtered = sql.begin(async (tx) => {
    expect((await dovecote.redriveIn(tx, { stream: "orders" })).rowIds).toEqual([rowId]);
    throw new Error("undone");
  });
  await expect(filtered).rejects.toThrow("undone");
  expect(await row()).toEqual(before);
  await sql.begin((tx) => dovecote.redriveIn(tx, rowId));
  expect((await row())[0]?.state).toBe("pending");
});
