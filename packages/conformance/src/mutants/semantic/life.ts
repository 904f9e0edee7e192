import { setTimeout as delay } from "node:timers/promises";
import { DovecoteError } from "@dovecote/core";
import { breaking, breakingOutbox } from "./breaking.ts";
import type { SemanticMutant } from "./define.ts";

/** More than the 5 s in which a close has to settle. */
const TOO_LONG_MS = 7_000;
/** Longer than LIFE-05 watches. */
const LINGERING_MS = 20_000;

export const life: readonly SemanticMutant[] = [
  breakingOutbox("close-closes-nothing", "LIFE-01", /after the close must be refused with CLOSED/, () => ({
    close: async () => {},
  })),
  breakingOutbox("second-close-rejects", "LIFE-02", /close.* must be accepted/, (outbox) => {
    let calls = 0;
    return {
      async close() {
        calls += 1;
        if (calls === 2) throw new DovecoteError("CLOSED", "the store was closed already");
        await outbox.close();
      },
    };
  }),
  breaking("close-waits-for-goodbyes", "LIFE-03", /close after .* must be answered/, (driver) => {
    let opened = false;
    return {
      snapshot() {
        opened = true;
        return driver.snapshot();
      },
      async close() {
        if (opened) await delay(TOO_LONG_MS);
        await driver.close();
      },
    };
  }),
  breaking("close-leaves-a-timer", "LIFE-05", /timers and watchers must be gone/, (driver) => ({
    async close() {
      await driver.close();
      // One that ended by itself during a later run would hide what that run leaves.
      setInterval(() => {}, LINGERING_MS);
    },
  })),
];
