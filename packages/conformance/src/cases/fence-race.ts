import assert from "node:assert/strict";
import type { Claim } from "@dovecote/core";
import type { Case, CaseContext } from "../case.ts";
import type { ProbedDelivery } from "../define-harness.ts";
import type { ClaimJson } from "../engine/actors.ts";
import { deliveryOf, refused } from "./expect.ts";
import { enqueued, enqueuedAndClaimed, expired } from "./given.ts";
import { turns } from "./waiting.ts";
import { held } from "./written.ts";

const HOUR_US = 3600 * 1_000_000;
const BOTH_WAIT_US = 80_000;

export const fenceRaceCases: readonly Case[] = [
  {
    id: "FENCE-09",
    level: 2,
    intent: "settle(old) racing claim(new) after the expiry: the claim wins, always",
    async run(t) {
      const { session } = t;
      let rowId = 0;
      await t.race({
        contenders: 2,
        rounds: 20,
        async prepare() {
          const stale = await expired(t);
          rowId = stale.rowId;
          return [
            { actor: "ack" as const, input: { claim: toJson(stale) } },
            { actor: "claim" as const, input: { worker: "w2", limit: 1, leaseMs: 60_000 } },
          ];
        },
        async check([ack, claim]) {
          assert.ok(ack !== undefined && "refused" in ack, "an expired claim must not settle");
          assert.equal(ack.refused, "LOST_CLAIM", "an expired claim that raced its takeover must be lost");
          // Where locked rows are skipped, the refused settle may have hidden the row from that claim.
          const again = await t.outbox.admin().claim({ worker: "w2", limit: 1 });
          const [winner, ...others] = [...claimsIn(claim), ...again.map(toJson)];
          assert.deepEqual(others, [], "an expired claim must be taken over once");
          assert.equal(winner?.rowId, rowId, "the claim must take the expired row over");
          const row = await deliveryOf(session, rowId);
          assert.equal(row.token, winner?.token, "the row must be held by the claim that won");
          await finish(t, rowId);
        },
      });
    },
  },
  {
    id: "FENCE-09",
    level: 2,
    intent: "a settle that waits for a lock past its expiry, beside a claim: the claim wins, never both",
    async run(t) {
      const { session } = t;
      const [settler, claimer] = [await t.connect(), await t.connect()];
      for (let round = 0; round < 10; round++) {
        const old = await enqueuedAndClaimed(t, { leaseMs: 100 });
        const { expiresAt } = await deliveryOf(session, old.rowId);
        assert.ok(expiresAt !== null, "a claimed row must have an expiry");
        const lock = await session.faults.holdLock(old.rowId);
        let ack: Promise<void>;
        let claim: Promise<readonly Claim[]>;
        let whileLocked: ProbedDelivery;
        try {
          // Begun while the lease lives, so that whatever is only looked at before the wait looks well.
          ack = held(settler.outbox.ack(old));
          while ((await session.probe.now()) <= expiresAt) await turns(session, 1);
          whileLocked = await deliveryOf(session, old.rowId);
          claim = held(claimer.outbox.claim({ worker: "w2" }));
          // Both have waited for so long that either may be the next: who tries again in growing steps has grown.
          const both = (await session.probe.now()) + BOTH_WAIT_US;
          while ((await session.probe.now()) <= both) await turns(session, 1);
        } finally {
          await lock.release();
        }
        // Where locked rows are skipped, the first claim came back empty, and so would one beside the settle.
        await Promise.allSettled([ack, claim]);
        const claims = [...(await claim), ...(await claimer.outbox.claim({ worker: "w2" }))];
        if (whileLocked.state === "claimed") {
          await refused("settle(old) beside claim(new)", ["LOST_CLAIM"], () => ack);
          assert.equal(claims.length, 1, "an expired claim must be taken over once");
          const row = await deliveryOf(session, old.rowId);
          assert.equal(row.token, claims[0]?.token.reveal(), "the row must be held by the claim that won");
        } else {
          // Nothing held the settle up: it was in time.
          await ack;
          assert.deepEqual(claims, [], "settle(old) and claim(new) must never both succeed");
        }
        await finish(t, old.rowId);
      }
    },
  },
  {
    id: "FENCE-10",
    level: 2,
    intent: "prune racing redrive of a quarantined row: one of them, never both",
    async run(t) {
      const { session } = t;
      let rowId = 0;
      await t.race({
        contenders: 3,
        rounds: 20,
        async prepare() {
          rowId = await quarantined(t);
          const longAgo = (await session.probe.now()) - HOUR_US;
          await session.faults.overwriteDelivery(rowId, { quarantinedAt: longAgo });
          const prune = { actor: "prune" as const, input: { olderThanMs: 60_000, quarantined: true } };
          return [prune, { actor: "redrive" as const, input: { rowId } }, prune];
        },
        async check([one, redrive, other]) {
          const pruned = prunedIn(one) + prunedIn(other);
          const stored = (await session.probe.events()).some((event) => event.rowId === rowId);
          if (redrive !== undefined && "ok" in redrive) {
            assert.equal(pruned, 0, "prune must not remove a row that was redriven");
            assert.ok(stored, "the event of a redriven row must stay");
            assert.equal(
              (await deliveryOf(session, rowId)).state,
              "pending",
              "a redriven row must be pending",
            );
            await finish(t, rowId);
          } else {
            assert.equal(redrive?.refused, "NOT_FOUND", "the redrive of a pruned row must find none");
            assert.equal(pruned, 1, "two prunes must remove a row once");
            assert.ok(!stored, "the event of a pruned row must be gone");
          }
        },
      });
    },
  },
  {
    id: "FENCE-10",
    level: 2,
    intent: "redrives racing each other and a claim: one applies, and the claim stays whole",
    async run(t) {
      const { session } = t;
      let rowId = 0;
      await t.race({
        contenders: 3,
        rounds: 20,
        async prepare() {
          rowId = await quarantined(t);
          const redrive = { actor: "redrive" as const, input: { rowId } };
          return [
            redrive,
            { actor: "claim" as const, input: { worker: "w2", limit: 1, leaseMs: 60_000 } },
            redrive,
          ];
        },
        async check([one, claim, other]) {
          const redrives = [one, other];
          const applied = redrives.filter((answer) => answer !== undefined && "ok" in answer);
          assert.equal(applied.length, 1, "exactly one redrive of a row must apply");
          for (const answer of redrives) {
            if (answer !== undefined && "refused" in answer) {
              assert.equal(
                answer.refused,
                "ILLEGAL_TRANSITION",
                "the other redrive must find the row changed",
              );
            }
          }
          const [winner] = claimsIn(claim);
          const row = await deliveryOf(session, rowId);
          assert.equal(
            row.state,
            winner === undefined ? "pending" : "claimed",
            "a late redrive must not end a claim",
          );
          assert.equal(row.token, winner?.token ?? null, "a late redrive must not touch a claim");
          await finish(t, rowId);
        },
      });
    },
  },
  {
    id: "FENCE-10",
    level: 2,
    intent: "an operator's quarantine racing a claim: one of them, never both",
    async run(t) {
      const { session, outbox } = t;
      const operator = await t.connect();
      for (let round = 0; round < 20; round++) {
        const { rowId } = await enqueued(t);
        const [claims, quarantine] = await Promise.allSettled([
          outbox.claim({ worker: "w1" }),
          operator.outbox.quarantine(rowId, { reason: "by an operator" }),
        ]);
        assert.equal(claims.status, "fulfilled", "a claim that races a quarantine must not fail");
        const taken = claims.status === "fulfilled" ? claims.value : [];
        const row = await deliveryOf(session, rowId);
        if (quarantine.status === "fulfilled") {
          assert.deepEqual(taken, [], "a row that an operator quarantined must not be claimed, too");
          assert.equal(row.state, "quarantined", "an applied quarantine must be stored");
        } else {
          assert.equal(
            quarantine.reason.code,
            "ILLEGAL_TRANSITION",
            "the quarantine must find the row claimed",
          );
          assert.equal(row.token, taken[0]?.token.reveal(), "a refused quarantine must not touch the claim");
          await outbox.ack(taken);
        }
      }
    },
  },
];

function toJson(claim: { rowId: number; attempt: number; token: { reveal(): string } }): ClaimJson {
  return { rowId: claim.rowId, attempt: claim.attempt, token: claim.token.reveal() };
}

type Answered = { readonly ok: unknown } | { readonly refused: string } | undefined;

function claimsIn(answer: Answered): readonly ClaimJson[] {
  assert.ok(answer !== undefined && "ok" in answer, "a claim must not fail");
  return answer.ok as readonly ClaimJson[];
}

function prunedIn(answer: Answered): number {
  assert.ok(answer !== undefined && "ok" in answer, "a prune must not fail");
  return answer.ok as number;
}

async function quarantined(t: CaseContext): Promise<number> {
  const claim = await enqueuedAndClaimed(t);
  await t.outbox.quarantine(claim, { reason: "gave up" });
  return claim.rowId;
}

/** Takes the row of a round out of the way of the next one. */
async function finish(t: CaseContext, rowId: number): Promise<void> {
  await t.session.faults.expireLeases([rowId]);
  const claims = await t.outbox.claim({ worker: "cleanup" });
  if (claims.length > 0) await t.outbox.ack(claims);
}
