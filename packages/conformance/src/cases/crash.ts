/** Processes that die, or stop and come back: SIGKILL, SIGSTOP and SIGCONT at every point that matters. */
import assert from "node:assert/strict";
import type { Case, CaseContext } from "../case.ts";
import type { ProbedDelivery } from "../define-harness.ts";
import type { ClaimJson } from "../engine/actors.ts";
import { unchanged } from "./expect.ts";
import { claimed, enqueuedMany } from "./given.ts";
import { turns } from "./waiting.ts";

const LEASE_MS = 600_000;
/** How long a victim may migrate before it is killed. */
const FIRST_WAIT_US = 10_000;
const LAST_WAIT_US = 320_000;
const IDENTITY = { source: "/crash", id: "crash-1" };

export const crashCases: readonly Case[] = [
  {
    id: "CRASH-01",
    level: 3,
    intent: "a process killed before its commit leaves nothing, and its retry yields one event",
    async run(t) {
      const victim = t.victim("enqueue", IDENTITY);
      await victim.reached("written");
      await victim.kill();
      await nothingCommitted(t, "a kill before the commit");
      await retried(t, "enqueued");
    },
  },
  {
    id: "CRASH-01",
    level: 3,
    intent:
      "a process killed after its commit, before anybody is told, leaves one event, and its retry finds it",
    async run(t) {
      const victim = t.victim("enqueue", IDENTITY);
      await victim.reached("written");
      victim.proceed();
      await victim.reached("committed");
      await victim.kill();
      assert.deepEqual(
        await t.session.probe.businessRows(),
        [IDENTITY.id],
        "a committed business row must stay",
      );
      await retried(t, "alreadyEnqueued");
    },
  },
  {
    id: "CRASH-02",
    level: 3,
    intent:
      "a process killed while it claims leaves each row free or leased, and after expiry each is taken over once",
    async run(t) {
      const { session } = t;
      const ids = await enqueuedMany(t, 40);
      for (const progress of [1, 3, 6, 10]) {
        const victim = t.victim("claimAll", { leaseMs: LEASE_MS });
        // It goes on claiming while the signal is on its way: the kill lands anywhere in its calls.
        await victim.progressed(progress);
        await victim.kill();
      }
      const rows = await session.probe.deliveries();
      for (const row of rows) wholeClaim(row);
      const leased = rows.filter(({ state }) => state === "claimed");
      assert.ok(leased.length >= 20, "what a victim reported as claimed must be leased after its death");
      const free = ids.length - leased.length;
      const still = await t.outbox.claim({ worker: "w2", limit: 1000, leaseMs: LEASE_MS });
      assert.equal(
        still.length,
        free,
        "a lease must outlive its holder, and what was not leased must be free",
      );
      await session.faults.expireLeases(leased.map(({ rowId }) => rowId));
      await takenOverOnce(t, leased);
    },
  },
  {
    id: "CRASH-03",
    level: 3,
    intent: "a process killed in its handler: the event is redelivered with the next attempt and a new token",
    async run(t) {
      await enqueuedMany(t, 1);
      const victim = t.victim("hold", { limit: 1, leaseMs: LEASE_MS });
      const [held] = (await victim.reached("holding")) as readonly ClaimJson[];
      await victim.kill();
      assert.ok(held !== undefined, "the victim must hold the event");
      assert.deepEqual(await t.outbox.claim({ worker: "w2" }), [], "a lease must outlive its holder");
      await t.session.faults.expireLeases([held.rowId]);
      const claim = await claimed(t.outbox, { worker: "w2" });
      assert.equal(claim.rowId, held.rowId, "the event must be redelivered");
      assert.equal(claim.attempt, held.attempt + 1, "a redelivery must have the next attempt");
      assert.notEqual(claim.token.reveal(), held.token, "a redelivery must have a new token");
      assert.equal(claim.reclaimed, true, "a redelivery after a crash must be marked as reclaimed");
      await t.outbox.ack(claim);
    },
  },
  {
    id: "CRASH-04",
    level: 3,
    intent: "a process killed while it settles: each row is done or redelivered, never half",
    async run(t) {
      const { session, outbox } = t;
      const ids = await enqueuedMany(t, 60);
      const acked = new Set<number>();
      for (const progress of [1, 4, 9]) {
        const victim = t.victim("ackAll", { limit: 20, leaseMs: LEASE_MS });
        await victim.reached("holding");
        victim.proceed();
        await victim.progressed(progress);
        await victim.kill();
        for (const report of await victim.progressed(0)) acked.add((report as ClaimJson).rowId);
      }
      const rows = await session.probe.deliveries();
      for (const row of rows) wholeClaim(row);
      for (const rowId of acked) {
        const { state } = rows.find((row) => row.rowId === rowId) ?? {};
        assert.equal(state, "delivered", "what was acknowledged before the kill must be delivered");
      }
      const open = rows.filter(({ state }) => state === "claimed");
      await session.faults.expireLeases(open.map(({ rowId }) => rowId));
      const redelivered = await outbox.claim({ worker: "w2", limit: 1000 });
      assert.deepEqual(
        redelivered.map(({ rowId }) => rowId).sort((a, b) => a - b),
        rows.filter(({ state }) => state !== "delivered").map(({ rowId }) => rowId),
        "exactly what was not delivered must be redelivered",
      );
      await outbox.ack(redelivered);
      const states = (await session.probe.deliveries()).map(({ state }) => state);
      assert.deepEqual(new Set(states), new Set(["delivered"]), "nothing must be lost");
      assert.equal(states.length, ids.length, "nothing must be lost");
    },
  },
  {
    id: "CRASH-06",
    level: 3,
    intent:
      "a process that is stopped past its lease and goes on after a takeover: every write of it is refused",
    async run(t) {
      const { session, outbox } = t;
      await enqueuedMany(t, 1);
      const victim = t.victim("hold", { limit: 1, leaseMs: LEASE_MS });
      const [held] = (await victim.reached("holding")) as readonly ClaimJson[];
      victim.freeze();
      await session.faults.expireLeases([held?.rowId ?? 0]);
      const claim = await claimed(outbox, { worker: "w2" });
      const verdicts = await unchanged("a zombie", session, async () => {
        victim.thaw();
        victim.proceed();
        return victim.done();
      });
      const lost = { renew: "LOST_CLAIM", ack: "LOST_CLAIM", retry: "LOST_CLAIM" };
      assert.deepEqual(
        verdicts,
        { ...lost, release: "LOST_CLAIM", quarantine: "LOST_CLAIM" },
        "every write of a zombie must be refused",
      );
      await outbox.ack(claim);
    },
  },
  {
    id: "SCHEMA-04",
    level: 3,
    migrate: false,
    intent: "a process killed while it migrates: the next run completes",
    async run(t) {
      const { session, outbox, capabilities } = t;
      if (!capabilities.durable) {
        assert.deepEqual((await outbox.migrate()).applied, [], "without a schema there is nothing to apply");
        return;
      }
      for (let waitUs = FIRST_WAIT_US; waitUs <= LAST_WAIT_US; waitUs *= 2) {
        const victim = t.victim("migrate", {});
        await victim.reached("ready");
        victim.proceed();
        await victim.progressed(1);
        // Each time later: it has to connect first, and nobody knows how long that takes.
        const moment = (await session.probe.now()) + waitUs;
        while ((await session.probe.now()) < moment) await turns(session, 1);
        await victim.kill();
        const { status } = await outbox.checkSchema();
        assert.ok(
          status === "ok" || status === "missing",
          `a killed migration must leave all or nothing, not ${status}`,
        );
        // It came to its end before the kill: there is nothing left to be killed at.
        if (status === "ok") break;
      }
      await outbox.migrate();
      const { status, findings } = await outbox.checkSchema();
      assert.deepEqual(
        { status, findings },
        { status: "ok", findings: [] },
        "a migration after one that was killed must complete the schema",
      );
      await enqueuedMany(t, 1);
      await outbox.ack(await claimed(outbox));
    },
  },
];

