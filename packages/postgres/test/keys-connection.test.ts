/**
 * The connection of a business transaction is ended by the server: the call rejects, nothing was committed, and the key can
 * be had again when its lease is over. That nothing is thrown outside the calls is what vitest fails a run for.
 */
import type postgresClient from "postgres";
import { describe, expect, it } from "vitest";
import type { PostgresTransaction } from "../src/index.ts";
import { acquired, age, pidOf, RESPONSE, request, untilBlocked } from "./keys-support.ts";
import { event, killBackend, type Migrated, migrated, refused, written } from "./support.ts";

type Own = PostgresTransaction<postgresClient.Sql>;

const NOTHING = { events: [], business: [] };

async function work({ dovecote, schema }: Migrated, sql: Own["sql"], tx: Own, id: string): Promise<void> {
  await sql`insert into ${sql(schema)}.business (id) values (${id})`;
  await dovecote.enqueue(tx, event(id));
}

/** Nobody has the key when its lease is over, and what is done with it then stays. */
async function goesOn(space: Migrated): Promise<void> {
  const { dovecote, schema, other } = space;
  expect(await written(other, schema)).toEqual(NOTHING);
  await age(other, schema);
  const { outcome } = await dovecote.keys.run(request("key"), async ({ tx }) => {
    await work(space, tx.sql, tx, "again");
    return RESPONSE;
  });
  expect(outcome).toBe("completed");
  expect(await dovecote.keys.begin(request("key"))).toMatchObject({ outcome: "replay" });
  expect(await written(other, schema)).toEqual({ events: ["again"], business: ["again"] });
}

/** Nobody may write into the table meanwhile; who has a record locked keeps it. */
async function lockedTable({ other, schema }: Migrated): Promise<() => Promise<void>> {
  const holder = await other.reserve();
  await holder.unsafe(`begin; lock table "${schema}".dovecote_idempotency_keys in share mode`);
  return async () => {
    await holder.unsafe("rollback");
    holder.release();
  };
}

describe.each([1, 4])("the backend of keys.run is ended, with a pool of %i", (max) => {
  it("while its handler waits for something else", async () => {
    const space = await migrated({ max });
    const { dovecote, schema, other } = space;
    const ended = Promise.withResolvers<void>();
    const late = Promise.withResolvers<void>();
    const call = refused("CONNECTION_LOST", () =>
      dovecote.keys.run(request("key"), async ({ tx }) => {
        const { sql } = tx;
        await work(space, sql, tx, "lost");
        await killBackend(other, await pidOf(sql));
        ended.resolve();
        await call;
        // The handler does not know that its call is over.
        await refused("CONNECTION_LOST", () => work(space, sql, tx, "late"));
        await refused("CONNECTION_LOST", () => dovecote.enqueue(tx, event("late"))).then(
          () => late.resolve(),
          late.reject,
        );
        return RESPONSE;
      }),
    );
    await ended.promise;
    expect((await call).retryable).toBe(true);
    await late.promise;
    expect(await written(other, schema)).toEqual(NOTHING);
    await goesOn(space);
  });

  it("while its answer is being recorded", async () => {
    const space = await migrated({ max });
    const { dovecote, other } = space;
    const killed = Promise.withResolvers<void>();
    const call = refused("CONNECTION_LOST", () =>
      dovecote.keys.run(request("key"), async ({ tx }) => {
        const { sql } = tx;
        await work(space, sql, tx, "lost");
        const [pid, unlock] = [await pidOf(sql), await lockedTable(space)];
        untilBlocked(other, pid)
          .then(() => killBackend(other, pid))
          .then(unlock)
          .then(killed.resolve, killed.reject);
        return RESPONSE;
      }),
    );
    await killed.promise;
    const { retryable, ambiguous } = await call;
    expect([retryable, ambiguous]).toEqual([true, false]);
    await goesOn(space);
  });

  it("while it commits", async () => {
    const space = await migrated({ max });
    const { dovecote, schema, other } = space;
    const name = `hashtext('${schema}')`;
    await other.unsafe(`
      create function ${schema}.block_commit() returns trigger language plpgsql as $$ begin
        perform pg_advisory_xact_lock(${name}, 1);
        return null;
      end $$;
      create constraint trigger block_commit after insert on ${schema}.business
        deferrable initially deferred for each row execute function ${schema}.block_commit()`);
    const holder = await other.reserve();
    await holder.unsafe(`begin; select pg_advisory_xact_lock(${name}, 1)`);
    const killed = Promise.withResolvers<void>();
    const call = refused("CONNECTION_LOST", () =>
      dovecote.keys.run(request("key"), async ({ tx }) => {
        await work(space, tx.sql, tx, "lost");
        const pid = await pidOf(tx.sql);
        untilBlocked(other, pid)
          .then(() => killBackend(other, pid))
          .then(killed.resolve, killed.reject);
        return RESPONSE;
      }),
    );
    await killed.promise;
    // Nobody knows whether it was committed: the key stays as it is until its lease is over.
    const { retryable, ambiguous } = await call;
    expect([retryable, ambiguous]).toEqual([true, true]);
    expect(await dovecote.keys.begin(request("key"))).toMatchObject({ outcome: "inFlight" });
    await holder.unsafe("rollback");
    holder.release();
    await goesOn(space);
  });
});

