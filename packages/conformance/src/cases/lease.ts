import assert from "node:assert/strict";
import type { Claim, ClaimRef } from "@dovecote/core";
import type { Case, CaseContext } from "../case.ts";
import type { ProbedDelivery } from "../define-harness.ts";
import { type Answer, type ClaimJson, toJson } from "../engine/actors.ts";
import { deliveryOf, refused, unchanged } from "./expect.ts";
import { claimed, enqueued, enqueuedAndClaimed, enqueuedMany, expired, takenOver } from "./given.ts";
import { assertTime, succeedsFrom, timed, upcoming } from "./times.ts";
import { turns } from "./waiting.ts";
import { held } from "./written.ts";

const DAY_MS = 86_400_000;

export const leaseCases: readonly Case[] = [
  {
    id: "LEASE-01",
    level: 1,
    intent: "a live lease excludes every other claimer, whoever it is and however it asks",
    async run(t) {
      const { session, outbox } = t;
      const other = await t.connect();
      for (const shared of [false, true]) {
        const claim = await enqueuedAndClaimed(t, { leaseMs: DAY_MS, shared });
        await session.faults.overwriteDelivery(claim.rowId, { availableAt: 1_000_000 });
        await outbox.renew(claim, { leaseMs: 60_000 });
        for (const worker of ["w1", "w2"]) {
          for (const handle of [outbox, outbox.admin(), other.outbox, other.outbox.admin()]) {
            for (const scope of [{}, { stream: "orders" }, { shared: true }]) {
              const again = () => handle.claim({ worker, limit: 1000, leaseMs: 1000, ...scope });
              const claims = await unchanged("a claim of a leased row", session, again);
              assert.deepEqual(claims, [], "a live lease must exclude every other claimer");
            }
          }
        }
        await outbox.ack(claim);
      }
    },
  },
  {
    id: "LEASE-01",
    level: 1,
    intent: "a lease excludes others until the tick of its expiry, and ends with it",
    async run(t) {
      const { session, outbox } = t;
      for (let round = 0; round < 20; round++) {
        const first = await enqueuedAndClaimed(t);
        const moment = await upcoming(session, 5);
        await session.faults.overwriteDelivery(first.rowId, { expiresAt: moment });
        const second = await succeedsFrom("a takeover", session, moment, async () => {
          const [claim] = await outbox.claim({ worker: "w2" });
          return claim;
        });
        assert.equal(second.rowId, first.rowId, "the expired lease must be taken over");
        assert.ok(second.reclaimed, "a claim that took over an expired one must say so");
        const next = await upcoming(session, 5);
        await session.faults.overwriteDelivery(first.rowId, { expiresAt: next });
        await succeedsFrom("the end of a lease", session, next, async () => {
          const [outcome] = await outbox.renew([second], { leaseMs: 60_000 });
          if (outcome?.outcome === "lostClaim") return outcome;
          await session.faults.overwriteDelivery(first.rowId, { expiresAt: next });
          return undefined;
        });
        await outbox.ack(await claimed(outbox, { worker: "w3" }));
      }
    },
  },
  {
    id: "LEASE-02",
    level: 2,
    intent: "an expired lease is taken over by exactly one of the contenders, with a fresh token",
    async run(t) {
      let stale: readonly Claim[] = [];
      await t.race({
        contenders: 4,
        rounds: 20,
        async prepare(round) {
          // One row for all of them, or as many as they may take.
          const count = round % 2 === 0 ? 1 : 3;
          await enqueuedMany(t, count);
          stale = await t.outbox.claim({ worker: "gone", limit: count });
          await t.session.faults.expireLeases(stale.map(({ rowId }) => rowId));
          return CONTENDERS.map((worker) => claimTask(worker, count));
        },
        async check(answers) {
          const winners = answers.flatMap(granted);
          const rowIds = winners.map(({ rowId }) => rowId).sort((a, b) => a - b);
          const expected = stale.map(({ rowId }) => rowId).sort((a, b) => a - b);
          assert.deepEqual(rowIds, expected, "an expired lease must be taken over by exactly one contender");
          for (const winner of winners) {
            const old = stale.find(({ rowId }) => rowId === winner.rowId);
            assert.notEqual(winner.token, old?.token.reveal(), "a takeover must have a fresh token");
            const { attempts, token } = await deliveryOf(t.session, winner.rowId);
            assert.deepEqual([attempts, token], [2, winner.token], "the one takeover must be what is stored");
          }
          await allApplied(t, winners);
        },
      });
    },
  },
  {
    id: "LEASE-03",
    level: 1,
    intent: "renew sets the expiry to the database's time plus the lease, and changes nothing else",
    async run(t) {
      const { session, outbox } = t;
      const claim = await enqueuedAndClaimed(t, { leaseMs: 60_000, shared: true });
      // Shorter, longer, and far shorter than what is left.
      for (const [leftMs, leaseMs] of [
        [60_000, 30_000],
        [30_000, 120_000],
        [10 * 3_600_000, 30_000],
      ] as const) {
        const expiresAt = (await session.probe.now()) + leftMs * 1000;
        await session.faults.overwriteDelivery(claim.rowId, { expiresAt });
        const before = await deliveryOf(session, claim.rowId);
        const renewal = await timed(session, () => outbox.renew(claim, { leaseMs }));
        const after = await deliveryOf(session, claim.rowId);
        assertTime("the renewed expiry", after.expiresAt, renewal, leaseMs);
        assertAnswered(renewal.result.expiresAt, after);
        const { expiresAt: _, ...kept } = before;
        assert.deepEqual(
          { ...kept, expiresAt: after.expiresAt },
          after,
          "renew must change the expiry alone",
        );
      }
      const byDefault = await timed(session, () => outbox.renew([claim]));
      const row = await deliveryOf(session, claim.rowId);
      assertTime("the expiry of a renewal without a lease", row.expiresAt, byDefault, 30_000);
      const [outcome] = byDefault.result;
      assert.ok(outcome?.outcome === "applied", "renewals in a batch must apply");
      assertAnswered(outcome.expiresAt, row);
      assert.equal(row.shared, true, "a renewal must leave a shared claim shared");
      await outbox.renew(claim, { leaseMs: 30_000, shared: false });
      assert.equal(
        (await deliveryOf(session, claim.rowId)).shared,
        false,
        "a renewal may make a claim unshared",
      );
      await outbox.ack(claim);
    },
  },
  {
    id: "LEASE-04",
    level: 1,
    intent: "renew with a superseded token is lost, and leaves the row byte-identical",
    async run(t) {
      const { session, outbox } = t;
      const { stale, live } = await takenOver(t);
      // Only the token differs; only the attempt; both.
      const forged: readonly (readonly [string, ClaimRef])[] = [
        ["a superseded token", { rowId: live.rowId, attempt: live.attempt, token: stale.token }],
        ["a superseded attempt", { rowId: live.rowId, attempt: stale.attempt, token: live.token }],
        ["a superseded claim", stale],
      ];
      for (const [what, claim] of forged) {
        await unchanged(`renew with ${what}`, session, () =>
          refused(`renew with ${what}`, ["LOST_CLAIM"], () => outbox.renew(claim, { leaseMs: 60_000 })),
        );
      }
      const batch = () => outbox.renew(forged.map(([, claim]) => claim));
      assert.deepEqual(
        await unchanged("renew with superseded claims", session, batch),
        forged.map(() => ({ outcome: "lostClaim" })),
        "superseded claims must be lost in a batch too",
      );
      const mixed = await outbox.renew([stale, live], { leaseMs: 60_000 });
      assert.deepEqual(
        mixed.map(({ outcome }) => outcome),
        ["lostClaim", "applied"],
        "the live claim must be renewed beside a superseded one",
      );
    },
  },
  {
    id: "LEASE-05",
    level: 2,
    intent: "renew racing a takeover of an expired lease: the takeover wins, and renew loses",
    run: (t) =>
      renewRace(t, {
        rounds: 24,
        given: ({ rowId }) => t.session.faults.expireLeases([rowId]),
        // Where locked rows are skipped, the refused renewal may have hidden the row from every claim of the race.
        late: () => t.outbox.admin().claim({ worker: "late", limit: 1, leaseMs: 60_000 }),
        check(renewed, takeovers) {
          const lost = { refused: "LOST_CLAIM", retryable: false };
          assert.deepEqual(renewed, lost, "an expired lease must not be renewed");
          assert.equal(takeovers, 1, "exactly one takeover of the expired lease must win");
        },
      }),
  },
  {
    id: "LEASE-05",
    level: 2,
    intent: "renew racing a takeover of a live lease: renew wins, and the takeover gets nothing",
    run: (t) =>
      renewRace(t, {
        rounds: 16,
        given: async () => {},
        check(renewed, takeovers) {
          assert.deepEqual(renewed, { ok: null }, "a live lease must be renewed");
          assert.equal(takeovers, 0, "a live lease must not be taken over");
        },
      }),
  },
  {
    id: "LEASE-05",
    level: 2,
    intent: "renew racing a takeover while the lease expires: never both",
    run(t) {
      // How long the lease still lives when a round is prepared: follows the moment when the contenders act, which is
      // as late as the machine is busy. In smaller steps each time it was passed, in larger ones until it is.
      let leftMs = 32;
      let step = 2;
      let wonBefore: boolean | undefined;
      return renewRace(t, {
        rounds: 24,
        pollMs: 30,
        async given({ rowId }) {
          const expiresAt = (await t.session.probe.now()) + Math.round(leftMs * 1000);
          await t.session.faults.overwriteDelivery(rowId, { expiresAt });
        },
        check(renewed, takeovers) {
          const won = "ok" in renewed;
          if (!won) assert.equal(renewed.refused, "LOST_CLAIM", "a lease that ended is lost");
          const wins = (won ? 1 : 0) + takeovers;
          assert.ok(wins <= 1, `a renewal and a takeover of one lease must not both win, ${wins} did`);
          if (wonBefore !== undefined)
            step = wonBefore === won ? Math.min(2, step ** 1.5) : Math.max(SMALLEST_STEP, step ** 0.5);
          wonBefore = won;
          leftMs = Math.min(500, Math.max(1, won ? leftMs / step : leftMs * step));
        },
      });
    },
  },
  {
    id: "LEASE-06",
    level: 1,
    intent: "an expired lease cannot be revived, even before anybody took it over",
    async run(t) {
      const { session, outbox } = t;
      for (const shared of [false, true]) {
        const claim = await expired(t, { shared });
        // Row, attempt and token are right: only the lease is over.
        for (const options of [{}, { leaseMs: DAY_MS }, { leaseMs: 1000, shared: false }] as const) {
          await unchanged("renew of an expired lease", session, () =>
            refused("renew of an expired lease", ["LOST_CLAIM"], () => outbox.renew(claim, options)),
          );
          const batch = () => outbox.admin().renew([claim], options);
          assert.deepEqual(
            await unchanged("renew of an expired lease", session, batch),
            [{ outcome: "lostClaim" }],
            "an expired lease must be lost in a batch too",
          );
        }
        const taken = await claimed(outbox, { worker: "w2" });
        assert.equal(taken.rowId, claim.rowId, "an expired lease must stay free to be taken over");
        await outbox.ack(taken);
      }
    },
  },
  {
    id: "LEASE-06",
    level: 1,
    intent: "a claim that expires while its renewal waits for a lock is not renewed",
    async run(t) {
      const { session, outbox } = t;
      const claim = await enqueuedAndClaimed(t, { leaseMs: 300 });
      const { expiresAt } = await deliveryOf(session, claim.rowId);
      assert.ok(expiresAt !== null, "a claimed row must have an expiry");
      const lock = await session.faults.holdLock(claim.rowId);
      let renewal: Promise<unknown>;
      let whileLocked: ProbedDelivery;
      try {
        renewal = held(outbox.renew(claim, { leaseMs: 60_000 }));
        while ((await session.probe.now()) <= expiresAt) await turns(session, 1);
        whileLocked = await deliveryOf(session, claim.rowId);
      } finally {
        await lock.release();
      }
      if (whileLocked.expiresAt === expiresAt) {
        const what = "the renewal of a claim that expired while it waited";
        await refused(what, ["LOST_CLAIM"], () => renewal);
        assert.deepEqual(
          await deliveryOf(session, claim.rowId),
          whileLocked,
          `${what} must leave the row byte-identical`,
        );
      } else {
        // A store that locks nothing for longer than a step has renewed it in time.
        await renewal;
      }
    },
  },
  {
    id: "LEASE-07",
    level: 1,
    intent: "the length of a lease is honoured per call, and none is misread",
    async run(t) {
      const { session, outbox } = t;
      for (const leaseMs of [1, 7, 1000, 30_000, 7_654_321, DAY_MS]) {
        await enqueued(t);
        const claim = await timed(session, () => outbox.claim({ worker: "w1", leaseMs }));
        const [first] = claim.result;
        assert.ok(first !== undefined, "one event must be claimable");
        const row = await deliveryOf(session, first.rowId);
        assertTime(`the expiry of a lease of ${leaseMs} ms`, row.expiresAt, claim, leaseMs);
        assertAnswered(first.expiresAt, row);
        await session.faults.overwriteDelivery(first.rowId, { expiresAt: claim.to + 60_000_000 });
        const renewal = await timed(session, () => outbox.renew(first, { leaseMs }));
        const renewed = await deliveryOf(session, first.rowId);
        assertTime(`the expiry of a renewal by ${leaseMs} ms`, renewed.expiresAt, renewal, leaseMs);
        await session.faults.overwriteDelivery(first.rowId, { expiresAt: claim.to + 60_000_000 });
        await outbox.ack(first);
      }
      await enqueued(t);
      const byDefault = await timed(session, () => outbox.claim({ worker: "w1" }));
      const [live] = byDefault.result;
      assert.ok(live !== undefined, "one event must be claimable");
      const { expiresAt } = await deliveryOf(session, live.rowId);
      assertTime("the expiry of a claim without a lease", expiresAt, byDefault, 30_000);
      await enqueued(t);
      for (const leaseMs of [0, -1, 1.5, DAY_MS + 1, Number.NaN, Number.POSITIVE_INFINITY]) {
        for (const call of [
          () => outbox.claim({ worker: "w1", leaseMs }),
          () => outbox.renew(live, { leaseMs }),
        ]) {
          await unchanged(`a lease of ${leaseMs} ms`, session, () =>
            refused(`a lease of ${leaseMs} ms`, ["INVALID_ARGUMENT"], call),
          );
        }
      }
    },
  },
];