async function nothingCommitted({ session }: CaseContext, what: string): Promise<void> {
  assert.deepEqual(await session.probe.events(), [], `${what} must leave no event`);
  assert.deepEqual(await session.probe.deliveries(), [], `${what} must leave no delivery`);
  assert.deepEqual(await session.probe.businessRows(), [], `${what} must leave no business row`);
}

/** The application does it again, as it must when it does not know. */
async function retried({ session, outbox }: CaseContext, outcome: string): Promise<void> {
  const event = { stream: "crash", type: "crash", ...IDENTITY };
  const retry = await session.transaction((tx) => outbox.enqueue(tx.handle, event));
  assert.equal(retry.outcome, outcome, `the retry must be answered with ${outcome}`);
  assert.equal((await session.probe.events()).length, 1, "there must be exactly one event");
}

/** A row that belongs to one state as a whole: nothing of a claim without the rest of it. */
function wholeClaim({ state, token, worker, expiresAt, attempts }: ProbedDelivery): void {
  const parts = [token, worker, expiresAt].filter((part) => part !== null).length;
  assert.equal(parts, state === "claimed" ? 3 : 0, "a killed process must not leave half a claim");
  if (state === "claimed") assert.ok(attempts > 0, "a claim must have counted its attempt");
}

async function takenOverOnce(t: CaseContext, leased: readonly ProbedDelivery[]): Promise<void> {
  const attempts = new Map(leased.map(({ rowId, attempts }) => [rowId, attempts]));
  const contenders = [await t.connect(), await t.connect()];
  const claim = { worker: "w3", limit: 1000, leaseMs: LEASE_MS };
  const held = (await Promise.all(contenders.map(({ outbox }) => outbox.claim(claim)))).flat();
  assert.deepEqual(
    held.map(({ rowId }) => rowId).sort((a, b) => a - b),
    [...attempts.keys()],
    "after expiry each row must be taken over exactly once",
  );
  for (const { rowId, attempt } of held) {
    assert.equal(attempt, (attempts.get(rowId) ?? 0) + 1, "a takeover must have the next attempt");
  }
}
