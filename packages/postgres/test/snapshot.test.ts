/** Snapshots: one consistent state, on a connection that is given back on every way out. */
import { type Entry, isDovecoteError, type Snapshot } from "@dovecote/core";
import { describe, expect, it } from "vitest";
import { event, killBackend, type Migrated, migrated, refused } from "./support.ts";

async function filled(count: number, max: number): Promise<Migrated> {
  const space = await migrated({ max });
  await space.dovecote.transaction((tx) =>
    space.dovecote.enqueueMany(
      tx,
      Array.from({ length: count }, (_, n) => event(`event-${n}`)),
    ),
  );
  return space;
}

/** The pool's only connection is free, and in no transaction: what would wait for it comes back. */
async function usable({ sql, other, dovecote }: Migrated): Promise<void> {
  const [backend] = await sql`select pg_backend_pid() as pid`;
  const [row] = await other`select state from pg_stat_activity where pid = ${Number(backend?.pid)}`;
  expect(row?.state).toBe("idle");
  expect(await dovecote.transaction(async () => "done")).toBe("done");
  const again = await dovecote.snapshot();
  await again.close();
}

async function read(snapshot: Snapshot): Promise<readonly Entry[]> {
  const entries: Entry[] = [];
  for await (const entry of snapshot) entries.push(entry);
  return entries;
}

it("PAGE-03: pages show one state while others write", async () => {
  const { other, schema, dovecote } = await filled(20, 4);
  const snapshot = await dovecote.snapshot({ pageSize: 3 });
  const seen: (readonly [id: number, state: string])[] = [];
  for await (const { rowId, delivery } of snapshot) {
    seen.push([rowId, delivery.state]);
    // Everything the snapshot has not reached yet changes under it.
    await dovecote.transaction((tx) => dovecote.enqueue(tx, event(`new-${rowId}`)));
    await dovecote.claim({ worker: "w", limit: 5 });
    await other`update ${other(schema)}.dovecote_events set subject = 'changed'`;
    if (rowId === 4) {
      await other`delete from ${other(schema)}.dovecote_deliveries where event_row_id = 20`;
      await other`delete from ${other(schema)}.dovecote_events where row_id = 20`;
    }
  }
  expect(snapshot.cursor).toBe(20);
  expect(seen).toEqual(Array.from({ length: 20 }, (_, n) => [n + 1, "pending"]));
  const page = await dovecote.page({ limit: 1000 });
  expect(page.entries.some(({ rowId }) => rowId > 20)).toBe(true);
  expect(page.entries.some(({ rowId }) => rowId === 20)).toBe(false);
});

it("PAGE-03: the state is that of the opening, not of the first page", async () => {
  const { dovecote } = await filled(2, 2);
  const snapshot = await dovecote.snapshot();
  await dovecote.claim({ worker: "w", limit: 2 });
  expect((await read(snapshot)).map(({ delivery }) => delivery.state)).toEqual(["pending", "pending"]);
});

it("PAGE-03: two snapshots side by side keep their states", async () => {
  const { dovecote } = await filled(1, 3);
  const before = await dovecote.snapshot();
  await dovecote.transaction((tx) => dovecote.enqueue(tx, event("later")));
  const after = await dovecote.snapshot();
  expect([(await read(before)).length, (await read(after)).length]).toEqual([1, 2]);
});

describe("PAGE-03: on a pool of one the connection is given back", () => {
  it("on completion", async () => {
    const space = await filled(5, 1);
    const snapshot = await space.dovecote.snapshot({ pageSize: 2 });
    expect(await read(snapshot)).toHaveLength(5);
    await usable(space);
    await snapshot.close();
    await usable(space);
  });

  it("on completion of an empty one", async () => {
    const space = await filled(1, 1);
    await space.other`delete from ${space.other(space.schema)}.dovecote_deliveries`;
    await space.other`delete from ${space.other(space.schema)}.dovecote_events`;
    const snapshot = await space.dovecote.snapshot();
    expect(snapshot.cursor).toBe(0);
    expect(await read(snapshot)).toEqual([]);
    await usable(space);
  });

  it("on break", async () => {
    const space = await filled(5, 1);
    for await (const { rowId } of await space.dovecote.snapshot({ pageSize: 2 })) {
      if (rowId === 3) break;
    }
    await usable(space);
  });

  it("on an error in the loop", async () => {
    const space = await filled(5, 1);
    const loop = async (): Promise<void> => {
      for await (const { rowId } of await space.dovecote.snapshot({ pageSize: 2 })) {
        if (rowId === 3) throw new Error("enough");
      }
    };
    await expect(loop()).rejects.toThrow("enough");
    await usable(space);
  });

  it("on close and on dispose, before it was read", async () => {
    const space = await filled(5, 1);
    const snapshot = await space.dovecote.snapshot();
    await Promise.all([snapshot.close(), snapshot.close()]);
    await usable(space);
    await refused("CLOSED", () => read(snapshot));
    {
      await using disposed = await space.dovecote.snapshot();
      expect(disposed.cursor).toBe(5);
    }
    await usable(space);
  });

  it("on a damaged row, whose error carries the cursor past it", async () => {
    const space = await filled(5, 1);
    await space.other`delete from ${space.other(space.schema)}.dovecote_deliveries where event_row_id = 3`;
    const snapshot = await space.dovecote.snapshot({ pageSize: 2 });
    const error = await refused("INTEGRITY", () => read(snapshot));
    expect(error.cursor).toBe(3);
    await usable(space);
  });

  it("when opening fails", async () => {
    const space = await filled(1, 1);
    await space.dovecote.stats();
    await space.other`alter table ${space.other(space.schema)}.dovecote_events rename to hidden`;
    await refused("SCHEMA_MISMATCH", () => space.dovecote.snapshot());
    await space.other`alter table ${space.other(space.schema)}.hidden rename to dovecote_events`;
    await usable(space);
  });

  it("when its backend is killed between two pages", async () => {
    const space = await filled(5, 1);
    const snapshot = await space.dovecote.snapshot({ pageSize: 2 });
    const holder = () => space.other`
      select pid from pg_locks where relation = ${`"${space.schema}".dovecote_events`}::regclass and granted`;
    const seen: number[] = [];
    const loop = async (): Promise<void> => {
      for await (const { rowId } of snapshot) {
        seen.push(rowId);
        if (rowId !== 2) continue;
        const [backend] = await holder();
        await killBackend(space.other, Number(backend?.pid));
      }
    };
    const error = await loop().catch((thrown: unknown) => thrown);
    expect(isDovecoteError(error, "CONNECTION_LOST") && error.retryable).toBe(true);
    expect(seen).toEqual([1, 2]);
    await usable(space);
  });

  it("LIFE-01: on close of the store, which ends the open snapshot", async () => {
    const space = await filled(5, 1);
    const snapshot = await space.dovecote.snapshot({ pageSize: 2 });
    await space.dovecote.close();
    await refused("CLOSED", () => read(snapshot));
    await refused("CLOSED", () => space.dovecote.snapshot());
    expect(await space.sql`select 1 as one`).toEqual([{ one: 1 }]);
  });
});
