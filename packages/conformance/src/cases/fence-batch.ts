import assert from "node:assert/strict";
import type { Claim, ClaimRef, Settlement } from "@dovecote/core";
import type { Case, Outbox } from "../case.ts";
import { deliveryOf } from "./expect.ts";
import { claimed, enqueuedAndClaimed, enqueuedMany, takenOver } from "./given.ts";
import { FAILURE, SETTLINGS } from "./settling.ts";

const APPLIED = { outcome: "applied" };
const LOST = { outcome: "lostClaim" };
const NOT_FOUND = { outcome: "notFound" };
const illegal = (state: string) => ({ outcome: "illegalTransition", state });

export const fenceBatchCases: readonly Case[] = [
  {
    id: "FENCE-08",
    level: 1,
    intent: "a mixed batch answers in input order, and what is valid settles although others are stale",
    async run(t) {
      const { session, outbox } = t;
      await enqueuedMany(t, 9);
      const [a, b, c, d, e, f, g, h, i] = (await outbox.claim({ worker: "w1", limit: 9 })) as NineClaims;
      await session.faults.expireLeases([c.rowId, d.rowId]);
      const taken = await outbox.claim({ worker: "w2", limit: 2 });
      assert.deepEqual(rowIds(taken), rowIds([c, d]), "the two expired claims must be taken over");
      await outbox.ack(e);
      await outbox.release(h);
      const before = await session.probe.deliveries();
      const liveAttempt = { rowId: d.rowId, attempt: d.attempt + 1, token: d.token };
      // Neither in the order of row ids nor with the valid ones first.
      const batch: readonly Settlement[] = [
        { action: "ack", claim: c },
        { action: "retry", claim: g, failure: FAILURE },
        { action: "quarantine", claim: h.rowId, reason: "by an operator" },
        { action: "ack", claim: e },
        { action: "release", claim: b },
        { action: "ack", claim: { ...ref(a), rowId: i.rowId + 1_000_000 } },
        { action: "release", claim: liveAttempt },
        { action: "quarantine", claim: e.rowId, reason: "by an operator" },
        { action: "quarantine", claim: f, reason: "gave up" },
        { action: "retry", claim: { ...ref(i), token: a.token }, failure: FAILURE },
        { action: "ack", claim: a },
      ];
      assert.deepEqual(
        await outbox.settle(batch),
        [
          LOST,
          APPLIED,
          APPLIED,
          illegal("delivered"),
          APPLIED,
          NOT_FOUND,
          LOST,
          illegal("delivered"),
          APPLIED,
          LOST,
          APPLIED,
        ],
        "a mixed batch must answer one outcome per item, in input order",
      );
      const states: readonly (readonly [Claim, string])[] = [
        [a, "delivered"],
        [b, "pending"],
        [f, "quarantined"],
        [g, "pending"],
        [h, "quarantined"],
      ];
      for (const [{ rowId }, state] of states) {
        assert.equal(
          (await deliveryOf(session, rowId)).state,
          state,
          "a valid item must settle in a mixed batch",
        );
      }
      for (const { rowId } of [c, d, e, i]) {
        assert.deepEqual(
          await deliveryOf(session, rowId),
          before.find((row) => row.rowId === rowId),
          "a refused item of a mixed batch must leave its row byte-identical",
        );
      }
    },
  },
  {
    id: "FENCE-08",
    level: 1,
    intent: "a list of claims with a stale one in the middle settles the others",
    async run(t) {
      const { session, outbox } = t;
      for (const { name, many, state } of SETTLINGS) {
        const { stale, live } = await takenOver(t);
        const [first, last] = [await enqueuedAndClaimed(t), await enqueuedAndClaimed(t)];
        const held = await deliveryOf(session, live.rowId);
        assert.deepEqual(
          await many(outbox, [last, stale, first]),
          [APPLIED, LOST, APPLIED],
          `a list of ${name} must answer in input order`,
        );
        for (const { rowId } of [first, last]) {
          assert.equal(
            (await deliveryOf(session, rowId)).state,
            state,
            `a valid ${name} must apply beside a stale one`,
          );
        }
        assert.deepEqual(
          await deliveryOf(session, live.rowId),
          held,
          `a stale ${name} in a list must leave the row byte-identical`,
        );
        await outbox.ack(live);
      }
    },
  },
  {
    id: "FENCE-12",
    level: 1,
    intent: "a batch that names a row more than once is judged in input order, as if sent singly",
    async run(t) {
      const { session, outbox } = t;
      for (const { what, batch, outcomes, state } of REPEATS) {
        const { stale, live } = await takenOver(t);
        assert.deepEqual(
          await outbox.settle(batch(live, stale)),
          outcomes,
          `${what}: a repeated row must be judged in input order`,
        );
        assert.equal(
          (await deliveryOf(session, live.rowId)).state,
          state,
          `${what}: the row must be where the items, sent singly, would leave it`,
        );
        await finish(outbox, live.rowId, state);
      }
    },
  },
  {
    id: "FENCE-12",
    level: 1,
    intent: "a list of one claim twice settles once, and renews twice",
    async run(t) {
      const { outbox } = t;
      for (const { name, many, state } of SETTLINGS) {
        const claim = await enqueuedAndClaimed(t);
        assert.deepEqual(
          await many(outbox, [claim, claim]),
          [APPLIED, illegal(state)],
          `${name} of one claim twice must apply once`,
        );
      }
      const claim = await enqueuedAndClaimed(t);
      const renewed = await outbox.renew([claim, claim], { leaseMs: 60_000 });
      assert.deepEqual(
        renewed.map(({ outcome }) => outcome),
        ["applied", "applied"],
        "a renewal does not end the claim: both must apply",
      );
    },
  },
];

