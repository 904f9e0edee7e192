import assert from "node:assert/strict";
import type { Claim, ClaimOptions } from "@dovecote/core";
import type { Case, CaseContext } from "../case.ts";
import { event } from "./given.ts";

const MINUTE = 60_000_000;
const STREAMS = ["orders", "Orders", "order_", "orders.eu"];
// Each would be another one's if names were folded, trimmed, or read as patterns.
const TENANTS = ["acme", "Acme", "acm_", "acme%"];

export const claimOrderCases: readonly Case[] = [
  {
    id: "CLAIM-06",
    level: 1,
    intent: "scopes are exact: everything, one stream, one tenant, one stream of a tenant",
    async run(t) {
      const { session, outbox } = t;
      const admin = outbox.admin();
      const all: { rowId: number; tenant: string; stream: string }[] = [];
      for (const tenant of TENANTS) {
        const events = STREAMS.map((stream) => event({ stream }));
        const outcomes = await session.transaction((tx) => admin.enqueueMany(tx.handle, events, { tenant }));
        for (const [index, stream] of STREAMS.entries()) {
          all.push({ rowId: outcomes[index]?.rowId ?? 0, tenant, stream });
        }
      }
      for (const due of ["pending", "expired"]) {
        for (const tenant of [undefined, ...TENANTS, "nobody"]) {
          for (const stream of [undefined, ...STREAMS, "nothing"]) {
            if (due === "expired") await expireAll(t);
            const handle = tenant === undefined ? admin : outbox.tenant(tenant);
            const limit = 1000;
            const claims = await handle.claim({
              worker: "w1",
              limit,
              ...(stream !== undefined && { stream }),
            });
            const inScope = all.filter(
              (row) => (tenant ?? row.tenant) === row.tenant && (stream ?? row.stream) === row.stream,
            );
            const scope = `${due} events of tenant ${tenant ?? "*"}, stream ${stream ?? "*"}`;
            assert.deepEqual(
              claims.map(({ rowId, tenant, stream }) => ({ rowId, tenant, stream })).sort(byRowId),
              inScope.sort(byRowId),
              `a claim of ${scope} must answer exactly those`,
            );
            const held = (await session.probe.deliveries()).filter(({ worker }) => worker === "w1");
            assert.deepEqual(
              held.map(({ rowId }) => rowId),
              inScope.map(({ rowId }) => rowId),
              `a claim of ${scope} must claim exactly those`,
            );
            if (claims.length > 0) await admin.release(claims);
          }
        }
      }
    },
  },
  {
    id: "CLAIM-07",
    level: 1,
    intent:
      "expired claims by expiry, in half of the places, then pending events by availability; ties by row id",
    async run(t) {
      const tenant = t.outbox.tenant("acme");
      const events = Array.from({ length: 18 }, () => event());
      const outcomes = await t.session.transaction((tx) => tenant.enqueueMany(tx.handle, events));
      const rowIds = outcomes.map(({ rowId }) => rowId).sort((a, b) => a - b);
      const scopes: readonly ((options: ClaimOptions) => Promise<readonly Claim[]>)[] = [
        (options) => t.outbox.admin().claim(options),
        (options) => t.outbox.admin().claim({ ...options, stream: "orders" }),
        (options) => tenant.claim(options),
        (options) => tenant.claim({ ...options, stream: "orders" }),
      ];
      let scenario = 0;
      for (const [expired, pending] of MIXES) {
        for (const limit of [1, 2, 3, 5, 10]) {
          const due = await arrange(t, rowIds, { expired, pending, expiredFirst: scenario % 2 === 0 });
          const claim = scopes[scenario % scopes.length];
          assert.ok(claim !== undefined);
          for (;;) {
            const [firstExpired, thenPending] = takeNext(due, limit);
            const claims = await claim({ worker: "w1", leaseMs: 60_000, limit });
            const what = `a claim of ${limit} among ${expired} expired and ${pending} pending`;
            assert.deepEqual(
              [claims.filter(({ reclaimed }) => reclaimed).length, claims.length],
              [firstExpired.length, firstExpired.length + thenPending.length],
              `${what} must give expired claims half of the places, and leave none free that can be filled`,
            );
            assert.deepEqual(
              claims.map(({ rowId }) => rowId),
              [...firstExpired, ...thenPending],
              `${what} must answer in order: expired by expiry, pending by availability, ties by row id`,
            );
            if (claims.length === 0) break;
          }
          scenario += 1;
        }
      }
    },
  },
];

