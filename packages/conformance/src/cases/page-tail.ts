import assert from "node:assert/strict";
import type { TailLag, TailOptions } from "@dovecote/core";
import type { Case, CaseContext, Outbox, Peer } from "../case.ts";
import { refused } from "./expect.ts";
import { enqueued, enqueuedMany, event } from "./given.ts";
import { eventually, turns } from "./waiting.ts";

export const tailCases: readonly Case[] = [
  {
    id: "PAGE-04",
    level: 2,
    intent: "tail yields what is there and what comes, in row-id order, and ends with its signal",
    run: ifTail(async (t) => {
      const before = await enqueuedMany(t, 5);
      const tail = follow(t, { after: before[1] ?? 0, pageSize: 2 });
      try {
        await tail.reaches(before[4]);
        const { rowId } = await enqueued(await t.connect());
        await tail.reaches(rowId);
        assert.deepEqual(
          tail.seen,
          [...before.slice(2), rowId],
          "tail must yield every event after its cursor once",
        );
      } finally {
        await tail.stop();
      }
      await enqueued(t);
      await turns(t.session);
      assert.equal(tail.seen.length, 4, "tail must yield nothing after its signal");
    }),
  },
  {
    id: "PAGE-04",
    level: 2,
    intent: "an event that commits late is yielded, before or after waiting, never skipped",
    run: ifTail(async (t) => {
      const early = await t.connect();
      const first = await enqueued(t);
      const open = await early.session.begin();
      const tail = follow(t);
      try {
        const late = await early.outbox.enqueue(open.handle, event());
        const next = await enqueuedAbove(t, late.rowId, tail);
        await open.commit();
        const last = next ?? (await enqueued(t)).rowId;
        await tail.reaches(late.rowId, last);
        tail.yieldedInOrder([first.rowId, late.rowId, last]);
      } finally {
        await tail.stop();
      }
    }),
  },
  {
    id: "PAGE-04",
    level: 2,
    intent: "an event of a transaction that began earlier but wrote later does not let another be skipped",
    run: ifTail(async (t) => {
      const { capabilities } = t;
      const [older, younger] = [await t.connect(), await t.connect()];
      const tail = follow(t);
      try {
        const elder = await older.session.begin();
        // Its first write is older than anything of the other transaction: its events are not.
        await elder.writeBusinessRow("elder");
        if (capabilities.lockScope === "database") {
          const { rowId } = await older.outbox.enqueue(elder.handle, event());
          await elder.commit();
          const next = await enqueued(younger);
          await tail.reaches(rowId, next.rowId);
          tail.yieldedInOrder([rowId, next.rowId]);
          return;
        }
        const junior = await younger.session.begin();
        await junior.writeBusinessRow("junior");
        const lower = await younger.outbox.enqueue(junior.handle, event());
        const higher = await older.outbox.enqueue(elder.handle, event());
        await elder.commit();
        await turns(t.session);
        if (lower.rowId < higher.rowId) {
          assert.deepEqual(
            tail.seen,
            [],
            `row ${higher.rowId} must wait for row ${lower.rowId}, which is still open`,
          );
        }
        await junior.commit();
        await tail.reaches(lower.rowId, higher.rowId);
        tail.yieldedInOrder([lower.rowId, higher.rowId]);
      } finally {
        await tail.stop();
      }
    }),
  },
  {
    id: "PAGE-04",
    level: 2,
    intent: "a row id that was rolled back does not hold the tail up",
    run: ifTail(async (t) => {
      const early = await t.connect();
      const open = await early.session.begin();
      const tail = follow(t);
      try {
        const dropped = await early.outbox.enqueue(open.handle, event());
        const next = await enqueuedAbove(t, dropped.rowId, tail);
        await open.rollback();
        const last = next ?? (await enqueued(t)).rowId;
        await tail.reaches(last);
        assert.deepEqual(tail.seen, [last], `a tail must yield what committed, and not row ${dropped.rowId}`);
      } finally {
        await tail.stop();
      }
    }),
  },
  {
    id: "PAGE-04",
    level: 2,
    intent: "a tail goes on when the last events were another tenant's, of another stream, or were pruned",
    run: ifTail(async (t) => {
      const other = await t.connect();
      const { session, outbox } = other;
      const acme = outbox.tenant("acme");
      const inAcme = async (stream: string): Promise<number> => {
        const stored = await session.transaction((tx) => acme.enqueue(tx.handle, event({ stream })));
        return (stored as { readonly rowId: number }).rowId;
      };
      const reader = { session: t.session, outbox: t.outbox.tenant("acme") };
      const tails = [follow(reader, { stream: "orders" }), follow(reader, { stream: "orders", pageSize: 1 })];
      try {
        for (let round = 0; round < 3; round++) {
          const mine = await inAcme("orders");
          const pruned = await inAcme("orders");
          for (const tail of tails) await tail.reaches(mine, pruned);
          await enqueuedMany(other, 3);
          const foreign = await inAcme("bills");
          for (const tail of tails) {
            await tail.reports("that nothing is left to look at", (lag) => lag.cursor >= foreign);
          }
          await acme.quarantine(pruned, { reason: "to be pruned" });
          await session.faults.overwriteDelivery(pruned, { quarantinedAt: 1_000_000 });
          await acme.prune({ olderThanMs: 60_000, quarantined: true });
        }
        const last = await inAcme("orders");
        for (const tail of tails) {
          await tail.reaches(last);
          tail.yieldedInOrder();
          assert.equal(tail.seen.length, 7, "a tail must yield what it is asked for, and nothing else");
        }
      } finally {
        for (const tail of tails) await tail.stop();
      }
    }),
  },
  {
    id: "PAGE-04",
    level: 2,
    intent:
      "a tail says how far it is behind, and that a transaction which stays open for seconds holds it up",
    run: ifTail(async (t) => {
      const [first] = await enqueuedMany(t, 1);
      const early = await t.connect();
      const tail = follow(t);
      try {
        await tail.reaches(first);
        await tail.reports("nothing to wait for", (lag) => lag.lastRowId === first && lag.heldBackMs === 0);
        const open = await early.session.begin();
        const late = await early.outbox.enqueue(open.handle, event());
        if (t.capabilities.lockScope === "database") {
          const since = await t.session.probe.now();
          await eventually(
            t.session,
            "the clock must go on",
            async () => (await t.session.probe.now()) > since + STALLED_MS * 1000,
          );
          assert.equal(tail.lag()?.heldBackMs, 0, "where one writer is open, nothing can be held back");
        } else {
          const above = await enqueued(await t.connect());
          await tail.reports(
            `row ${above.rowId} held back for ${STALLED_MS} ms`,
            (lag) => lag.cursor === first && lag.lastRowId === above.rowId && lag.heldBackMs >= STALLED_MS,
          );
        }
        assert.deepEqual(
          tail.seen,
          [first],
          "nothing may be yielded while a lower row may still be committed",
        );
        await open.commit();
        await tail.reaches(late.rowId);
        await tail.reports(
          "that it has caught up",
          (lag) => lag.cursor === lag.lastRowId && lag.cursor >= late.rowId && lag.heldBackMs === 0,
        );
        tail.yieldedInOrder();
      } finally {
        await tail.stop();
      }
    }),
  },
  {
    id: "PAGE-06",
    level: 1,
    intent: "a tail from the cursor of a snapshot that nobody wrote beside goes on with the very next event",
    run: ifTail(async (t) => {
      const reader = await t.connect();
      for (let round = 0; round < 3; round++) {
        const before = await enqueuedMany(t, 3);
        const snapshot = await reader.outbox.snapshot();
        const shown: number[] = [];
        for await (const { rowId } of snapshot) shown.push(rowId);
        assert.deepEqual(shown.slice(-3), before, "a snapshot must show what was committed before it");
        const next = await enqueued(t);
        const tail = follow(reader, { after: snapshot.cursor });
        try {
          await tail.reaches(next.rowId);
          tail.yieldedInOrder();
        } finally {
          await tail.stop();
        }
      }
    }),
  },
  {
    id: "PAGE-06",
    level: 1,
    intent:
      "a tail from the cursor of a snapshot misses nothing, also what was open while the snapshot was read",
    run: ifTail(async (t) => {
      const { session, outbox, capabilities } = t;
      await enqueuedMany(t, 3);
      const reader = await t.connect();
      const open = await session.begin();
      const late = await outbox.enqueue(open.handle, event());
      // Where a writer does not lock the others out, one commits above the row that is still open.
      if (capabilities.lockScope === "row") await enqueued(await t.connect());
      const snapshot = await reader.outbox.snapshot();
      const shown: number[] = [];
      for await (const { rowId } of snapshot) shown.push(rowId);
      await open.commit();
      const last = await enqueued(t);
      const tail = follow(reader, { after: snapshot.cursor });
      try {
        await tail.reaches(late.rowId, last.rowId);
        const known = new Set([...shown, ...tail.seen]);
        assert.deepEqual(
          [...known].sort((a, b) => a - b),
          (await session.probe.events()).map(({ rowId }) => rowId),
          "a snapshot and the tail from its cursor must show every event",
        );
        tail.yieldedInOrder();
      } finally {
        await tail.stop();
      }
    }),
  },
];

