/** Keys and the inbox in callers' transactions of every isolation level, and what `keys.run` does about conflicts. */
import { isDovecoteError, type KeyClaim } from "@dovecote/core";
import type postgresClient from "postgres";
import { assert, describe, expect, it } from "vitest";
import { type PostgresTransaction, postgres } from "../src/index.ts";
import {
  acquired,
  ISOLATIONS,
  named,
  pidOf,
  RESPONSE,
  request,
  retried,
  SNAPSHOT_ISOLATIONS,
  takenOver,
  untilBlocked,
} from "./keys-support.ts";
import { event, type Migrated, migrated, refused, written } from "./support.ts";

type Store = Migrated["dovecote"];
type Tx = postgresClient.TransactionSql;
type Own = PostgresTransaction<postgresClient.Sql>;
type Sql = Tx | Own["sql"];

async function insert(tx: Sql, schema: string, id: string): Promise<void> {
  await tx`insert into ${tx(schema)}.business (id) values (${id})`;
}

/** From here on a transaction above READ COMMITTED sees nothing that is committed later. */
async function takeSnapshot(tx: Sql, schema: string): Promise<void> {
  await tx`select count(*) from ${tx(schema)}.business`;
}

/** How a transaction makes use of a claim. */
const JOINS: readonly (readonly [string, (dovecote: Store, tx: Tx, claim: KeyClaim) => Promise<unknown>])[] =
  [
    ["hold", (dovecote, tx, claim) => dovecote.keys.hold(tx, claim)],
    ["complete", (dovecote, tx, claim) => dovecote.keys.complete(claim, RESPONSE, tx)],
  ];

const NOTHING = { events: [], business: [] };
const UNDONE = new Error("undone");

describe.each(ISOLATIONS)("KEY-06: %s", (isolation) => {
  it("hold, business row, event and answer commit together, and vanish together", async () => {
    const { sql, schema, other, dovecote } = await migrated();
    const claim = await acquired(dovecote, "key");
    const attempt = (fail: boolean) =>
      sql.begin(`isolation level ${isolation}`, async (tx) => {
        const held = await dovecote.keys.hold(tx, claim);
        await insert(tx, schema, "paid");
        await dovecote.enqueue(tx, event("paid"));
        await held.complete(RESPONSE);
        expect(await written(other, schema)).toEqual(NOTHING);
        if (fail) throw UNDONE;
      });
    await expect(attempt(true)).rejects.toBe(UNDONE);
    expect(await written(other, schema)).toEqual(NOTHING);
    expect(await retried(dovecote, "key")).toBe("inFlight");
    await attempt(false);
    expect(await written(other, schema)).toEqual({ events: ["paid"], business: ["paid"] });
    expect(await dovecote.keys.begin(request("key"))).toMatchObject({
      outcome: "replay",
      response: { status: 201, body: new TextEncoder().encode("paid") },
    });
  });

  it("complete with a claim commits with its transaction, and vanishes with it", async () => {
    const { sql, schema, other, dovecote } = await migrated();
    const claim = await acquired(dovecote, "key");
    const attempt = (fail: boolean) =>
      sql.begin(`isolation level ${isolation}`, async (tx) => {
        await insert(tx, schema, "paid");
        await dovecote.keys.complete(claim, RESPONSE, tx);
        if (fail) throw UNDONE;
      });
    await expect(attempt(true)).rejects.toBe(UNDONE);
    expect(await retried(dovecote, "key")).toBe("inFlight");
    await attempt(false);
    expect(await retried(dovecote, "key")).toBe("replay");
    expect((await written(other, schema)).business).toEqual(["paid"]);
  });

  it("KEY-07: a claim that was taken over before is lost, and the zombie's row with it", async () => {
    const { sql, schema, other, dovecote } = await migrated();
    const stale = await acquired(dovecote, "key");
    const claim = await takenOver(dovecote, other, schema, "key");
    for (const [, join] of JOINS) {
      await refused("LOST_CLAIM", () =>
        sql.begin(`isolation level ${isolation}`, async (tx) => {
          await insert(tx, schema, "zombie");
          await join(dovecote, tx, stale);
        }),
      );
    }
    expect(await written(other, schema)).toEqual(NOTHING);
    await dovecote.keys.complete(claim, RESPONSE);
  });
});

