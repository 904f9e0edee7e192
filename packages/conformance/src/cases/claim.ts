import assert from "node:assert/strict";
import { type Claim, isDecoded } from "@dovecote/core";
import type { Case } from "../case.ts";
import type { Answer, ClaimJson } from "../engine/actors.ts";
import { claimEntropyCases } from "./claim-entropy.ts";
import { claimLockCases } from "./claim-locks.ts";
import { claimOrderCases } from "./claim-order.ts";
import { deliveryOf, refused, unchanged } from "./expect.ts";
import { claimed, enqueued, enqueuedMany, event } from "./given.ts";
import { succeedsFrom, timed, upcoming } from "./times.ts";

const HOUR = 3_600_000_000;
const MAX_ATTEMPT = 2_147_483_647;

const singleCases: readonly Case[] = [
  {
    id: "CLAIM-01",
    level: 1,
    intent: "never more than `limit` rows become claimed, in the table, however many are due",
    async run(t) {
      const { session, outbox } = t;
      const ids: number[] = [];
      for (const count of [1000, 1000, 500]) ids.push(...(await enqueuedMany(t, count)));
      const check = async (worker: string, limit: number, what: string): Promise<void> => {
        const claims = await outbox.claim({ worker, limit, leaseMs: 60_000 });
        const held = (await session.probe.deliveries()).filter((row) => row.worker === worker);
        assert.ok(
          held.length <= limit,
          `a claim with limit ${limit} must not claim more than that, but got ${held.length} ${what} rows`,
        );
        assert.equal(
          held.length,
          limit,
          `a claim with limit ${limit} must claim so many of more ${what} rows`,
        );
        const answered = claims.map(({ rowId }) => rowId).sort((a, b) => a - b);
        const written = held.map(({ rowId }) => rowId);
        assert.deepEqual(answered, written, "a claim must answer exactly the rows that became claimed");
      };
      for (const [step, limit] of [1, 3, 1000, 1000, 3, 1].entries())
        await check(`p${step}`, limit, "pending");
      // Fewer than 1000 pending rows are left, beside far more expired ones: neither may add to the other.
      await session.faults.expireLeases(ids.slice(0, 1500));
      for (const [step, limit] of [1, 3, 2, 1000].entries()) await check(`m${step}`, limit, "mixed");
      const ten = await outbox.claim({ worker: "default" });
      assert.equal(ten.length, 10, "the limit is 10 when none is given");
    },
  },
  {
    id: "CLAIM-02",
    level: 1,
    intent: "a claim is committed before `claim` returns",
    async run(t) {
      const ids = await enqueuedMany(t, 3);
      const other = await t.connect();
      for (const shared of [false, true]) {
        const claims = await t.outbox.claim({ worker: "w1", limit: 3, leaseMs: 60_000, shared });
        const rows = await t.session.probe.deliveries();
        assert.deepEqual(
          rows.map(({ rowId, state, worker }) => ({ rowId, state, worker })),
          ids.map((rowId) => ({ rowId, state: "claimed", worker: "w1" })),
          "what `claim` answered must be committed when it answers",
        );
        for (const claim of claims) {
          const row = rows.find(({ rowId }) => rowId === claim.rowId);
          assert.deepEqual(
            [claim.attempt, claim.forgiven, claim.token.reveal(), claim.expiresAt.getTime()],
            [row?.attempts, row?.forgiven, row?.token, Math.floor(Number(row?.expiresAt) / 1000)],
            "a claim must answer what is stored",
          );
          assert.equal(row?.shared, shared, "whether a claim is shared must be stored");
        }
        // Another connection is held to the claim, and can end it with what it was told.
        assert.deepEqual(
          await other.outbox.claim({ worker: "w2" }),
          [],
          "a committed claim must bind everybody",
        );
        const outcomes = await other.outbox.release(claims);
        assert.ok(
          outcomes.length === 3 && outcomes.every(({ outcome }) => outcome === "applied"),
          "another connection must be able to end a committed claim",
        );
      }
    },
  },
  {
    id: "CLAIM-03",
    level: 2,
    intent: "processes that drain events together claim each of them once: no event has two live claims",
    async run(t) {
      let ids: readonly number[] = [];
      const onceEach = (claims: readonly ClaimJson[]): void => {
        const rowIds = claims.map(({ rowId }) => rowId).sort((a, b) => a - b);
        const twice = rowIds.filter((rowId, index) => rowId === rowIds[index - 1]);
        assert.deepEqual(twice, [], "no event may be claimed twice while its lease lives");
        assert.deepEqual(rowIds, ids, "every event must be claimed once by one of the processes");
        assert.ok(
          claims.every(({ attempt }) => attempt === 1),
          "an event that is claimed once is at its first attempt",
        );
        assert.equal(new Set(claims.map(({ token }) => token)).size, ids.length, "tokens must be distinct");
      };
      const tasks = <Name extends "claim" | "drain">(actor: Name, limit: number) =>
        ["a", "b", "c", "d"].map((worker) => ({ actor, input: { worker, limit, leaseMs: 60_000 } }));
      await t.race<"claim">({
        contenders: 4,
        rounds: 10,
        async prepare() {
          ids = await enqueuedMany(t, 6);
          return tasks("claim", 3);
        },
        async check(answers) {
          const claims = answers.flatMap(granted);
          // Where locked rows are skipped, some may be left over.
          const rest = (await t.outbox.claim({ worker: "rest" })).map(toJson);
          onceEach([...claims, ...rest]);
          await t.outbox.ack([...claims, ...rest]);
        },
      });
      await t.race<"drain">({
        contenders: 4,
        rounds: 4,
        async prepare() {
          ids = await enqueuedMany(t, 60);
          return tasks("drain", 3);
        },
        async check(answers) {
          onceEach(answers.flatMap(granted));
          const left = (await t.session.probe.deliveries()).filter(({ state }) => state !== "delivered");
          assert.deepEqual(left, [], "every event that was claimed and acked must be delivered");
        },
      });
    },
  },
  {
    id: "CLAIM-05",
    level: 1,
    intent: "an event is claimed from the tick of its availability on, and not before",
    async run(t) {
      const { session, outbox } = t;
      const later = await enqueued(t, event(), { delayMs: 3_600_000 });
      const none = () => outbox.claim({ worker: "w1" });
      assert.deepEqual(
        await unchanged("a claim before an event is due", session, none),
        [],
        "a delayed event is not due",
      );
      const now = await session.probe.now();
      await session.faults.overwriteDelivery(later.rowId, { availableAt: now + 60_000_000 });
      assert.deepEqual(
        await unchanged("a claim before an event is due", session, none),
        [],
        "a minute early is early",
      );
      await session.faults.overwriteDelivery(later.rowId, { availableAt: now - 24 * HOUR });
      const past = await claimed(outbox);
      assert.equal(past.rowId, later.rowId, "an event of the past is due");
      await outbox.ack(past);
      for (let round = 0; round < 20; round++) {
        const { rowId } = await enqueued(t, event(), { delayMs: 3_600_000 });
        const moment = await upcoming(session, 5);
        await session.faults.overwriteDelivery(rowId, { availableAt: moment });
        const claim = await succeedsFrom("the claim of an event", session, moment, async () => {
          const [first] = await outbox.claim({ worker: "w1" });
          return first;
        });
        await outbox.ack(claim);
        // In the same tick of the clock, as often as not.
        const { rowId: atOnce } = await enqueued(t);
        const [due] = await outbox.claim({ worker: "w1" });
        assert.equal(due?.rowId, atOnce, "an event without delay is due at once");
        await outbox.ack(due);
      }
    },
  },
  {
    id: "CLAIM-12",
    level: 1,
    intent: "delivered and quarantined events are never claimed",
    async run(t) {
      const { session, outbox } = t;
      const [, , byOperator = 0] = await enqueuedMany(t, 3);
      const [delivered, poisoned] = await outbox.claim({ worker: "w1", limit: 2 });
      assert.ok(delivered !== undefined && poisoned !== undefined, "two events must be claimable");
      await outbox.ack(delivered);
      await outbox.quarantine(poisoned, { reason: "poison" });
      await outbox.quarantine(byOperator, { reason: "not wanted" });
      const longAgo = { availableAt: (await session.probe.now()) - 24 * HOUR };
      for (const rowId of [delivered.rowId, poisoned.rowId, byOperator]) {
        await session.faults.overwriteDelivery(rowId, longAgo);
      }
      for (const handle of [outbox, outbox.admin()]) {
        for (const scope of [{}, { stream: "orders" }]) {
          const claim = () =>
            accepted("a claim among terminal rows", handle.claim({ worker: "w2", ...scope }));
          const claims = await unchanged("a claim among terminal rows", session, claim);
          assert.deepEqual(claims, [], "a delivered or quarantined event must not be claimed");
        }
      }
      await outbox.redrive(poisoned.rowId);
      assert.equal(
        (await claimed(outbox)).rowId,
        poisoned.rowId,
        "only redrive makes an event claimable again",
      );
    },
  },
  {
    id: "CLAIM-13",
    level: 1,
    intent: "the attempt is stored before return, and never wraps: exhausted rows are left out, and counted",
    async run(t) {
      const { session, outbox } = t;
      const { faults } = session;
      const [pending = 0, expired = 0, last = 0, quarantined = 0, ...others] = await enqueuedMany(t, 7);
      await faults.overwriteDelivery(pending, { attempts: MAX_ATTEMPT });
      const exhaust = { attempts: MAX_ATTEMPT, forgiven: MAX_ATTEMPT };
      // The others become due after the exhausted rows, which must not take up their places.
      const now = await session.probe.now();
      for (const rowId of [last, ...others])
        await faults.overwriteDelivery(rowId, { availableAt: now + HOUR });
      for (const rowId of [expired, quarantined]) {
        const claim = await accepted("a claim beside an exhausted row", claimed(outbox));
        assert.equal(claim.rowId, rowId, "an exhausted row must be left out, and the next one claimed");
        assert.equal(claim.attempt, 1, "the first claim is the first attempt");
        assert.equal(
          (await deliveryOf(session, claim.rowId)).attempts,
          1,
          "the attempt must be stored on return",
        );
        if (rowId === quarantined) await outbox.quarantine(claim, { reason: "poison" });
      }
      await faults.overwriteDelivery(expired, exhaust);
      await faults.expireLeases([expired]);
      const none = () =>
        accepted("a claim among exhausted rows", outbox.claim({ worker: "w2", limit: 1000 }));
      const empty = await unchanged("a claim among exhausted rows", session, none);
      assert.deepEqual(empty, [], "an exhausted row must not be claimed");

      await faults.overwriteDelivery(last, { attempts: MAX_ATTEMPT - 1, availableAt: now });
      for (const rowId of others) await faults.overwriteDelivery(rowId, { availableAt: now });
      const claims = await accepted("a last attempt", outbox.claim({ worker: "w3", limit: 2 }));
      assert.deepEqual(
        claims.map(({ rowId, attempt }) => [rowId, attempt]),
        [
          [last, MAX_ATTEMPT],
          [others[0], 1],
        ],
        "exhausted rows must not take up places, and the last attempt is one like any other",
      );
      const [lastClaim] = claims;
      assert.equal(
        (await deliveryOf(session, last)).attempts,
        MAX_ATTEMPT,
        "the last attempt must be stored",
      );
      await faults.expireLeases([last]);
      const rest = await accepted(
        "a claim after a last attempt",
        outbox.claim({ worker: "w4", limit: 1000 }),
      );
      assert.deepEqual(
        rest.map(({ rowId }) => rowId),
        others.slice(1),
        "a row must not be claimed after its last attempt",
      );
      for (const stats of [await outbox.stats(), await outbox.admin().stats()]) {
        assert.deepEqual(stats.exhausted, { count: 3, exact: true }, "stats must count the exhausted rows");
        assert.deepEqual(
          [stats.due.count, stats.scheduled.count, stats.expired.count],
          [0, 0, 0],
          "stats must count exhausted rows nowhere else: they wait for nobody",
        );
      }

      await faults.overwriteDelivery(quarantined, exhaust);
      const redrive = () => outbox.redrive(quarantined);
      await unchanged("redrive of an exhausted row", session, () =>
        refused("redrive of an exhausted row", ["COUNTER_OVERFLOW"], redrive),
      );
      assert.deepEqual(
        (await unchanged("redrive by filter", session, () => outbox.redrive({}))).rowIds,
        [],
        "redrive by filter must leave exhausted rows out",
      );
      // Its holder may still end it, if it comes in time.
      await faults.overwriteDelivery(last, { expiresAt: now + HOUR });
      assert.ok(lastClaim !== undefined);
      await outbox.ack(lastClaim);
      assert.equal((await outbox.stats()).exhausted.count, 2, "a delivered row is not exhausted");
    },
  },
  {
    id: "CLAIM-15",
    level: 1,
    intent: "a row that cannot be decoded is a claim like any other, and harms none of its batch",
    async run(t) {
      const { session, outbox } = t;
      const given = Array.from({ length: 7 }, (_, n) => event({ data: { n, text: "whole" } }));
      const outcomes = await session.transaction((tx) => outbox.enqueueMany(tx.handle, given));
      const rowIds = outcomes.map(({ rowId }) => rowId);
      const corrupt = new Set(rowIds.filter((_, index) => index % 2 === 0));
      for (const rowId of corrupt) await session.faults.corruptData(rowId);
      const batch = async (): Promise<readonly Claim[]> => {
        const claim = outbox.claim({ worker: "w1", limit: 10, leaseMs: 60_000 });
        const claims = await accepted("a claim of rows that cannot be decoded", claim);
        assert.equal(claims.length, 7, "a row that cannot be decoded must be claimed with its batch");
        for (const claim of claims) {
          if (corrupt.has(claim.rowId)) {
            const reason = "undecodable" in claim.event ? claim.event.undecodable : undefined;
            assert.ok(typeof reason === "string" && reason !== "", "an undecodable event must say why");
          } else {
            assert.ok(isDecoded(claim.event), "a batch mate of an undecodable event must be decoded");
            const { id, data } = given[rowIds.indexOf(claim.rowId)] ?? {};
            assert.deepEqual([claim.event.id, claim.event.data], [id, data], "a batch mate must be unharmed");
          }
        }
        return claims;
      };
      await batch();
      // Its lease ends as any other: also when its holder died of it.
      await session.faults.expireLeases(rowIds);
      const claims = await batch();
      const [acked, retried, released, quarantined] = claims.filter(({ rowId }) => corrupt.has(rowId));
      assert.ok(acked && retried && released && quarantined);
      const renewal = await timed(session, () => outbox.renew(acked, { leaseMs: 90_000 }));
      assert.ok(
        renewal.result.expiresAt > acked.expiresAt,
        "the claim of an undecodable event must be renewable",
      );
      await outbox.ack(acked);
      await outbox.retry(retried, { failure: { code: "UNDECODABLE", detail: "not JSON" } });
      await outbox.release(released);
      await outbox.quarantine(quarantined, { reason: "not JSON" });
      const states = [];
      for (const { rowId } of [acked, retried, released, quarantined]) {
        states.push((await deliveryOf(session, rowId)).state);
      }
      assert.deepEqual(
        states,
        ["delivered", "pending", "pending", "quarantined"],
        "the claim of an undecodable event must be settled in every way",
      );
      const mates = await outbox.ack(claims.filter(({ rowId }) => !corrupt.has(rowId)));
      assert.deepEqual(
        mates,
        mates.map(() => ({ outcome: "applied" })),
        "the batch mates must settle",
      );
    },
  },
];

/** What a call answers that must not be refused: that it was is a failure of the case's own. */
async function accepted<T>(what: string, answer: Promise<T>): Promise<T> {
  return answer.catch((error: unknown) => assert.fail(`${what} must not be refused: ${String(error)}`));
}

function granted(answer: Answer<readonly ClaimJson[]>): readonly ClaimJson[] {
  assert.ok("ok" in answer, `a claim must not be refused: ${JSON.stringify(answer)}`);
  return answer.ok;
}

function toJson({ rowId, attempt, token }: Claim): ClaimJson {
  return { rowId, attempt, token: token.reveal() };
}

export const claimCases: readonly Case[] = [
  ...singleCases,
  ...claimOrderCases,
  ...claimEntropyCases,
  ...claimLockCases,
].sort((a, b) => a.id.localeCompare(b.id));
