import assert from "node:assert/strict";
import type { Case } from "../case.ts";
import { refused, unchanged } from "./expect.ts";
import { expired, takenOver } from "./given.ts";

export const fenceCases: readonly Case[] = [
  {
    id: "FENCE-01",
    level: 1,
    intent: "a stale ack is lost while the new holder is live, and leaves the row byte-identical",
    async run(t) {
      const { session, outbox } = t;
      const { stale, live } = await takenOver(t);
      await unchanged("a stale ack", session, () => refused("a stale ack", ["LOST_CLAIM"], () => outbox.ack(stale)));
      // Only the token differs: the attempt alone must not be what stops it.
      const forged = { rowId: live.rowId, attempt: live.attempt, token: stale.token };
      await unchanged("a stale token", session, () => refused("a stale token", ["LOST_CLAIM"], () => outbox.ack(forged)));
      await outbox.ack(live);
      assert.equal((await session.probe.deliveries())[0]?.state, "delivered", "the live holder's ack must apply");
    },
  },
  {
    id: "FENCE-09",
    level: 2,
    intent: "settle(old) racing claim(new): never both",
    async run(t) {
      const { outbox, session } = t;
      let ids: readonly number[] = [];
      await t.race({
        contenders: 2,
        rounds: 20,
        async prepare() {
          const stale = await expired(t);
          ids = [stale.rowId];
          const claim = { rowId: stale.rowId, attempt: stale.attempt, token: stale.token.reveal() };
          return [
            { actor: "ack" as const, input: { claim } },
            { actor: "claim" as const, input: { worker: "w2", limit: 1, leaseMs: 60_000 } },
          ];
        },
        async check([ack, claim]) {
          assert.ok(!(ack !== undefined && "ok" in ack), "an expired claim must not settle");
          assert.ok(claim !== undefined && "ok" in claim, "the claim must succeed");
          await session.faults.expireLeases(ids);
          await outbox.ack(await outbox.claim({ worker: "cleanup" }));
        },
      });
    },
  },
];