describe.each(SNAPSHOT_ISOLATIONS)("KEY-07: %s, a claim taken over after the snapshot", (isolation) => {
  it.each(JOINS)("%s is refused, and the zombie's row rolls back", async (_what, join) => {
    const { sql, schema, other, dovecote } = await migrated();
    const stale = await acquired(dovecote, "key");
    const claims: KeyClaim[] = [];
    const attempt = () =>
      sql.begin(`isolation level ${isolation}`, async (tx) => {
        await takeSnapshot(tx, schema);
        if (claims.length === 0) claims.push(await takenOver(dovecote, other, schema, "key"));
        await insert(tx, schema, "zombie");
        await join(dovecote, tx, stale);
      });
    const { code, retryable } = await lost(attempt);
    expect(retryable).toBe(code === "SERIALIZATION_FAILURE");
    expect(await written(other, schema)).toEqual(NOTHING);
    // Whoever runs the whole transaction again is told what it is.
    await refused("LOST_CLAIM", attempt);
    const [claim] = claims;
    assert(claim);
    await dovecote.keys.complete(claim, RESPONSE);
    expect(await retried(dovecote, "key")).toBe("replay");
    expect(await written(other, schema)).toEqual(NOTHING);
  });

  it("a claim that was taken over and completed is refused, too", async () => {
    const { sql, schema, other, dovecote } = await migrated();
    const stale = await acquired(dovecote, "key");
    const attempt = sql.begin(`isolation level ${isolation}`, async (tx) => {
      await takeSnapshot(tx, schema);
      const claim = await takenOver(dovecote, other, schema, "key");
      await dovecote.keys.complete(claim, RESPONSE);
      await insert(tx, schema, "zombie");
      await dovecote.keys.hold(tx, stale);
    });
    await refused("SERIALIZATION_FAILURE", () => attempt);
    expect(await written(other, schema)).toEqual(NOTHING);
    expect(await retried(dovecote, "key")).toBe("replay");
  });

  it("KEY-08: a held claim is nobody else's, whatever its snapshot has not seen", async () => {
    const { sql, schema, other, dovecote } = await migrated();
    const claim = await acquired(dovecote, "key", { leaseMs: 2000 });
    await sql.begin(`isolation level ${isolation}`, async (tx) => {
      await takeSnapshot(tx, schema);
      const held = await dovecote.keys.hold(tx, claim);
      let state = "inFlight";
      while (state === "inFlight") {
        const found = await dovecote.keys.inspect(named("key"));
        assert(found.outcome === "found");
        state = found.record.state;
      }
      expect(await retried(dovecote, "key")).toBe("inFlight");
      await insert(tx, schema, "slow");
      await held.complete(RESPONSE);
    });
    expect(await retried(dovecote, "key")).toBe("replay");
    expect((await written(other, schema)).business).toEqual(["slow"]);
  });
});

/** Refused as lost, or as what may be tried again and is lost then. */
async function lost(call: () => Promise<unknown>) {
  try {
    await call();
  } catch (error) {
    assert(isDovecoteError(error, "LOST_CLAIM", "SERIALIZATION_FAILURE"), String(error));
    return error;
  }
  assert.fail("a zombie's transaction must be refused");
}