/** How many expired claims and pending events. */
const MIXES: readonly (readonly [number, number])[] = [
  [0, 7],
  [7, 0],
  [7, 7],
  [1, 9],
  [9, 1],
  [3, 9],
  [12, 4],
];

interface Due {
  readonly rowId: number;
  readonly at: number;
}

interface DueRows {
  expired: Due[];
  pending: Due[];
}

/**
 * Makes rows due behind the driver's back, and answers them in the order of the contract. Row ids, kinds and
 * times are interleaved; times are microseconds apart, with ties; what must not order them is in another order.
 */
async function arrange(
  { session }: CaseContext,
  rowIds: readonly number[],
  plan: { readonly expired: number; readonly pending: number; readonly expiredFirst: boolean },
): Promise<DueRows> {
  const now = await session.probe.now();
  const [older, newer] = [now - 10 * MINUTE, now - 5 * MINUTE];
  const due: DueRows = { expired: [], pending: [] };
  const nothing = {
    attempts: 3,
    forgiven: 1,
    token: null,
    worker: null,
    shared: null,
    expiresAt: null,
    deliveredAt: null,
  };
  for (const [index, rowId] of rowIds.entries()) {
    const rank = (index * 7) % 5;
    const wantsExpired = due.expired.length < plan.expired;
    const wantsPending = due.pending.length < plan.pending;
    if (wantsExpired && (index % 2 === 0 || !wantsPending)) {
      const expiresAt = (plan.expiredFirst ? older : newer) + rank;
      due.expired.push({ rowId, at: expiresAt });
      const claim = { token: "0123456789abcdef".repeat(2), worker: "gone", shared: false, expiresAt };
      const availableAt = older - MINUTE - rank;
      await session.faults.overwriteDelivery(rowId, { ...nothing, state: "claimed", availableAt, ...claim });
    } else if (wantsPending) {
      const availableAt = (plan.expiredFirst ? newer : older) + rank;
      due.pending.push({ rowId, at: availableAt });
      await session.faults.overwriteDelivery(rowId, { ...nothing, state: "pending", availableAt });
    } else {
      const delivered = { state: "delivered", availableAt: older, deliveredAt: newer } as const;
      await session.faults.overwriteDelivery(rowId, { ...nothing, ...delivered });
    }
  }
  due.expired.sort((a, b) => a.at - b.at || a.rowId - b.rowId);
  due.pending.sort((a, b) => a.at - b.at || a.rowId - b.rowId);
  assert.deepEqual(
    [due.expired.length, due.pending.length],
    [plan.expired, plan.pending],
    "more rows are needed",
  );
  return due;
}

/** Takes what the next claim has to answer. */
function takeNext(due: DueRows, limit: number): readonly [readonly number[], readonly number[]] {
  const share = Math.min(due.expired.length, Math.max(1, Math.floor(limit / 2)));
  const pending = due.pending.splice(0, limit - share);
  const expired = due.expired.splice(0, limit - pending.length);
  return [expired.map(({ rowId }) => rowId), pending.map(({ rowId }) => rowId)];
}

/** Makes every row of the space an expired claim. */
async function expireAll({ session, outbox }: CaseContext): Promise<void> {
  const claims = await outbox.admin().claim({ worker: "gone", limit: 1000 });
  await session.faults.expireLeases(claims.map(({ rowId }) => rowId));
}

function byRowId(a: { readonly rowId: number }, b: { readonly rowId: number }): number {
  return a.rowId - b.rowId;
}
