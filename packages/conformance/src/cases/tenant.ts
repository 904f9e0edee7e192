import assert from "node:assert/strict";
import type { Claim, NewEvent, Settlement } from "@dovecote/core";
import type { Case, CaseContext, Outbox } from "../case.ts";
import { refused, unchanged } from "./expect.ts";
import { event } from "./given.ts";
import { tenantAdminCases } from "./tenant-admin.ts";
import { nothingWritten } from "./written.ts";

type Tenant = ReturnType<Outbox["tenant"]>;

/** Who must not reach the rows of `acme`: another tenant, one whose name is nearly the same, and the default one. */
const OTHERS: readonly string[] = ["zeta", "ACME", "acme ", "default"];

export const tenantCases: readonly Case[] = [
  {
    id: "TENANT-01",
    level: 1,
    intent: "a tenant's handle cannot read another tenant's rows",
    async run(t) {
      const { outbox, session, capabilities } = t;
      const acme = outbox.tenant("acme");
      assert.equal(acme.tenantId, "acme", "a handle must say whose it is");
      const { pending, claim, delivered, quarantined } = await oneOfEach(t);
      const theirs = [pending, claim.rowId, delivered, quarantined];

      for (const name of OTHERS) {
        const other = outbox.tenant(name);
        const own = await enqueueIn(t, name, event());
        const { entries, cursor } = await other.page();
        const seen = entries.map(({ rowId, tenant }) => [tenant, rowId]);
        assert.deepEqual(seen, [[name, own]], `a page of ${name} must hold its own rows alone`);
        assert.equal(cursor, own, `a page of ${name} must end at its own last row`);
        for (const state of ["claimed", "delivered", "quarantined"] as const) {
          const { entries: listed } = await other.list({ state });
          assert.deepEqual(listed, [], `a list of ${name} must not show another tenant's ${state} rows`);
        }
        const snapshot = [];
        for await (const { rowId } of await other.snapshot()) snapshot.push(rowId);
        assert.deepEqual(snapshot, [own], `a snapshot of ${name} must hold its own rows alone`);
        if (capabilities.tail) {
          for await (const { rowId } of other.tail()) {
            assert.equal(rowId, own, `the tail of ${name} must begin with its own row`);
            break;
          }
        }
        const stats = await other.stats();
        assert.deepEqual(
          [stats.due.count, stats.claimed.count, stats.expired.count, stats.quarantined.count],
          [1, 0, 0, 0],
          `stats of ${name} must count its own rows alone`,
        );
        for (const rowId of theirs) {
          const found = await other.inspect(rowId);
          assert.deepEqual(
            found,
            { outcome: "notFound" },
            `${name} must not find row ${rowId} of another tenant`,
          );
        }
      }
      const { entries } = await acme.page();
      assert.deepEqual(
        entries.map(({ rowId }) => rowId),
        theirs.toSorted(ascending),
        "the owner must see every row",
      );
      assert.equal(
        (await session.probe.events()).length,
        theirs.length + OTHERS.length,
        "every row must be stored",
      );
    },
  },
  {
    id: "TENANT-01",
    level: 1,
    intent: "a tenant's handle cannot claim, settle, redrive or prune another tenant's rows",
    async run(t) {
      const { outbox, session } = t;
      const { pending, claim, delivered, quarantined } = await oneOfEach(t);
      await session.faults.overwriteDelivery(delivered, { deliveredAt: 0 });
      await session.faults.overwriteDelivery(quarantined, { quarantinedAt: 0 });

      for (const name of OTHERS) {
        const other = outbox.tenant(name);
        await unchanged(`a call of ${name}`, session, async () => {
          assert.deepEqual(
            await other.claim({ worker: "thief", limit: 1000 }),
            [],
            `${name} must claim nothing`,
          );
          const scoped = await other.claim({ worker: "thief", limit: 1000, stream: "orders" });
          assert.deepEqual(scoped, [], `${name} must claim nothing of a stream that tenants share`);
          await assertNotFound(name, other, claim);
          for (const rowId of [pending, claim.rowId, delivered, quarantined]) {
            const what = `row ${rowId} by its id alone, by ${name}`;
            await refused(`a quarantine of ${what}`, ["NOT_FOUND"], () =>
              other.quarantine(rowId, { reason: "no" }),
            );
            await refused(`a redrive of ${what}`, ["NOT_FOUND"], () => other.redrive(rowId));
            await refused(`a redrive of ${what} in a transaction`, ["NOT_FOUND"], () =>
              session.transaction((tx) => other.redriveIn(tx.handle, rowId)),
            );
          }
          assert.deepEqual((await other.redrive({})).rowIds, [], `${name} must redrive nothing`);
          const redriven = await session.transaction((tx) => other.redriveIn(tx.handle, {}));
          assert.deepEqual(redriven.rowIds, [], `${name} must redrive nothing in a transaction`);
        });
        await nothingWritten(`a prune by ${name}`, session, async () => {
          const { pruned } = await other.prune({ olderThanMs: 1, quarantined: true });
          assert.equal(pruned, 0, `${name} must prune nothing`);
        });
      }

      await session.faults.expireLeases([claim.rowId]);
      const thief = outbox.tenant("zeta");
      await unchanged("a claim after the lease expired", session, async () => {
        assert.deepEqual(
          await thief.claim({ worker: "thief" }),
          [],
          "another tenant's expired claim must be left",
        );
      });
      const acme = outbox.tenant("acme");
      const mine = await acme.claim({ worker: "owner", limit: 1000 });
      assert.deepEqual(
        mine.map(({ rowId }) => rowId).toSorted(ascending),
        [pending, claim.rowId].toSorted(ascending),
        "the owner must be able to claim what the others could not",
      );
      assert.deepEqual(
        await acme.ack(mine),
        [{ outcome: "applied" }, { outcome: "applied" }],
        "and to ack it",
      );
      assert.deepEqual((await acme.redrive({})).rowIds, [quarantined], "and to redrive");
      assert.equal((await acme.prune({ olderThanMs: 60_000 })).pruned, 1, "and to prune");
    },
  },
  {
    id: "TENANT-01",
    level: 1,
    intent: "another tenant's row is not found whatever else is wrong, and does not spoil a batch",
    async run(t) {
      const { outbox, session } = t;
      const { pending, claim, delivered, quarantined } = await oneOfEach(t);
      await enqueueIn(t, "zeta", event());
      const zeta = outbox.tenant("zeta");
      const [own] = await zeta.claim({ worker: "w1" });
      assert.ok(own !== undefined, "the tenant's own event must be claimable");

      const proof = { attempt: claim.attempt, token: claim.token };
      const wrong = [
        { ...proof, rowId: pending },
        { ...proof, rowId: delivered },
        { ...proof, rowId: quarantined },
        { rowId: claim.rowId, attempt: claim.attempt, token: own.token },
        { rowId: claim.rowId, attempt: claim.attempt + 1, token: claim.token },
      ];
      await unchanged("acks of another tenant's rows", session, async () => {
        // Nothing but `notFound` may be answered: a state, or a lost claim, would tell that the row exists.
        const outcomes = await zeta.ack(wrong);
        assert.deepEqual(
          outcomes,
          wrong.map(() => ({ outcome: "notFound" })),
          "each must be answered `notFound`",
        );
        const renewals = await zeta.renew(wrong);
        assert.deepEqual(
          renewals,
          wrong.map(() => ({ outcome: "notFound" })),
          "renewals must be `notFound` too",
        );
      });
      const others = (await session.probe.deliveries()).filter(({ rowId }) => rowId !== own.rowId);
      const batch: Settlement[] = [
        { action: "ack", claim },
        { action: "ack", claim: own },
        { action: "quarantine", claim: pending, reason: "no" },
      ];
      assert.deepEqual(
        await zeta.settle(batch),
        [{ outcome: "notFound" }, { outcome: "applied" }, { outcome: "notFound" }],
        "the tenant's own item must apply among those of another",
      );
      const left = (await session.probe.deliveries()).filter(({ rowId }) => rowId !== own.rowId);
      assert.deepEqual(left, others, "another tenant's rows must stay byte-identical");
    },
  },
  {
    id: "TENANT-01",
    level: 1,
    intent: "bounds count a tenant's own rows: however many another has, they hide nothing",
    async run(t) {
      const { outbox, session } = t;
      const many = Array.from({ length: 20 }, () => event());
      await session.transaction((tx) => outbox.tenant("acme").enqueueMany(tx.handle, many));
      const own = await enqueueIn(t, "zeta", event());
      await session.transaction((tx) => outbox.tenant("acme").enqueueMany(tx.handle, [event(), event()]));
      const zeta = outbox.tenant("zeta");

      // A limit that is applied before the tenant would leave room for none of its rows.
      assert.deepEqual(
        (await zeta.page({ limit: 1 })).entries.map(({ rowId }) => rowId),
        [own],
        "a page must hold it",
      );
      const { entries: listed } = await zeta.list({ state: "pending", limit: 1 });
      assert.deepEqual(
        listed.map(({ rowId }) => rowId),
        [own],
        "a list must hold it",
      );
      const [claim, ...more] = await zeta.claim({ worker: "w1", limit: 1 });
      assert.equal(claim?.rowId, own, "a claim must find the tenant's own row behind another's");
      assert.deepEqual(more, [], "a claim must keep to its limit");
      await session.faults.expireLeases([own]);
      const theirs = await outbox.tenant("acme").claim({ worker: "w2", limit: 1000 });
      assert.equal(theirs.length, many.length + 2, "the other tenant must claim all of its rows");
      assert.ok(!theirs.some(({ rowId }) => rowId === own), "and nothing but its rows");
    },
  },
  ...tenantAdminCases,
];

