/**
 * KEY-15: what is asked about a key while its owner's transaction is open is answered while it is open. Whatever waited for
 * the owner would wait for ever: the owner goes on when the answers are there.
 */
import type { BeginOptions, KeyClaim } from "@dovecote/core";
import type postgresClient from "postgres";
import { assert, describe, expect, it } from "vitest";
import { postgres } from "../src/index.ts";
import {
  acquired,
  named,
  OTHER_REQUEST,
  PRINCIPAL,
  pidOf,
  RESPONSE,
  request,
  retried,
} from "./keys-support.ts";
import { type Migrated, migrated, refused, until } from "./support.ts";

type Store = Migrated["dovecote"];

const SHORT_LEASE_MS = 2000;
const POLICIES = ["rerun", "refuse"] as const;

/** How an owner comes to have its record locked. */
const OWNERS: Readonly<
  Record<string, (dovecote: Store, tx: postgresClient.TransactionSql, claim: KeyClaim) => Promise<unknown>>
> = {
  "has hold": (dovecote, tx, claim) => dovecote.keys.hold(tx, claim),
  "has hold and has completed": async (dovecote, tx, claim) =>
    (await dovecote.keys.hold(tx, claim)).complete(RESPONSE),
  "has completed without hold": (dovecote, tx, claim) => dovecote.keys.complete(claim, RESPONSE, tx),
};

class Undone extends Error {}

interface Busy extends Migrated {
  /** Somebody else's store. */
  readonly rival: Store;
}

/** Runs `asked` while an owner's transaction has these keys locked, which is rolled back then. */
async function whileOwned(
  own: (typeof OWNERS)[string],
  keys: Readonly<Record<string, Partial<BeginOptions>>>,
  asked: (space: Busy) => Promise<void>,
): Promise<Busy> {
  const space = await migrated();
  const busy = { ...space, rival: postgres(space.other, { schema: space.schema }) };
  const claims: KeyClaim[] = [];
  for (const [key, overrides] of Object.entries(keys)) {
    claims.push(await acquired(space.dovecote, key, overrides));
  }
  const owned = space.sql.begin(async (tx) => {
    for (const claim of claims) await own(space.dovecote, tx, claim);
    await asked(busy);
    throw new Undone();
  });
  await expect(owned).rejects.toThrow(Undone);
  return busy;
}

describe.each(Object.entries(OWNERS))("its owner %s", (_what, owner) => {
  it("while the lease lives, begin answers", async () => {
    const keys = { rerun: { takeover: "rerun" }, refuse: { takeover: "refuse" } } as const;
    const { dovecote } = await whileOwned(owner, keys, async ({ rival }) => {
      for (const key of POLICIES) {
        for (const takeover of POLICIES) {
          const begun = await rival.keys.begin(request(key, { takeover }));
          assert(begun.outcome === "inFlight");
          expect(begun.retryAfterMs).toBeGreaterThan(0);
          expect(await retried(rival, key, { takeover, fingerprint: OTHER_REQUEST })).toBe("mismatch");
        }
      }
    });
    for (const key of POLICIES) expect(await retried(dovecote, key)).toBe("inFlight");
  });

  it("after the lease, whatever is asked is answered, and changes nothing", async () => {
    const short = { leaseMs: SHORT_LEASE_MS } as const;
    const keys = {
      rerun: { ...short, takeover: "rerun" },
      refuse: { ...short, takeover: "refuse" },
      old: { ...short, takeover: "rerun", retentionMs: 1 },
    } as const;
    const { dovecote } = await whileOwned(owner, keys, async ({ rival, other, schema }) => {
      const now = other`clock_timestamp() - interval '1 millisecond'`;
      await until(async () => {
        const live =
          await other`select 1 from ${other(schema)}.dovecote_idempotency_keys where claim_expires_at >= ${now}`;
        return live.length === 0;
      });
      for (const takeover of POLICIES) {
        for (const key of Object.keys(keys)) {
          const begun = await rival.keys.begin(request(key, { takeover }));
          assert(begun.outcome === "inFlight", `${key}, ${takeover}: ${begun.outcome}`);
          expect(begun.retryAfterMs).toBeGreaterThan(0);
        }
        for (const key of POLICIES) {
          expect(await retried(rival, key, { takeover, fingerprint: OTHER_REQUEST })).toBe("mismatch");
        }
      }
      expect(await rival.keys.sweep()).toEqual({ swept: 0, more: false });
      await rival.keys.list({ stuck: true });
      for (const key of POLICIES) {
        const found = await rival.keys.inspect(named(key));
        assert(found.outcome === "found");
        // What its owner did is not committed.
        expect(found.record.attempt).toBe(1);
        expect(found.record.completedAt).toBeUndefined();
        for (const to of ["completed", "released"] as const) {
          await refused("ILLEGAL_TRANSITION", () => rival.keys.resolve(named(key), to));
        }
      }
    });
    expect(await retried(dovecote, "refuse")).toBe("indeterminate");
    expect(await dovecote.keys.begin(request("rerun"))).toMatchObject({
      outcome: "acquired",
      claim: { attempt: 2, takenOver: true },
    });
    expect(await dovecote.keys.sweep()).toEqual({ swept: 1, more: false });
    await dovecote.keys.resolve(named("refuse"), "completed");
    expect(await retried(dovecote, "refuse")).toBe("unreplayable");
  });

  it("others begin and complete other keys", async () => {
    await whileOwned(owner, { mine: {} }, async ({ rival }) => {
      await rival.keys.complete(await acquired(rival, "another"), RESPONSE);
      expect(await retried(rival, "another")).toBe("replay");
    });
  });
});

describe("forget deletes what is held as well, when its owner's transaction is over", () => {
  it.each(["commit", "rollback"] as const)("by its %s", async (end) => {
    const { sql, other, schema, dovecote } = await migrated();
    const rival = postgres(other, { schema });
    const claim = await acquired(dovecote, "held");
    await acquired(dovecote, "free");
    await acquired(dovecote, "another's", { scope: { ...named("").scope, principal: "user-2" } });
    const forgetting: ReturnType<typeof rival.keys.forget>[] = [];
    const owned = sql.begin(async (tx) => {
      await (await dovecote.keys.hold(tx, claim)).complete(RESPONSE);
      const pid = await pidOf(tx);
      const forget = rival.keys.forget({ principal: PRINCIPAL });
      forgetting.push(forget);
      const waits = until(async () => {
        const waiting =
          await sql`select 1 from pg_stat_activity where ${pid}::integer = any (pg_blocking_pids(pid))`;
        return waiting.length > 0;
      });
      await Promise.race([forget, waits]);
      if (end === "rollback") throw new Undone();
    });
    if (end === "commit") await owned;
    else await expect(owned).rejects.toThrow(Undone);
    expect(await forgetting[0]).toEqual({ forgotten: 2, more: false });
    for (const key of ["held", "free"]) {
      expect(await dovecote.keys.inspect(named(key))).toEqual({ outcome: "notFound" });
    }
    await refused("NOT_FOUND", () => dovecote.keys.complete(claim, RESPONSE));
    const left = await other`select 1 from ${other(schema)}.dovecote_idempotency_keys`;
    expect(left).toHaveLength(1);
  });
});
