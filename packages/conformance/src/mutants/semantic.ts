/** Mutants of any driver: wrappers that break exactly one promise, whatever the database. */
import type { ClaimProof, SettleItem } from "@dovecote/core";
import type { AnyDriver, Mutant, Session } from "../define-harness.ts";
import { override } from "../override.ts";

export interface SemanticMutant extends Mutant {
  /** The driver of the session, broken. */
  wrap(session: Session): AnyDriver;
}

const DAY_US = 24 * 3600 * 1_000_000;

export const semanticMutants: readonly SemanticMutant[] = [
  settleWithoutToken("ack", "FENCE-01", /a stale ack/),
  settleWithoutToken("retry", "FENCE-02", /a stale retry/),
  settleWithoutToken("release", "FENCE-02", /a stale release/),
  settleWithoutToken("quarantine", "FENCE-02", /a stale quarantine/),
  {
    name: "renew-without-token",
    breaks: "LEASE-04",
    because: /renew/,
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
    name: "settle-without-expiry",
    breaks: "FENCE-05",
    because: /expired/,
    wrap: (session) =>
      override(session.driver, {
        async settle(tenant, items) {
          await revive(session, items);
          return session.driver.settle(tenant, items);
        },
      }),
  },
  {
    name: "renew-revives-expired",
    breaks: "LEASE-06",
    because: /expired/,
    wrap: (session) =>
      override(session.driver, {
        async renew(tenant, items) {
          await revive(session, items);
          return session.driver.renew(tenant, items);
        },
      }),
  },
  {
    name: "redrive-without-new-budget",
    breaks: "SETTLE-05",
    because: /forgiven|budget/,
    wrap: (session) =>
      override(session.driver, {
        async redrive(tenant, rowId) {
          const before = await deliveryOf(session, rowId);
          const outcome = await session.driver.redrive(tenant, rowId);
          if (before !== undefined)
            await session.faults.overwriteDelivery(rowId, { forgiven: before.forgiven });
          return outcome;
        },
      }),
  },
  {
    name: "claim-beyond-limit",
    breaks: "CLAIM-01",
    because: /limit|more than/,
    wrap: (session) =>
      override(session.driver, {
        claim: (request) => session.driver.claim({ ...request, limit: Math.min(1000, request.limit + 1) }),
      }),
  },
  {
    name: "claim-ignores-availability",
    breaks: "CLAIM-05",
    because: /future|available|due/,
    wrap: (session) =>
      override(session.driver, {
        async claim(request) {
          const now = await session.probe.now();
          for (const { rowId, state, availableAt } of await session.probe.deliveries()) {
            if (state === "pending" && availableAt > now) {
              await session.faults.overwriteDelivery(rowId, { availableAt: now });
            }
          }
          return session.driver.claim(request);
        },
      }),
  },
  {
    name: "tenant-ignored-at-settle",
    breaks: "TENANT-01",
    because: /tenant/,
    wrap: (session) =>
      override(session.driver, { settle: (_tenant, items) => session.driver.settle(null, items) }),
  },
  {
    name: "conflict-taken-for-duplicate",
    breaks: "ID-03",
    because: /IDENTITY_CONFLICT|conflict/,
    wrap: (session) =>
      override(session.driver, {
        enqueue(tx, tenant, rows) {
          const forgive = <T extends { outcome: string; rowId: number }>(outcomes: readonly T[]) =>
            outcomes.map(({ outcome, rowId }) =>
              outcome === "enqueued"
                ? ({ outcome, rowId } as const)
                : ({ outcome: "alreadyEnqueued", rowId } as const),
            );
          const answer = session.driver.enqueue(tx, tenant, rows);
          return answer instanceof Promise ? answer.then(forgive) : forgive(answer);
        },
      }),
  },
];

function settleWithoutToken(action: SettleItem["action"], breaks: string, because: RegExp): SemanticMutant {
  return {
    name: `${action}-without-token`,
    breaks,
    because,
    wrap: (session) =>
      override(session.driver, {
        async settle(tenant, items) {
          const forged = items.map((item) =>
            item.action === action && "token" in item ? withCurrentToken(session, item) : item,
          );
          return session.driver.settle(tenant, await Promise.all(forged));
        },
      }),
  };
}

/** The proof with the token that is stored right now: as if the token were not compared. */
async function withCurrentToken<T extends ClaimProof>(session: Session, proof: T): Promise<T> {
  const row = await deliveryOf(session, proof.rowId);
  return row?.token ? { ...proof, token: Buffer.from(row.token, "hex") } : proof;
}

/** Extends expired leases behind the driver's back: as if the expiry were not compared. */
async function revive(session: Session, items: readonly { readonly rowId: number }[]): Promise<void> {
  const now = await session.probe.now();
  for (const { rowId } of items) {
    const row = await deliveryOf(session, rowId);
    if (row?.state === "claimed" && row.expiresAt !== null && row.expiresAt <= now) {
      await session.faults.overwriteDelivery(rowId, { expiresAt: now + DAY_US });
    }
  }
}

async function deliveryOf(session: Session, rowId: number) {
  return (await session.probe.deliveries()).find((delivery) => delivery.rowId === rowId);
}
