import assert from "node:assert/strict";
import type { Case, CaseContext } from "../case.ts";
import { refused } from "./expect.ts";
import { claimed, enqueued, event } from "./given.ts";
import { eventually, turns } from "./waiting.ts";

const notifying: readonly Case[] = [
  {
    id: "WAKE-01",
    level: 2,
    intent: "a wake-up arrives after the commit, in the application's transaction and in ours",
    async run(t) {
      const { session, outbox } = t;
      const bell = await listen(t);
      const tx = await session.begin();
      await outbox.enqueue(tx.handle, event());
      await turns(session);
      assert.equal(bell.rings(), 0, "a wake-up must not arrive before the commit");
      await tx.commit();
      await bell.mustRing("a commit of the application's own transaction");
      assert.equal((await outbox.stats()).due.count, 1, "when the wake-up arrives, the event must be due");
      await quiet(t, bell);
      await outbox.transaction((own) => outbox.enqueue(own, event()));
      await bell.mustRing("a commit of the store's own transaction");
      await quiet(t, bell);
      await outbox.ack(await outbox.claim({ worker: "w1" }));
      await bell.end();
    },
  },
  {
    id: "WAKE-01",
    level: 2,
    intent: "a wake-up never arrives on rollback, and does for the commit that follows",
    async run(t) {
      const { session, outbox } = t;
      const bell = await listen(t);
      const rollbacks: readonly (() => Promise<unknown>)[] = [
        async () => {
          const tx = await session.begin();
          await outbox.enqueue(tx.handle, event());
          await tx.rollback();
        },
        () =>
          assert.rejects(
            () => session.transaction((tx) => thenThrow(outbox.enqueue(tx.handle, event()))),
            GAVE_UP,
          ),
        () =>
          assert.rejects(() => outbox.transaction((tx) => thenThrow(outbox.enqueue(tx, event()))), GAVE_UP),
      ];
      for (const rollback of rollbacks) {
        await rollback();
        await turns(session);
        assert.equal(bell.rings(), 0, "a wake-up must not arrive on rollback");
      }
      await enqueued(t);
      await bell.mustRing("the commit that follows rollbacks");
      await bell.end();
    },
  },
  {
    id: "WAKE-01",
    level: 2,
    intent: "a commit on another connection and in another process wakes, too",
    async run(t) {
      const { outbox } = t;
      const other = await t.connect();
      const bell = await listen(t);
      await enqueued(other);
      await bell.mustRing("a commit on another connection");
      await quiet(t, bell);
      const { rounds } = await t.race({
        contenders: 2,
        rounds: 1,
        // What matters is not the race, but that both are other processes.
        async prepare(round) {
          return ["a", "b"].map((name) => {
            const input = { source: "/race", id: `${name}-${round}`, data: "x" };
            return { actor: "enqueue" as const, input };
          });
        },
        async check(answers) {
          assert.ok(
            answers.every((answer) => "ok" in answer),
            `another process must be able to enqueue, got ${JSON.stringify(answers)}`,
          );
        },
      });
      await bell.mustRing("a commit in another process");
      const claims = await outbox.claim({ worker: "w1", limit: 1000 });
      assert.equal(claims.length, 2 * rounds + 1, "a poll must find what other processes committed");
      await bell.end();
    },
  },
  {
    id: "WAKE-01",
    level: 2,
    intent: "a subscription that was closed is silent, others are not, and polling needs none",
    async run(t) {
      const { session, outbox } = t;
      const [ended, going] = [await listen(t), await listen(t)];
      await ended.end();
      await ended.end();
      await enqueued(t);
      await going.mustRing("a commit after another subscription was closed");
      await turns(session);
      assert.equal(ended.rings(), 0, "a subscription that was closed must be silent");
      await going.end();
      await outbox.ack(await claimed(outbox));
      await enqueued(t);
      await outbox.ack(await claimed(outbox));
    },
  },
  {
    id: "WAKE-02",
    level: 3,
    intent: "a subscriber whose connection dies silently is woken again within 15 s, for what it missed, too",
    async run(t) {
      const { session, capabilities } = t;
      const other = await t.connect();
      const bell = await listen(t);
      await enqueued(other);
      await bell.mustRing("a commit before the connection dies");
      await quiet(t, bell);
      if (capabilities.serverSide) await session.faults.silenceListeners();
      else await (await t.connect()).outbox.close();
      await enqueued(other);
      await bell.mustRing("a commit that a silent connection did not hear of");
      await quiet(t, bell);
      await enqueued(other);
      await bell.mustRing("a commit after the connection was made again");
      await bell.end();
    },
  },
  {
    id: "WAKE-02",
    level: 3,
    intent: "subscribers are woken again after every connection was severed, also those that share one",
    async run(t) {
      const { session, capabilities } = t;
      const other = await t.connect();
      const bells = [await listen(t), await listen(t)];
      for (let round = 1; round <= 3; round++) {
        if (capabilities.serverSide) await session.faults.severConnections();
        await enqueued(other);
        for (const bell of bells) {
          await bell.mustRing(`a commit after connections were severed for the ${round}. time`);
          await quiet(t, bell);
        }
      }
      for (const bell of bells) await bell.end();
    },
  },
];

/** A driver that cannot wake says so, instead of never calling. */
export const wakeCases: readonly Case[] = notifying.map((each) => ({
  ...each,
  async run(t) {
    if (t.capabilities.notify) await each.run(t);
    else await refused("subscribe without notify", ["UNSUPPORTED"], () => t.outbox.subscribe(() => {}));
  },
}));

const GAVE_UP = new Error("the application gave up");

/** What makes a transaction's callback fail after its enqueue, on a synchronous driver as on another. */
function thenThrow(answer: unknown): unknown {
  if (!(answer instanceof Promise)) throw GAVE_UP;
  return answer.then(() => {
    throw GAVE_UP;
  });
}

interface Bell {
  rings(): number;
  /** Forgets what rang so far. */
  reset(): void;
  mustRing(why: string): Promise<void>;
  end(): Promise<void>;
}

async function listen({ session, outbox }: CaseContext): Promise<Bell> {
  let rings = 0;
  const subscription = await outbox.subscribe((...payload: readonly unknown[]) => {
    rings += 1;
    assert.deepEqual(payload, [], "a wake-up must have an empty payload");
  });
  return {
    rings: () => rings,
    reset: () => {
      rings = 0;
    },
    mustRing: (why) => eventually(session, `${why} must wake the subscriber`, () => rings > 0),
    end: () => subscription.close(),
  };
}

/** Lets late repetitions of a wake-up arrive, which are allowed, and forgets them. */
async function quiet({ session }: CaseContext, bell: Bell): Promise<void> {
  await turns(session);
  bell.reset();
}