interface OneOfEach {
  readonly pending: number;
  readonly claim: Claim;
  readonly delivered: number;
  readonly quarantined: number;
}

/** Rows of tenant `acme`, one in each state. */
async function oneOfEach(t: CaseContext): Promise<OneOfEach> {
  const acme = t.outbox.tenant("acme");
  for (let i = 0; i < 3; i++) await enqueueIn(t, "acme", event());
  const [toAck, toQuarantine, claim] = await acme.claim({ worker: "w1", limit: 3 });
  assert.ok(toAck && toQuarantine && claim, "the tenant's own events must be claimable");
  await acme.ack(toAck);
  await acme.quarantine(toQuarantine, { reason: "poison" });
  const pending = await enqueueIn(t, "acme", event());
  return { pending, claim, delivered: toAck.rowId, quarantined: toQuarantine.rowId };
}

async function enqueueIn({ session, outbox }: CaseContext, tenant: string, given: NewEvent): Promise<number> {
  return (await session.transaction((tx) => outbox.tenant(tenant).enqueue(tx.handle, given))).rowId;
}

/** With row id, attempt and token, which are all that its holder has. */
async function assertNotFound(name: string, other: Tenant, claim: Claim): Promise<void> {
  const failure = { code: "E", detail: "no" };
  const calls: readonly (readonly [what: string, call: () => Promise<unknown>])[] = [
    ["an ack", () => other.ack(claim)],
    ["a retry", () => other.retry(claim, { failure })],
    ["a release", () => other.release(claim)],
    ["a quarantine", () => other.quarantine(claim, { reason: "no" })],
    ["a renewal", () => other.renew(claim)],
  ];
  for (const [what, call] of calls) await refused(`${what} by another tenant, ${name},`, ["NOT_FOUND"], call);
  const batch: Settlement[] = [
    { action: "ack", claim },
    { action: "retry", claim, failure },
    { action: "release", claim },
    { action: "quarantine", claim, reason: "no" },
  ];
  const outcomes = await other.settle(batch);
  assert.deepEqual(
    outcomes,
    batch.map(() => ({ outcome: "notFound" })),
    `a batch of ${name} must be not found`,
  );
}

function ascending(a: number, b: number): number {
  return a - b;
}
