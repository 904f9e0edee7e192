import type { RenewOutcome } from "@dovecote/core";
import type { AnyDriver, Session } from "../../define-harness.ts";
import { override } from "../../override.ts";
import { deliveryOf, hex, meanwhile, revive, type SemanticMutant, withCurrentToken } from "./define.ts";

export const lease: readonly SemanticMutant[] = [
  {
    name: "live-leases-taken-over",
    breaks: "LEASE-01",
    because: /a claim of a leased row must leave every row byte-identical|a live lease must exclude/,
    wrap: ({ driver, probe, faults }) =>
      override(driver, {
        async claim(request) {
          const held = (await probe.deliveries()).filter(({ state }) => state === "claimed");
          await faults.expireLeases(held.map(({ rowId }) => rowId));
          return driver.claim(request);
        },
      }),
  },
  {
    name: "renew-adds-to-the-old-expiry",
    breaks: "LEASE-03",
    because: /the renewed expiry must be the database's time/,
    wrap: (session) =>
      override(session.driver, {
        async renew(tenant, items) {
          const before = await Promise.all(items.map(({ rowId }) => deliveryOf(session, rowId)));
          const outcomes = await session.driver.renew(tenant, items);
          for (const [index, { rowId, leaseMs }] of items.entries()) {
            const expiresAt = before[index]?.expiresAt;
            if (outcomes[index]?.outcome !== "applied" || typeof expiresAt !== "number") continue;
            await session.faults.overwriteDelivery(rowId, { expiresAt: expiresAt + leaseMs * 1000 });
          }
          return outcomes;
        },
      }),
  },
  {
    name: "renew-without-token",
    breaks: "LEASE-04",
    because: /renew with a superseded token.* but it was accepted/,
    wrap: (session) =>
      override(session.driver, {
        renew: async (tenant, items) =>
          session.driver.renew(
            tenant,
            await Promise.all(items.map((item) => withCurrentToken(session, item))),
          ),
      }),
  },
  {
    name: "renew-loses-every-race",
    breaks: "LEASE-05",
    because: /a live lease must be renewed/,
    wrap: ({ driver }) =>
      override(driver, { renew: async (_tenant, items) => items.map(() => ({ outcome: "lostClaim" })) }),
  },
  {
    name: "renew-checks-then-writes",
    breaks: "LEASE-05",
    because: /must not both win/,
    wrap: (session) =>
      override(session.driver, {
        async renew(_tenant, items): Promise<readonly RenewOutcome[]> {
          const outcomes: RenewOutcome[] = [];
          for (const { rowId, attempt, token, leaseMs } of items) {
            const row = await deliveryOf(session, rowId);
            const now = await session.probe.now();
            const proven = row?.attempts === attempt && row.token === hex(token);
            if (!proven || (row.expiresAt ?? 0) <= now) {
              outcomes.push({ outcome: "lostClaim" });
              continue;
            }
            await meanwhile(session);
            const expiresAt = (await session.probe.now()) + leaseMs * 1000;
            await session.faults.overwriteDelivery(rowId, { expiresAt });
            outcomes.push({ outcome: "applied", expiresAt });
          }
          return outcomes;
        },
      }),
  },
  {
    name: "renew-revives-expired",
    breaks: "LEASE-06",
    because: /renew of an expired lease.* but it was accepted/,
    wrap: renewingExpired,
  },
  {
    name: "lease-in-whole-seconds",
    breaks: "LEASE-07",
    because: /the expiry of a lease of \d+ ms must be/,
    wrap: ({ driver }) =>
      override(driver, {
        claim: (request) => driver.claim({ ...request, leaseMs: Math.ceil(request.leaseMs / 1000) * 1000 }),
      }),
  },
];

function renewingExpired(session: Session): AnyDriver {
  return override(session.driver, {
    async renew(tenant, items) {
      await revive(session, items);
      return session.driver.renew(tenant, items);
    },
  });
}
