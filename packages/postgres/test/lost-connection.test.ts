/** A pool of one that loses its connection gets it back, however soon it is used again. */
import { isDovecoteError } from "@dovecote/core";
import { expect, it } from "vitest";
import { killBackend, type Migrated, migrated } from "./support.ts";

const KILLS = 10;

/** Calls again at once, without a pause, until it is answered; the codes of the refusals before. */
async function insisting(call: () => Promise<unknown>): Promise<readonly string[]> {
  const codes: string[] = [];
  for (;;) {
    try {
      await call();
      return codes;
    } catch (error) {
      codes.push(isDovecoteError(error) && error.retryable ? error.code : String(error));
      expect(codes.length, `refused again and again: ${codes}`).toBeLessThan(20);
    }
  }
}

async function kill({ sql, other }: Migrated): Promise<void> {
  const [backend] = await sql`select pg_backend_pid() as pid`;
  await killBackend(other, Number(backend?.pid));
}

it.each<[string, (store: Migrated) => Promise<unknown>]>([
  ["stats", ({ dovecote }) => dovecote.stats()],
  ["claim", ({ dovecote }) => dovecote.claim({ worker: "w" })],
  ["transaction", ({ dovecote }) => dovecote.transaction(async () => "done")],
  ["snapshot", async ({ dovecote }) => (await dovecote.snapshot()).close()],
])(
  "ERR-02: %s, called again at once after its connection was lost, is answered",
  async (_name, call) => {
    const store = await migrated({ max: 1 });
    await call(store);
    for (let kills = 0; kills < KILLS; kills++) {
      await kill(store);
      expect(new Set(await insisting(() => call(store)))).toSatisfy(
        (codes: ReadonlySet<string>) =>
          codes.size === 0 || (codes.size === 1 && codes.has("CONNECTION_LOST")),
      );
    }
    expect(await store.sql`select 1 as one`).toEqual([{ one: 1 }]);
  },
  30_000,
);
