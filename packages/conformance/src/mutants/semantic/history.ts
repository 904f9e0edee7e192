/** Faults that show in long runs: each of the other guarantees holds most of the time. */
import { override, overrideKeys } from "../../override.ts";
import { deliveryOf, type SemanticMutant } from "./define.ts";

/** How often the rare fault happens. */
const ONE_IN = 8;
const HOUR_MS = 3_600_000;

export const history: readonly SemanticMutant[] = [
  {
    name: "a-live-lease-taken-over-now-and-then",
    breaks: "HIST-01",
    because: /H3/,
    wrap({ driver, probe, faults }) {
      let claims = 0;
      return override(driver, {
        async claim(request) {
          claims += 1;
          const held = claims % ONE_IN === 0 ? await probe.deliveries() : [];
          const live = held.filter(({ state }) => state === "claimed").map(({ rowId }) => rowId);
          await faults.expireLeases(live);
          return driver.claim(request);
        },
      });
    },
  },
  {
    name: "a-live-key-taken-over-now-and-then",
    breaks: "HIST-01",
    because: /H7/,
    on: { keys: true },
    wrap({ driver, faults }) {
      let begins = 0;
      return overrideKeys(driver, (keys) => ({
        async begin(request) {
          begins += 1;
          if (begins % ONE_IN === 0) await faults.ageKeys(HOUR_MS);
          return keys.begin(request);
        },
      }));
    },
  },
  {
    name: "a-later-retry-is-forgiven",
    breaks: "MODEL-01",
    because: /store and model do not agree/,
    wrap: (session) =>
      override(session.driver, {
        async settle(tenant, items) {
          const outcomes = await session.driver.settle(tenant, items);
          for (const [place, item] of items.entries()) {
            if (item.action !== "retry" || item.attempt < 2 || outcomes[place]?.outcome !== "applied")
              continue;
            const row = await deliveryOf(session, item.rowId);
            if (row !== undefined)
              await session.faults.overwriteDelivery(item.rowId, { forgiven: row.forgiven + 1 });
          }
          return outcomes;
        },
      }),
  },
];