const CONTENDERS = ["a", "b", "c", "d"] as const;

interface ClaimTask {
  readonly actor: "claim";
  readonly input: { worker: string; limit: number; leaseMs: number };
}

function claimTask(worker: string, limit: number): ClaimTask {
  return { actor: "claim", input: { worker, limit, leaseMs: 60_000 } };
}

function granted(answer: Answer<readonly ClaimJson[]>): readonly ClaimJson[] {
  assert.ok("ok" in answer, `a claim must not be refused: ${JSON.stringify(answer)}`);
  return answer.ok;
}

const SMALLEST_STEP = 1.03;

interface RenewRace {
  readonly rounds: number;
  /** How long those who would take the claim over ask for it, again and again; they ask once if it is absent. */
  readonly pollMs?: number;
  /** Decides how the lease stands when the contenders act. */
  given(claim: Claim): Promise<void>;
  /** Once more, for when no claim of the race had the row. */
  late?(): Promise<readonly Claim[]>;
  check(renewed: Answer<null>, takeovers: number): void;
}

/** One contender renews a claim, three would take it over. */
async function renewRace(t: CaseContext, { rounds, pollMs, given, late, check }: RenewRace): Promise<void> {
  let claim: Claim | undefined;
  await t.race<"renew" | "claim" | "poll">({
    contenders: CONTENDERS.length,
    rounds,
    async prepare(round) {
      claim = await enqueuedAndClaimed(t);
      // For who cannot have that event: a claim that finds nothing is over before the others have begun.
      if (pollMs === undefined) await enqueuedMany(t, CONTENDERS.length);
      await given(claim);
      const ref = { rowId: claim.rowId, attempt: claim.attempt, token: claim.token.reveal() };
      return CONTENDERS.map((worker, index) =>
        index === round % CONTENDERS.length
          ? { actor: "renew" as const, input: { claim: ref, leaseMs: 60_000 } }
          : pollMs === undefined
            ? claimTask(worker, 1)
            : { actor: "poll" as const, input: { ...claimTask(worker, 1).input, forMs: pollMs } },
      );
    },
    async check(answers, round) {
      assert.ok(claim !== undefined, "a round must be prepared before it is checked");
      const { rowId, token } = claim;
      const at = round % CONTENDERS.length;
      const claims = answers.filter((_, index) => index !== at) as Answer<readonly ClaimJson[]>[];
      const isIts = (each: ClaimJson): boolean => each.rowId === rowId;
      const takeovers = claims.flatMap(granted).filter(isIts);
      if (takeovers.length === 0 && late !== undefined) {
        takeovers.push(...(await late()).map(toJson).filter(isIts));
      }
      check(answers[at] as Answer<null>, takeovers.length);
      const holder = takeovers[0]?.token ?? token.reveal();
      const row = await deliveryOf(t.session, rowId);
      assert.equal(row.token, holder, "the row must hold the token of the one that won");
      const left = (await t.session.probe.deliveries()).filter(({ state }) => state !== "delivered");
      await t.session.faults.expireLeases(left.map((each) => each.rowId));
      await allApplied(t, await t.outbox.claim({ worker: "cleanup" }));
    },
  });
}

async function allApplied({ outbox }: CaseContext, claims: readonly ClaimRef[]): Promise<void> {
  const outcomes = await outbox.ack(claims);
  assert.ok(
    outcomes.every(({ outcome }) => outcome === "applied"),
    `live claims must settle: ${JSON.stringify(outcomes)}`,
  );
}

/** The date that a caller gets is the stored expiry, rounded down to the millisecond. */
function assertAnswered(answered: Date, row: ProbedDelivery): void {
  const stored = Math.floor((row.expiresAt ?? Number.NaN) / 1000);
  assert.equal(answered.getTime(), stored, "the answered expiry must be the stored one");
}
