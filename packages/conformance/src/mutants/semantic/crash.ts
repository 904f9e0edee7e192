import { setTimeout as delay } from "node:timers/promises";
import { breaking } from "./breaking.ts";
import { deliveryOf, revive, type SemanticMutant } from "./define.ts";

/** Longer than it takes to kill a process. */
const LATER_MS = 300;

export const crash: readonly SemanticMutant[] = [
  breaking("claims-of-the-dead-live-on", "CRASH-02", /taken over exactly once/, (driver, session) => ({
    async claim(request) {
      await revive(session, await session.probe.deliveries());
      return driver.claim(request);
    },
  })),
  breaking("attempt-counted-at-failure", "CRASH-03", /next attempt/, (driver, session) => ({
    async claim(request) {
      const rows = await driver.claim(request);
      for (const { rowId, attempt, reclaimed } of rows) {
        // Whoever died never came to count the attempt.
        if (reclaimed) await session.faults.overwriteDelivery(rowId, { attempts: attempt - 1 });
      }
      return rows.map((row) => (row.reclaimed ? { ...row, attempt: row.attempt - 1 } : row));
    },
  })),
  breaking("acks-in-the-background", "CRASH-04", /before the kill must be delivered/, (driver) => ({
    async settle(tenant, items) {
      delay(LATER_MS)
        .then(() => driver.settle(tenant, items))
        .catch(() => {});
      return items.map(() => ({ outcome: "applied" }) as const);
    },
  })),
  breaking("zombies-renew", "CRASH-06", /zombie/, (driver, session) => ({
    async renew(tenant, items) {
      const forged = items.map(async (item) => {
        const row = await deliveryOf(session, item.rowId);
        return row?.token ? { ...item, attempt: row.attempts, token: Buffer.from(row.token, "hex") } : item;
      });
      return driver.renew(tenant, await Promise.all(forged));
    },
  })),
  breaking(
    "events-die-with-their-workers",
    "CRASH-07",
    /must be deliverable afterwards/,
    (driver, session) => ({
      async claim(request) {
        await revive(session, await session.probe.deliveries());
        return driver.claim(request);
      },
    }),
    { serverSide: false },
  ),
];
