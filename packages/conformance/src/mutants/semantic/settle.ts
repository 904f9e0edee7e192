import type { SettleItem } from "@dovecote/core";
import type { ProbedDelivery } from "../../define-harness.ts";
import { breaking } from "./breaking.ts";
import { deliveryOf, type SemanticMutant } from "./define.ts";

const HOUR_US = 3_600_000_000;

export const settle: readonly SemanticMutant[] = [
  afterSettling("ack-at-another-time", "SETTLE-01", /the time of delivery/, "ack", ({ deliveredAt }) => ({
    deliveredAt: (deliveredAt ?? 0) - HOUR_US,
  })),
  breaking("failed-commit-taken-for-ack", "SETTLE-01", /whose commit fails must be rejected/, (driver) => ({
    settle: (tenant, items) =>
      driver.settle(tenant, items).catch(() => items.map(() => ({ outcome: "applied" }) as const)),
  })),
  rewritten("retry-without-backoff", "SETTLE-02", /availability after a retry/, (item) =>
    item.action === "retry" ? { ...item, delayMs: 0 } : item,
  ),
  afterSettling("retry-forgets-failure", "SETTLE-02", /failure/, "retry", () => ({
    failureCode: null,
    failureDetail: null,
    failedAt: null,
  })),
  afterSettling("retry-is-forgiven", "SETTLE-02", /budget/, "retry", ({ attempts }) => ({
    forgiven: attempts,
  })),
  afterSettling("release-counts", "SETTLE-03", /forgive|budget/, "release", ({ forgiven }) => ({
    forgiven: forgiven - 1,
  })),
  afterSettling("release-forgets-failure", "SETTLE-03", /earlier failure/, "release", () => ({
    failureCode: null,
    failureDetail: null,
    failedAt: null,
  })),
  rewritten("never-quarantines", "SETTLE-04", /must make the row quarantined/, (item) => {
    if (item.action !== "quarantine") return item;
    const { rowId, attempt, token, reason } = item;
    return { action: "retry", rowId, attempt, token, delayMs: 0, failure: { code: "E", detail: reason } };
  }),
  afterSettling("quarantine-forgets-its-reason", "SETTLE-04", /reason/, "quarantine", () => ({
    quarantineReason: "-",
  })),
  breaking(
    "operators-quarantine-of-any-state",
    "SETTLE-04",
    /an operator's quarantine of a claimed row/,
    (driver, session) => ({
      async settle(tenant, items) {
        const claims = new Map((await session.probe.deliveries()).map((row) => [row.rowId, row]));
        return driver.settle(
          tenant,
          items.map((item) => {
            const row = claims.get(item.rowId);
            if (item.action !== "quarantinePending" || !row?.token) return item;
            const token = Buffer.from(row.token, "hex");
            return { ...item, action: "quarantine", attempt: row.attempts, token, failure: null };
          }),
        );
      },
    }),
  ),
  breaking("redrive-without-new-budget", "SETTLE-05", /forgiven|budget/, (driver, session) => ({
    async redrive(tenant, rowId) {
      const before = await deliveryOf(session, rowId);
      const outcome = await driver.redrive(tenant, rowId);
      if (before !== undefined) await session.faults.overwriteDelivery(rowId, { forgiven: before.forgiven });
      return outcome;
    },
  })),
  breaking("redrive-forgets-the-quarantine", "SETTLE-05", /quarantine's reason/, (driver, session) => ({
    async redrive(tenant, rowId) {
      const outcome = await driver.redrive(tenant, rowId);
      const nothing = { failureCode: null, failureDetail: null, failedAt: null };
      if (outcome.outcome === "applied") await session.faults.overwriteDelivery(rowId, nothing);
      return outcome;
    },
  })),
  breaking("redrive-beyond-its-cap", "SETTLE-05", /cap|rows/, (driver) => ({
    redriveMany: (filter) => driver.redriveMany({ ...filter, limit: Math.min(1000, filter.limit + 1) }),
  })),
  breaking("redrive-of-any-failure", "SETTLE-05", /failure code|code must be exact/, (driver) => ({
    redriveMany: (filter) => driver.redriveMany({ ...filter, failureCode: null }),
  })),
  breaking("dry-run-that-redrives", "SETTLE-05", /dry run/, (driver) => ({
    redriveMany: (filter) => driver.redriveMany({ ...filter, dryRun: false }),
  })),
  breaking("prune-whatever-is-old", "SETTLE-07", /prune must remove the one row/, (driver, session) => ({
    async prune(request) {
      const bound = (await session.probe.now()) - request.olderThanMs * 1000;
      for (const { rowId, state, availableAt } of await session.probe.deliveries()) {
        if (state === "pending" && availableAt <= bound) {
          await session.faults.overwriteDelivery(rowId, { state: "delivered", deliveredAt: availableAt });
        }
      }
      return driver.prune(request);
    },
  })),
  breaking("prune-of-any-age", "SETTLE-07", /delivered and old/, (driver) => ({
    prune: (request) => driver.prune({ ...request, olderThanMs: 1 }),
  })),
  breaking("prune-takes-quarantined-rows-unasked", "SETTLE-07", /prune must/, (driver) => ({
    prune: (request) => driver.prune({ ...request, quarantined: true }),
  })),
  breaking("prune-beyond-its-limit", "SETTLE-07", /limit/, (driver) => ({
    async prune(request) {
      let removed = 0;
      for (;;) {
        const batch = await driver.prune(request);
        if (batch === "busy") return batch;
        removed += batch;
        if (batch < request.limit) return Math.min(removed, request.limit);
      }
    },
  })),
];

/** Settles something else than what was asked for. */
function rewritten(
  name: string,
  breaks: string,
  because: RegExp,
  rewrite: (item: SettleItem) => SettleItem,
): SemanticMutant {
  return breaking(name, breaks, because, (driver) => ({
    settle: (tenant, items) => driver.settle(tenant, items.map(rewrite)),
  }));
}

/** Writes columns once more after a settlement that applied. */
function afterSettling(
  name: string,
  breaks: string,
  because: RegExp,
  action: SettleItem["action"],
  columns: (row: ProbedDelivery) => Partial<Omit<ProbedDelivery, "rowId">>,
): SemanticMutant {
  return breaking(name, breaks, because, (driver, session) => ({
    async settle(tenant, items) {
      const outcomes = await driver.settle(tenant, items);
      for (const [index, item] of items.entries()) {
        const row = await deliveryOf(session, item.rowId);
        if (row === undefined || item.action !== action || outcomes[index]?.outcome !== "applied") continue;
        await session.faults.overwriteDelivery(item.rowId, columns(row));
      }
      return outcomes;
    },
  }));
}