describe("the backend of dovecote.transaction is ended", () => {
  it("while a held claim is being completed", async () => {
    const space = await migrated();
    const { dovecote, other } = space;
    const claim = await acquired(dovecote, "key");
    const killed = Promise.withResolvers<void>();
    const call = refused("CONNECTION_LOST", () =>
      dovecote.transaction(async (tx) => {
        const { sql } = tx;
        const held = await dovecote.keys.hold(tx, claim);
        await work(space, sql, tx, "lost");
        const [pid, unlock] = [await pidOf(sql), await lockedTable(space)];
        untilBlocked(other, pid)
          .then(() => killBackend(other, pid))
          .then(unlock)
          .then(killed.resolve, killed.reject);
        await held.complete(RESPONSE);
      }),
    );
    await killed.promise;
    const { retryable, ambiguous } = await call;
    expect([retryable, ambiguous]).toEqual([true, false]);
    expect(await dovecote.keys.begin(request("key"))).toMatchObject({ outcome: "inFlight" });
    await goesOn(space);
  });

  it("and a claim that it holds goes on with its lease", async () => {
    const space = await migrated();
    const { dovecote, schema, other } = space;
    const claim = await acquired(dovecote, "key");
    await refused("CONNECTION_LOST", () =>
      dovecote.transaction(async (tx) => {
        const held = await dovecote.keys.hold(tx, claim);
        await work(space, tx.sql, tx, "lost");
        await killBackend(other, await pidOf(tx.sql));
        await held.complete(RESPONSE);
      }),
    );
    expect(await written(other, schema)).toEqual(NOTHING);
    // The same claim is good for another try.
    await dovecote.transaction(async (tx) => {
      const held = await dovecote.keys.hold(tx, claim);
      await work(space, tx.sql, tx, "again");
      await held.complete(RESPONSE);
    });
    expect(await dovecote.keys.begin(request("key"))).toMatchObject({ outcome: "replay" });
    expect(await written(other, schema)).toEqual({ events: ["again"], business: ["again"] });
  });
});

describe("the backend of a caller's own transaction is ended", () => {
  it("while a held claim is being completed", async () => {
    const space = await migrated();
    const { sql, dovecote, schema, other } = space;
    const claim = await acquired(dovecote, "key");
    const killed = Promise.withResolvers<void>();
    // Without `sql.begin`, which would write to the dead socket (postgres.js 3.4.9): nothing is sent after the refusal.
    const tx = await sql.reserve();
    await tx.unsafe("begin");
    const held = await dovecote.keys.hold(tx, claim);
    await tx`insert into ${tx(schema)}.business (id) values ('lost')`;
    const [pid, unlock] = [await pidOf(tx), await lockedTable(space)];
    untilBlocked(other, pid)
      .then(() => killBackend(other, pid))
      .then(unlock)
      .then(killed.resolve, killed.reject);
    await refused("CONNECTION_LOST", () => held.complete(RESPONSE));
    await killed.promise;
    expect(await dovecote.keys.begin(request("key"))).toMatchObject({ outcome: "inFlight" });
    await goesOn(space);
  });
});