/** How long a writer stays open. */
const STALLED_MS = 2000;
/** How soon what is so must be said. */
const REPORTED_WITHIN_MS = STALLED_MS + 3000;

/** A driver without a tail has to say so. */
function ifTail(run: (t: CaseContext) => Promise<void>): (t: CaseContext) => Promise<void> {
  return async (t) => {
    if (t.capabilities.tail) return run(t);
    await enqueued(t);
    await refused("a tail that is not offered", ["UNSUPPORTED"], async () => {
      for await (const { rowId } of t.outbox.tail())
        assert.fail(`a tail that is not offered yielded row ${rowId}`);
    });
  };
}

/** What is followed, and the session that counts the time. */
interface Followed {
  readonly session: Peer["session"];
  readonly outbox: Pick<Outbox, "tail">;
}

interface Tail {
  readonly seen: readonly number[];
  /** What it said last of how far it is behind. */
  lag(): TailLag | undefined;
  /** Waits until it says so. */
  reports(what: string, expected: (lag: TailLag) => boolean): Promise<void>;
  /** Waits until the rows were yielded. */
  reaches(...rowIds: readonly (number | undefined)[]): Promise<void>;
  /** Nothing out of order, nothing twice; exactly the given rows, if any are given. */
  yieldedInOrder(rowIds?: readonly number[]): void;
  stop(): Promise<void>;
}