type NineClaims = readonly [Claim, Claim, Claim, Claim, Claim, Claim, Claim, Claim, Claim];

interface Repeat {
  readonly what: string;
  readonly batch: (live: Claim, stale: Claim) => readonly Settlement[];
  readonly outcomes: readonly object[];
  readonly state: string;
}

const REPEATS: readonly Repeat[] = [
  {
    what: "release, then ack",
    batch: (live) => [
      { action: "release", claim: live },
      { action: "ack", claim: live },
    ],
    outcomes: [APPLIED, illegal("pending")],
    state: "pending",
  },
  {
    what: "ack, then release, then quarantine",
    batch: (live) => [
      { action: "ack", claim: live },
      { action: "release", claim: live },
      { action: "quarantine", claim: live, reason: "too late" },
    ],
    outcomes: [APPLIED, illegal("delivered"), illegal("delivered")],
    state: "delivered",
  },
  {
    what: "a stale ack, then the live one, then the stale one again",
    batch: (live, stale) => [
      { action: "ack", claim: stale },
      { action: "ack", claim: live },
      { action: "ack", claim: stale },
    ],
    outcomes: [LOST, APPLIED, illegal("delivered")],
    state: "delivered",
  },
  {
    what: "retry, then an operator's quarantine, twice",
    batch: (live) => [
      { action: "retry", claim: live, failure: FAILURE },
      { action: "quarantine", claim: live.rowId, reason: "by an operator" },
      { action: "quarantine", claim: live.rowId, reason: "by another" },
    ],
    outcomes: [APPLIED, APPLIED, illegal("quarantined")],
    state: "quarantined",
  },
  {
    what: "an operator's quarantine, then release",
    batch: (live) => [
      { action: "quarantine", claim: live.rowId, reason: "by an operator" },
      { action: "release", claim: live },
    ],
    outcomes: [illegal("claimed"), APPLIED],
    state: "pending",
  },
];

function ref({ rowId, attempt, token }: ClaimRef): ClaimRef {
  return { rowId, attempt, token };
}

function rowIds(claims: readonly Claim[]): readonly number[] {
  return claims.map(({ rowId }) => rowId).sort((a, b) => a - b);
}

/** Takes a row that is still pending out of the way of the next one. */
async function finish(outbox: Outbox, rowId: number, state: string): Promise<void> {
  if (state !== "pending") return;
  const claim = await claimed(outbox);
  assert.equal(claim.rowId, rowId, "a released row must be claimable");
  await outbox.ack(claim);
}
