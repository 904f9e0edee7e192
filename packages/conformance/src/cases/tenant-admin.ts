/** TENANT-02: the handle that spans tenants. */
import assert from "node:assert/strict";
import type { NewEvent } from "@dovecote/core";
import type { Case, CaseContext } from "../case.ts";
import { refused, unchanged } from "./expect.ts";
import { event } from "./given.ts";
import { accepted, eventOf, nothingWritten } from "./written.ts";

const TENANTS = ["acme", "default", "zeta"] as const;
const HOUR_MICROS = 3_600_000_000;

/** What says neither one tenant nor all of them. */
const UNSAID: readonly object[] = [
  {},
  { all: false },
  { tenant: undefined },
  { tenant: "acme", all: true },
  { tenant: "" },
];

export const tenantAdminCases: readonly Case[] = [
  {
    id: "TENANT-02",
    level: 1,
    intent: "the admin handle claims, pages and counts across tenants, the store itself does not",
    async run(t) {
      const { outbox } = t;
      const admin = outbox.admin();
      const rows = await oneOfEachTenant(t);
      const { entries } = await admin.page();
      assert.deepEqual(
        entries.map(({ tenant, rowId }) => [tenant, rowId]),
        TENANTS.map((tenant) => [tenant, rows[tenant]]),
        "an admin's page must hold every tenant's rows, each with its tenant",
      );
      const snapshot = [];
      for await (const { tenant } of await admin.snapshot()) snapshot.push(tenant);
      assert.deepEqual(snapshot, TENANTS, "an admin's snapshot must hold every tenant's rows");
      assert.equal(
        (await admin.stats()).due.count,
        TENANTS.length,
        "an admin's stats must count every tenant's rows",
      );
      for (const tenant of TENANTS) {
        const found = await admin.inspect(rows[tenant]);
        assert.equal(found.outcome, "found", `the admin must find the row of ${tenant}`);
      }

      const own = await outbox.page();
      assert.deepEqual(
        own.entries.map(({ tenant }) => tenant),
        ["default"],
        "the store itself is one tenant's handle",
      );
      assert.equal((await outbox.stats()).due.count, 1, "the store itself must count its own rows alone");
      const defaults = await outbox.claim({ worker: "w1", limit: 1000 });
      assert.deepEqual(
        defaults.map(({ tenant }) => tenant),
        ["default"],
        "the store itself must claim its own rows",
      );
      await outbox.release(defaults);

      const scoped = await admin.claim({ worker: "w1", limit: 1000, stream: "orders" });
      assert.deepEqual(
        scoped.map(({ tenant, rowId }) => [tenant, rowId]).sort(),
        TENANTS.map((tenant) => [tenant, rows[tenant]]),
        "an admin's claim must span tenants, and each claim carry its tenant",
      );
    },
  },
  {
    id: "TENANT-02",
    level: 1,
    intent: "an admin renews and settles what it claimed, whatever its tenant",
    async run(t) {
      const { outbox, session } = t;
      const admin = outbox.admin();
      const rows = await oneOfEachTenant(t);
      const claims = await admin.claim({ worker: "w1", leaseMs: 60_000 });
      const renewals = await admin.renew(claims, { leaseMs: 120_000 });
      assert.deepEqual(
        renewals.map(({ outcome }) => outcome),
        ["applied", "applied", "applied"],
        "renewals must apply",
      );
      const [acme, standard, zeta] = TENANTS.map((tenant) => claims.find((claim) => claim.tenant === tenant));
      assert.ok(acme && standard && zeta, "there must be one claim of each tenant");
      // A claim is the same whoever presents it: its tenant's handle may settle it as well.
      await accepted("its tenant's ack", () => outbox.tenant("acme").ack(acme));
      await accepted("an admin's retry", () =>
        admin.retry(standard, { failure: { code: "E", detail: "try again" } }),
      );
      const proof = { rowId: zeta.rowId, attempt: zeta.attempt, token: zeta.token.reveal() };
      await accepted("an admin's quarantine", () => admin.quarantine(proof, { reason: "no" }));
      const states = (await session.probe.deliveries()).map(({ rowId, state }) => [rowId, state]);
      assert.deepEqual(
        states,
        [
          [rows.acme, "delivered"],
          [rows.default, "pending"],
          [rows.zeta, "quarantined"],
        ],
        "every settlement must apply to its row",
      );
      await accepted("an admin's redrive", () => admin.redrive(rows.zeta));
      await accepted("an admin's quarantine by row id", () =>
        admin.quarantine(rows.default, { reason: "by id" }),
      );
      const again = await admin.claim({ worker: "w1" });
      assert.deepEqual(
        again.map(({ tenant }) => tenant),
        ["zeta"],
        "the redriven row must be claimable",
      );
      assert.deepEqual(await admin.release(again), [{ outcome: "applied" }], "a release must apply");
    },
  },
  {
    id: "TENANT-02",
    level: 1,
    intent: "an admin names the tenant that it enqueues for",
    async run({ outbox, session }) {
      const admin = outbox.admin();
      const { rowId } = await session.transaction((tx) =>
        admin.enqueue(tx.handle, event(), { tenant: "acme" }),
      );
      const given = [event({ id: "b" }), event({ id: "a" })];
      const many = await session.transaction((tx) => admin.enqueueMany(tx.handle, given, { tenant: "zeta" }));
      assert.equal((await eventOf(session, rowId)).tenant, "acme", "the event must be the named tenant's");
      for (const each of many) {
        const { tenant, id } = await eventOf(session, each.rowId);
        assert.deepEqual(
          [tenant, id],
          ["zeta", each.id],
          "every event of a batch must be the named tenant's",
        );
      }
      for (const options of [undefined, {}, { tenant: undefined }, { tenant: "" }, { tenant: null }]) {
        const what = `an admin's enqueue with ${JSON.stringify(options)}`;
        await nothingWritten(what, session, async () => {
          await refused(what, ["INVALID_ARGUMENT"], () =>
            session.transaction((tx) => admin.enqueue(tx.handle, event(), options as never)),
          );
          await refused(`${what} of a batch`, ["INVALID_ARGUMENT"], () =>
            session.transaction((tx) => admin.enqueueMany(tx.handle, [event()], options as never)),
          );
        });
      }
    },
  },
  {
    id: "TENANT-02",
    level: 1,
    intent: "an admin's redrive and list name a tenant, or say all",
    async run(t) {
      const { outbox, session } = t;
      const admin = outbox.admin();
      const rows = await oneOfEachTenant(t);
      const quarantine = async () => {
        for (const tenant of TENANTS) {
          await accepted("a quarantine by row id", () =>
            admin.quarantine(rows[tenant], { reason: "poison" }),
          );
        }
      };
      await quarantine();
      for (const unsaid of UNSAID) {
        const what = `with ${JSON.stringify(unsaid)}`;
        await unchanged(`a call ${what}`, session, async () => {
          await refused(`a redrive ${what}`, ["INVALID_ARGUMENT"], () => admin.redrive(unsaid as never));
          await refused(`a redrive ${what} in a transaction`, ["INVALID_ARGUMENT"], () =>
            session.transaction((tx) => admin.redriveIn(tx.handle, unsaid as never)),
          );
          const listing = { state: "quarantined", ...unsaid };
          await refused(`a list ${what}`, ["INVALID_ARGUMENT"], () => admin.list(listing as never));
        });
      }

      const listed = async (span: { tenant: string } | { all: true }) =>
        (await admin.list({ state: "quarantined", ...span })).entries.map(({ tenant }) => tenant).sort();
      assert.deepEqual(await listed({ tenant: "acme" }), ["acme"], "a list must keep to the named tenant");
      assert.deepEqual(await listed({ all: true }), TENANTS, "a list of all must span tenants");

      assert.deepEqual(
        (await admin.redrive({ tenant: "acme" })).rowIds,
        [rows.acme],
        "one tenant must be redriven",
      );
      const inside = await session.transaction((tx) => admin.redriveIn(tx.handle, { tenant: "zeta" }));
      assert.deepEqual(inside.rowIds, [rows.zeta], "one tenant must be redriven in a transaction");
      assert.deepEqual(await listed({ all: true }), ["default"], "the others must be left in quarantine");
      const rest = await admin.redrive({ all: true, dryRun: true });
      assert.deepEqual(rest.rowIds, [rows.default], "a dry run of all must answer what is left");
      await session.transaction((tx) => admin.redriveIn(tx.handle, rows.default));
      assert.deepEqual(
        await listed({ all: true }),
        [],
        "a row must be redriven by its id, whatever its tenant",
      );

      await quarantine();
      const all = await admin.redrive({ all: true });
      assert.deepEqual(
        [...all.rowIds].sort(),
        Object.values(rows).sort(),
        "all must redrive every tenant's rows",
      );
    },
  },
  {
    id: "TENANT-02",
    level: 1,
    intent: "an admin's prune names a tenant, or says all",
    async run(t) {
      const { outbox, session } = t;
      const admin = outbox.admin();
      const rows = await oneOfEachTenant(t);
      const claims = await admin.claim({ worker: "w1" });
      const acks = await admin.ack(claims);
      assert.deepEqual(
        acks,
        TENANTS.map(() => ({ outcome: "applied" })),
        "an admin must claim and ack for every tenant",
      );
      const longAgo = (await session.probe.now()) - HOUR_MICROS;
      for (const tenant of TENANTS)
        await session.faults.overwriteDelivery(rows[tenant], { deliveredAt: longAgo });
      for (const unsaid of UNSAID) {
        const what = `a prune with ${JSON.stringify(unsaid)}`;
        await nothingWritten(what, session, () =>
          refused(what, ["INVALID_ARGUMENT"], () => admin.prune({ olderThanMs: 60_000, ...unsaid } as never)),
        );
      }
      const left = async () => (await session.probe.events()).map(({ tenant }) => tenant);
      assert.equal(
        (await admin.prune({ tenant: "acme", olderThanMs: 60_000 })).pruned,
        1,
        "one tenant's row must go",
      );
      assert.deepEqual(await left(), ["default", "zeta"], "a prune must keep to the named tenant");
      assert.equal((await outbox.prune({ olderThanMs: 60_000 })).pruned, 1, "the store's own row must go");
      assert.deepEqual(await left(), ["zeta"], "the store itself must prune its own rows alone");
      assert.equal(
        (await admin.prune({ all: true, olderThanMs: 60_000 })).pruned,
        1,
        "all must span tenants",
      );
      assert.deepEqual(await left(), [], "nothing must be left");
    },
  },
];

type Rows = Readonly<Record<(typeof TENANTS)[number], number>>;

/** One pending event per tenant, all of one identity and stream; row ids rise in the order of {@link TENANTS}. */
async function oneOfEachTenant({ session, outbox }: CaseContext): Promise<Rows> {
  const enqueue = async (tenant: string): Promise<number> => {
    const given: NewEvent = event({ id: "shared" });
    const { rowId } = await accepted(`an event of tenant ${tenant}`, () =>
      session.transaction((tx) => outbox.tenant(tenant).enqueue(tx.handle, given)),
    );
    return rowId;
  };
  return { acme: await enqueue("acme"), default: await enqueue("default"), zeta: await enqueue("zeta") };
}