describe.each(ISOLATIONS)("INBOX-01: %s, two transactions at the same event", (isolation) => {
  const given = { consumer: "invoices", event: { source: "/shop", id: "1" } };

  /** The first one holds the mark; the second one waits for it, with a snapshot from before. */
  async function contend(end: "commit" | "rollback") {
    const { sql, schema, other, dovecote } = await migrated();
    const calls: string[] = [];
    const once = (tx: Tx, name: string) =>
      dovecote.inbox.once(tx, given, async () => {
        calls.push(name);
        await insert(tx, schema, name);
      });
    const [marked, over] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const first = sql.begin(`isolation level ${isolation}`, async (tx) => {
      const answer = await once(tx, "first");
      marked.resolve();
      await over.promise;
      if (end === "rollback") throw UNDONE;
      return answer.outcome;
    });
    const firstEnded = first.catch((error: unknown) => error);
    await marked.promise;
    const second = sql
      .begin(`isolation level ${isolation}`, async (tx) => {
        await takeSnapshot(tx, schema);
        const pid = await pidOf(tx);
        const answer = once(tx, "second");
        await untilBlocked(other, pid);
        expect(calls).toEqual(["first"]);
        over.resolve();
        return (await answer).outcome;
      })
      .catch((error: unknown) => error);
    return { dovecote, sql, schema, other, once, calls, first: await firstEnded, second: await second };
  }

  it("after a commit one ran, and the other has seen it", async () => {
    const { sql, schema, other, once, calls, first, second } = await contend("commit");
    expect(first).toBe("first");
    if (isolation === "read committed") expect(second).toBe("seen");
    else if (second !== "seen") {
      assert(isDovecoteError(second, "SERIALIZATION_FAILURE"), String(second));
      expect(second.retryable).toBe(true);
    }
    const again = await sql.begin(`isolation level ${isolation}`, (tx) => once(tx, "again"));
    expect(again).toEqual({ outcome: "seen" });
    expect(calls).toEqual(["first"]);
    expect((await written(other, schema)).business).toEqual(["first"]);
  });

  it("after a rollback the other is the first", async () => {
    const { schema, other, calls, first, second } = await contend("rollback");
    expect(first).toBe(UNDONE);
    expect(second).toBe("first");
    expect(calls).toEqual(["first", "second"]);
    expect((await written(other, schema)).business).toEqual(["second"]);
  });
});

/** How often a handler ran, under which claim. */
interface Attempt {
  readonly key: string;
  readonly attempt: number;
  readonly token: string;
}

/** A store whose own transactions run at this level, and a run whose attempts are noted. */
async function contended(isolation: (typeof ISOLATIONS)[number]) {
  const space = await migrated({ max: 6, connection: { default_transaction_isolation: isolation } });
  const { schema, other, dovecote } = space;
  const rival = postgres(other, { schema });
  const attempts: Attempt[] = [];
  const run = (key: string, work: (tx: Own) => Promise<unknown>) =>
    dovecote.keys.run(request(key), async ({ tx, attempt }) => {
      const found = await rival.keys.inspect(named(key));
      assert(found.outcome === "found");
      const [row] = await other`select encode(claim_token, 'hex') as token
        from ${other(schema)}.dovecote_idempotency_keys where encode(key_digest, 'hex') = ${found.record.keyDigest}`;
      attempts.push({ key, attempt, token: String(row?.token) });
      await work(tx);
      return RESPONSE;
    });
  return { ...space, rival, attempts, run };
}

