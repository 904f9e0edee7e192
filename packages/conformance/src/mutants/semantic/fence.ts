import {
  type ClaimRef,
  DovecoteError,
  isDovecoteError,
  type RedriveOutcome,
  type SettleItem,
  type SettleOutcome,
} from "@dovecote/core";
import type { AnyDriver, Session } from "../../define-harness.ts";
import { override } from "../../override.ts";
import { deliveryOf, hex, meanwhile, revive, type SemanticMutant, withCurrentToken } from "./define.ts";

const UNCLAIMED = { token: null, worker: null, shared: null, expiresAt: null } as const;

export const fence: readonly SemanticMutant[] = [
  settleWithoutToken("ack", "FENCE-01", /a stale ack.* but it was accepted/),
  settleWithoutToken("retry", "FENCE-02", /a stale retry.* but it was accepted/),
  settleWithoutToken("release", "FENCE-02", /a stale release.* but it was accepted/),
  settleWithoutToken("quarantine", "FENCE-02", /a stale quarantine.* but it was accepted/),
  {
    name: "spent-claim-answered-as-applied",
    breaks: "FENCE-03",
    because: /after the new holder's \w+ must be refused/,
    wrap: (session) =>
      judging(session, (outcome) =>
        outcome.outcome === "illegalTransition" ? { outcome: "applied" } : outcome,
      ),
  },
  {
    name: "attempts-reset-by-release",
    breaks: "FENCE-04",
    because: /attempt must/,
    wrap: ({ driver, faults }) =>
      override(driver, {
        async settle(tenant, items) {
          const outcomes = await driver.settle(tenant, items);
          for (const [index, { rowId, action }] of items.entries()) {
            if (action === "release" && outcomes[index]?.outcome === "applied")
              await faults.overwriteDelivery(rowId, { attempts: 0, forgiven: 0 });
          }
          return outcomes;
        },
      }),
  },
  {
    name: "settle-without-expiry",
    breaks: "FENCE-05",
    because: /an expired ack.* but it was accepted/,
    wrap: settlingExpired,
  },
  {
    name: "refusal-without-state",
    breaks: "FENCE-06",
    because: /must be refused with ILLEGAL_TRANSITION/,
    wrap: (session) =>
      judging(session, (outcome) =>
        outcome.outcome === "illegalTransition" ? { outcome: "lostClaim" } : outcome,
      ),
  },
  {
    name: "token-of-any-row-accepted",
    breaks: "FENCE-07",
    because: /with another row's token.* but it was accepted/,
    wrap: (session) =>
      override(session.driver, {
        async settle(tenant, items) {
          const tokens = new Set((await session.probe.deliveries()).map(({ token }) => token));
          const forged = items.map((item) =>
            "token" in item && tokens.has(hex(item.token)) ? withCurrentToken(session, item) : item,
          );
          return session.driver.settle(tenant, await Promise.all(forged));
        },
      }),
  },
  {
    name: "batch-settles-all-or-nothing",
    breaks: "FENCE-08",
    because: /a mixed batch must answer one outcome per item/,
    wrap: (session) =>
      override(session.driver, {
        async settle(tenant, items) {
          const valid = await Promise.all(items.map((item) => wouldApply(session, item)));
          if (valid.every(Boolean) || items.length === 1) return session.driver.settle(tenant, items);
          return items.map(() => ({ outcome: "lostClaim" }));
        },
      }),
  },
  {
    name: "settle-races-without-expiry",
    breaks: "FENCE-09",
    because: /an expired claim must not settle|must take the expired row over/,
    wrap: settlingExpired,
  },
  {
    name: "redrive-checks-then-writes",
    breaks: "FENCE-10",
    because: /exactly one redrive of a row must apply|a late redrive must not/,
    wrap: (session) =>
      override(session.driver, {
        async redrive(_tenant, rowId): Promise<RedriveOutcome> {
          const row = await deliveryOf(session, rowId);
          if (row === undefined) return { outcome: "notFound" };
          if (row.state !== "quarantined") return { outcome: "illegalTransition", state: row.state };
          await meanwhile(session);
          const availableAt = await session.probe.now();
          const pending = { state: "pending", quarantinedAt: null, quarantineReason: null } as const;
          await session.faults.overwriteDelivery(rowId, { ...pending, ...UNCLAIMED, availableAt });
          const gone = (await deliveryOf(session, rowId)) === undefined;
          return { outcome: gone ? "notFound" : "applied" };
        },
      }),
  },
  {
    name: "operators-quarantine-checks-then-writes",
    breaks: "FENCE-10",
    because: /a row that an operator quarantined must not be claimed, too/,
    wrap: (session) =>
      override(session.driver, {
        async settle(tenant, items) {
          const [item] = items;
          if (item?.action !== "quarantinePending") return session.driver.settle(tenant, items);
          const { rowId, reason } = item;
          const row = await deliveryOf(session, rowId);
          if (row?.state !== "pending") return session.driver.settle(tenant, items);
          await meanwhile(session);
          const quarantinedAt = await session.probe.now();
          const quarantined = { state: "quarantined", quarantinedAt, quarantineReason: reason } as const;
          await session.faults.overwriteDelivery(rowId, { ...quarantined, ...UNCLAIMED });
          return [{ outcome: "applied" }];
        },
      }),
  },
  {
    name: "name-taken-for-proof",
    breaks: "FENCE-11",
    because: /a claim by the name that holds the row|its own holder's name/,
    wrap: ({ driver, probe, faults }) =>
      override(driver, {
        async claim(request) {
          const own = (await probe.deliveries()).filter(({ worker }) => worker === request.worker);
          await faults.expireLeases(own.map(({ rowId }) => rowId));
          return driver.claim(request);
        },
      }),
  },
  {
    name: "repeated-row-judged-once",
    breaks: "FENCE-12",
    because: /a repeated row must be judged in input order/,
    wrap: ({ driver }) =>
      override(driver, {
        async settle(tenant, items) {
          const rowIds = [...new Set(items.map(({ rowId }) => rowId))];
          const first = rowIds.flatMap((rowId) => items.find((item) => item.rowId === rowId) ?? []);
          const outcomes = await driver.settle(tenant, first);
          return items.flatMap(({ rowId }) => outcomes[rowIds.indexOf(rowId)] ?? []);
        },
      }),
  },
  {
    name: "lost-reply-called-certain",
    breaks: "FENCE-13",
    because: /a lost reply must be reported as ambiguous/,
    on: { serverSide: true },
    wrap: ({ driver }) =>
      override(driver, {
        settle: (tenant, items) =>
          driver.settle(tenant, items).catch((error: unknown) => {
            if (!isDovecoteError(error)) throw error;
            const { code, message, retryable } = error;
            throw new DovecoteError(code, message, { retryable, cause: error });
          }),
      }),
  },
  {
    name: "lost-settlement-repeated",
    breaks: "FENCE-13",
    because: /an ack whose reply was lost must be answered/,
    on: { serverSide: true },
    wrapOutbox(outbox) {
      const ack = (claim: ClaimRef): Promise<void> =>
        outbox.ack(claim).catch((error: unknown) => {
          if (isDovecoteError(error) && error.ambiguous) return ack(claim);
          throw error;
        });
      return override(outbox, { ack: ack as typeof outbox.ack });
    },
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

/** A driver that answers other outcomes than what it did. */
function judging({ driver }: Session, change: (outcome: SettleOutcome) => SettleOutcome): AnyDriver {
  return override(driver, {
    settle: async (tenant, items) => (await driver.settle(tenant, items)).map(change),
  });
}

function settlingExpired(session: Session): AnyDriver {
  return override(session.driver, {
    async settle(tenant, items) {
      await revive(session, items);
      return session.driver.settle(tenant, items);
    },
  });
}

async function wouldApply(session: Session, item: SettleItem): Promise<boolean> {
  const row = await deliveryOf(session, item.rowId);
  if (!("token" in item)) return row?.state === "pending";
  const live = (row?.expiresAt ?? 0) > (await session.probe.now());
  return live && row?.attempts === item.attempt && row.token === hex(item.token);
}