function follow({ session, outbox }: Followed, options: TailOptions = {}): Tail {
  const end = new AbortController();
  const seen: number[] = [];
  let failure: unknown;
  let last: TailLag | undefined;
  const onLag = (lag: TailLag): void => {
    last = lag;
  };
  const ended = read(outbox, { pollMs: 1, signal: end.signal, onLag, ...options }, seen).catch(
    (error: unknown) => {
      failure = error;
    },
  );
  return {
    seen,
    lag: () => last,
    reports: (what, expected) =>
      eventually(
        session,
        `the tail must report ${what}, reported ${JSON.stringify(last)}`,
        () => {
          assert.equal(failure, undefined, `the tail must not fail, but did with ${String(failure)}`);
          return last !== undefined && expected(last);
        },
        REPORTED_WITHIN_MS,
      ),
    async reaches(...rowIds) {
      const wanted = rowIds.join(" and ");
      await eventually(session, `the tail must yield row ${wanted}`, () => {
        assert.equal(failure, undefined, `the tail must not fail, but did with ${String(failure)}`);
        return rowIds.every((rowId) => rowId !== undefined && seen.includes(rowId));
      });
    },
    yieldedInOrder(rowIds) {
      const ascending = [...new Set(seen)].sort((a, b) => a - b);
      assert.deepEqual(seen, ascending, "the tail must yield events in row-id order, each once");
      if (rowIds !== undefined) {
        assert.deepEqual(
          seen,
          [...rowIds].sort((a, b) => a - b),
          "the tail must yield every event, also one that committed late",
        );
      }
    },
    async stop() {
      end.abort();
      await eventually(session, "the tail must end with its signal", () => isSettled(ended));
      assert.equal(
        failure,
        undefined,
        `the tail must end without an error, but failed with ${String(failure)}`,
      );
    },
  };
}

async function read(outbox: Followed["outbox"], options: TailOptions, seen: number[]): Promise<void> {
  for await (const { rowId } of outbox.tail(options)) {
    // At once: a tail that starts over would never let anything else run.
    assert.ok(
      rowId > (seen.at(-1) ?? 0),
      `row ${rowId} must be yielded in row-id order, once; after ${seen}`,
    );
    seen.push(rowId);
  }
}

async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  const pending = Symbol();
  return (await Promise.race([promise, pending])) !== pending;
}

/**
 * While row `below` is open: commits another event where the store allows that, and lets the tail look. Nothing above
 * the open row may be yielded yet, nor the open row itself.
 */
async function enqueuedAbove(t: CaseContext, below: number, tail: Tail): Promise<number | undefined> {
  // With one lock for the whole store, the open transaction is the one writer: nothing else can commit.
  const above = t.capabilities.lockScope === "row" ? (await enqueued(await t.connect())).rowId : undefined;
  await turns(t.session);
  assert.ok(!tail.seen.includes(below), `the tail must not yield row ${below}, which is not committed`);
  if (above !== undefined && above > below) {
    assert.ok(!tail.seen.includes(above), `row ${above} must wait for row ${below}, which is still open`);
  }
  return above;
}