describe("keys.run whose transaction conflicts with another one is repeated under the same claim", () => {
  it("serializable: business rows that a rival read and wrote at the same time", async () => {
    const { schema, other, dovecote, attempts, run } = await contended("serializable");
    const seen: number[] = [];
    const { outcome } = await run("key", async (tx) => {
      const rows = await tx.sql`select id from ${tx.sql(schema)}.business`;
      seen.push(rows.length);
      await dovecote.enqueue(tx, event("mine"));
      if (attempts.length > 1) return insert(tx.sql, schema, "mine");
      await other.begin("isolation level serializable", async (rival) => {
        await rival`select id from ${rival(schema)}.business`;
        await insert(rival, schema, "rival");
        await insert(tx.sql, schema, "mine");
      });
    });
    expect(outcome).toBe("completed");
    expect(attempts).toEqual([attempts[0], attempts[0]]);
    // In the end as if one had run after the other.
    expect(seen).toEqual([0, 1]);
    expect(await written(other, schema)).toEqual({ events: ["mine"], business: ["mine", "rival"] });
    expect(await retried(dovecote, "key")).toBe("replay");
  });

  it.each(SNAPSHOT_ISOLATIONS)("%s: an event that a rival enqueued after the snapshot", async (isolation) => {
    const { schema, other, dovecote, rival, attempts, run } = await contended(isolation);
    const { outcome } = await run("key", async (tx) => {
      await takeSnapshot(tx.sql, schema);
      await insert(tx.sql, schema, "paid");
      if (attempts.length === 1) await rival.transaction((its) => rival.enqueue(its, event("paid")));
      await dovecote.enqueue(tx, event("paid"));
    });
    expect(outcome).toBe("completed");
    expect(attempts).toHaveLength(2);
    expect(attempts[1]).toEqual(attempts[0]);
    expect(await written(other, schema)).toEqual({ events: ["paid"], business: ["paid"] });
  });

  it("a few times at most, and then the key is given back", async () => {
    const { schema, other, dovecote, rival, attempts, run } = await contended("repeatable read");
    const { retryable, ambiguous } = await refused("SERIALIZATION_FAILURE", () =>
      run("key", async (tx) => {
        await takeSnapshot(tx.sql, schema);
        await insert(tx.sql, schema, "paid");
        const contested = event(`paid-${attempts.length}`);
        await rival.transaction((its) => rival.enqueue(its, contested));
        await dovecote.enqueue(tx, contested);
      }),
    );
    expect([retryable, ambiguous]).toEqual([true, false]);
    expect(attempts.length).toBeGreaterThan(1);
    expect(attempts.length).toBeLessThanOrEqual(4);
    expect(attempts).toEqual(attempts.map(() => attempts[0]));
    expect((await written(other, schema)).business).toEqual([]);
    expect(await dovecote.keys.inspect(named("key"))).toEqual({ outcome: "notFound" });
  });
});

describe("keys.run whose handler violates a constraint of the application's own", () => {
  it("at once: the error comes out untouched, nothing is kept, and the key is as if never used", async () => {
    const { schema, other, dovecote } = await migrated();
    await other`insert into ${other(schema)}.business (id) values ('taken')`;
    const thrown: unknown[] = [];
    const call = dovecote.keys.run(request("key"), async ({ tx }) => {
      await insert(tx.sql, schema, "mine");
      await dovecote.enqueue(tx, event("mine"));
      await insert(tx.sql, schema, "taken").catch((error: unknown) => {
        thrown.push(error);
        throw error;
      });
      return RESPONSE;
    });
    const error: unknown = await call.catch((rejection: unknown) => rejection);
    expect(error).toMatchObject({ name: "PostgresError", code: "23505" });
    expect(error).toBe(thrown[0]);
    await asIfNeverUsed(other, schema, dovecote);
  });

  it("at the commit: the call rejects, nothing is kept, and the key is as if never used", async () => {
    const { schema, other, dovecote } = await migrated();
    await other.unsafe(`alter table ${schema}.business drop constraint business_pkey,
      add constraint business_pkey primary key (id) deferrable initially deferred`);
    await other`insert into ${other(schema)}.business (id) values ('taken')`;
    const { ambiguous, retryable, cause } = await refused("DRIVER_FAILURE", () =>
      dovecote.keys.run(request("key"), async ({ tx }) => {
        await insert(tx.sql, schema, "mine");
        await insert(tx.sql, schema, "taken");
        await dovecote.enqueue(tx, event("mine"));
        return RESPONSE;
      }),
    );
    expect([ambiguous, retryable]).toEqual([false, false]);
    expect(cause).toMatchObject({ code: "23505" });
    await asIfNeverUsed(other, schema, dovecote);
  });

  async function asIfNeverUsed(other: postgresClient.Sql, schema: string, dovecote: Store): Promise<void> {
    expect(await written(other, schema)).toEqual({ events: [], business: ["taken"] });
    expect(await dovecote.keys.inspect(named("key"))).toEqual({ outcome: "notFound" });
    const { outcome } = await dovecote.keys.run(request("key"), async ({ tx, attempt, takenOver }) => {
      expect([attempt, takenOver]).toEqual([1, false]);
      await insert(tx.sql, schema, "free");
      return RESPONSE;
    });
    expect(outcome).toBe("completed");
    expect((await written(other, schema)).business).toEqual(["free", "taken"]);
  }
});
