import { breaking } from "./breaking.ts";
import { type SemanticMutant, storing } from "./define.ts";

const HOUR_US = 3_600_000_000;

/** What the process takes for the time, in microseconds. */
const processTime = (): number => Date.now() * 1000;

export const clock: readonly SemanticMutant[] = [
  breaking("leases-end-early", "CLOCK-01", /expire early/, (driver, { probe, faults }) => ({
    async claim(request) {
      const soon = (await probe.now()) + HOUR_US;
      const ending = (await probe.deliveries()).filter(({ expiresAt }) => (expiresAt ?? soon) < soon);
      await faults.expireLeases(ending.map(({ rowId }) => rowId));
      return driver.claim(request);
    },
  })),
  breaking("leases-never-end", "CLOCK-01", /expire within/, (driver, { probe, faults }) => ({
    async claim(request) {
      const later = (await probe.now()) + HOUR_US;
      for (const { rowId, state } of await probe.deliveries())
        if (state === "claimed") await faults.overwriteDelivery(rowId, { expiresAt: later });
      return driver.claim(request);
    },
  })),
  breaking("lease-from-the-workers-clock", "CLOCK-02", /lease|expiry/, (driver, { faults }) => ({
    async claim(request) {
      const rows = await driver.claim(request);
      const expiresAt = processTime() + request.leaseMs * 1000;
      for (const { rowId } of rows) await faults.overwriteDelivery(rowId, { expiresAt });
      return rows.map((row) => ({ ...row, expiresAt }));
    },
  })),
  breaking("leases-judged-by-the-workers-clock", "CLOCK-02", /clock is off/, (driver, { probe, faults }) => ({
    async claim(request) {
      const now = processTime();
      const over = (await probe.deliveries()).filter(
        ({ expiresAt }) => expiresAt !== null && expiresAt <= now,
      );
      await faults.expireLeases(over.map(({ rowId }) => rowId));
      return driver.claim(request);
    },
  })),
  {
    name: "times-in-the-zone-of-the-process",
    breaks: "CLOCK-04",
    because: /a time must/,
    wrap: (session) =>
      storing(session, (event) => ({ ...event, time: event.time === null ? null : localTime(event.time) })),
  },
];

/** The time that a clock on the wall shows, passed off as UTC. */
function localTime(time: string): string {
  const date = new Date(time);
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString();
}
