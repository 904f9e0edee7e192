import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { type Claim, isDovecoteError, type RandomBytes } from "@dovecote/core";
import type { Case, CaseContext } from "../case.ts";
import { refused, unchanged } from "./expect.ts";
import { claimed, enqueuedMany, expired } from "./given.ts";

const TOKEN_BYTES = 16;

export const claimEntropyCases: readonly Case[] = [
  {
    id: "CLAIM-09",
    level: 1,
    intent: "tokens are 128 random bits, distinct within a batch and from the ones stored before",
    async run(t) {
      const { session, outbox } = t;
      const ids = await enqueuedMany(t, 1000);
      const tokens: string[] = [];
      for (const worker of ["w1", "w2"]) {
        const claims = await outbox.claim({ worker, limit: 1000, leaseMs: 60_000 });
        tokens.push(...claims.map(({ token }) => token.reveal()));
        const stored = (await session.probe.deliveries()).map(({ token }) => token);
        const answered = [...claims].sort((a, b) => a.rowId - b.rowId).map(({ token }) => token.reveal());
        assert.deepEqual(stored, answered, "a claim must answer the tokens that are stored");
        await session.faults.expireLeases(ids);
      }
      assert.equal(
        new Set(tokens).size,
        2000,
        "tokens must be distinct within a batch and from the ones before",
      );
      assert.ok(
        tokens.every((token) => /^[0-9a-f]{32}$/.test(token)),
        "a token must be 128 bits",
      );
      for (let bit = 0n; bit < 128n; bit++) {
        const ones = tokens.filter((token) => ((BigInt(`0x${token}`) >> bit) & 1n) === 1n).length;
        // Fair coins leave this range once in 10^30 times.
        assert.ok(
          ones > 740 && ones < 1260,
          `bit ${bit} of the tokens must be random, it is set ${ones} times in 2000`,
        );
      }
    },
  },
  {
    id: "CLAIM-09",
    level: 1,
    intent: "a token that repeats the one stored before is refused by the statement that writes",
    async run(t) {
      const { session } = t;
      const stale = await expired(t);
      const stored = Buffer.from(stale.token.reveal(), "hex");
      for (const outbox of [
        t.reopen({ randomBytes: repeat(stored) }),
        (await t.connect({ randomBytes: repeat(stored) })).outbox,
      ]) {
        for (const handle of [outbox, outbox.admin()]) {
          await refusedWithoutEntropy(t, "a token that repeats the stored one", () =>
            handle.claim({ worker: "w2", limit: 1 }),
          );
        }
      }
      const almost = Buffer.from(stored);
      almost[TOKEN_BYTES - 1] = (almost[TOKEN_BYTES - 1] ?? 0) ^ 1;
      const claim = await claimed(t.reopen({ randomBytes: repeat(almost) }), { worker: "w2" });
      assert.equal(
        claim.token.reveal(),
        almost.toString("hex"),
        "a token that differs in one bit is another one",
      );
      const [row] = await session.probe.deliveries();
      assert.equal(row?.token, almost.toString("hex"), "the token that was drawn must be stored");
    },
  },
  {
    id: "CLAIM-10",
    level: 1,
    intent: "without entropy nothing changes, and tokens come from nothing else",
    async run(t) {
      const { session } = t;
      const ids = await enqueuedMany(t, 4);
      await t.outbox.claim({ worker: "gone", limit: 2 });
      await session.faults.expireLeases(ids.slice(0, 2));
      // Two expired claims and two pending events, and never more places than rows.
      for (const { what, source } of BROKEN_SOURCES) {
        for (const limit of [1, 2, 4]) {
          if (limit === 1 && what === REPEATING) continue;
          const claim = (outbox: CaseContext["outbox"]) => () => outbox.claim({ worker: "w1", limit });
          await refusedWithoutEntropy(t, what, claim(t.reopen({ randomBytes: source() })));
        }
      }
      for (const { what, source } of BROKEN_SOURCES) {
        const { outbox } = await t.connect({ randomBytes: source() });
        await refusedWithoutEntropy(t, what, () => outbox.admin().claim({ worker: "w1", limit: 4 }));
      }
      const drawn = new Set<string>();
      const recording: RandomBytes = (size) => {
        const bytes = randomBytes(size);
        for (let at = 0; at < size; at += TOKEN_BYTES) drawn.add(bytes.toString("hex", at, at + TOKEN_BYTES));
        return bytes;
      };
      const claims = await t.reopen({ randomBytes: recording }).claim({ worker: "w1", limit: 4 });
      assert.equal(claims.length, 4, "the rows must be claimable once there is entropy");
      const rows = await session.probe.deliveries();
      assert.ok(
        rows.every(({ token }) => token !== null && drawn.has(token)),
        "every token must come from the source of entropy, bit by bit",
      );
    },
  },
  {
    id: "CLAIM-14",
    level: 1,
    intent: "a failure after the first updates leaves the whole batch as it was",
    async run(t) {
      const { session } = t;
      const size = 10;
      const ids = await enqueuedMany(t, size);
      await t.outbox.claim({ worker: "gone", limit: size, shared: true });
      await session.faults.expireLeases(ids);
      // Every row has the same token stored, so that one bad draw fails, whichever row it is meant for.
      const stored = randomBytes(TOKEN_BYTES);
      for (const rowId of ids) {
        await session.faults.overwriteDelivery(rowId, { token: stored.toString("hex") });
      }
      for (let bad = 0; bad < size; bad++) {
        const claim = () =>
          t.reopen({ randomBytes: withTokenAt(bad, stored) }).claim({ worker: "w1", limit: size });
        await refusedWithoutEntropy(t, `token ${bad + 1} of ${size} that repeats the stored one`, claim);
      }
      // A source that fails on its second call is legal to notice or to need no more; half of a batch is not.
      const before = await session.probe.deliveries();
      const claims = await claimsOrNone(() =>
        t.reopen({ randomBytes: failsTheSecondTime() }).claim({ worker: "w2", limit: size }),
      );
      const after = await session.probe.deliveries();
      if (claims.length === 0)
        assert.deepEqual(after, before, "a failed claim must leave the whole batch as it was");
      const taken = after.filter(({ worker }) => worker === "w2").length;
      assert.equal(taken, claims.length, "a claim must be of the whole batch or of nothing");
      const rest = await t.outbox.claim({ worker: "w3", limit: size });
      assert.equal(claims.length + rest.length, size, "rows of a failed batch must stay claimable");
    },
  },
];

const REPEATING = "a source that repeats itself within a batch";

const BROKEN_SOURCES: readonly { readonly what: string; source(): RandomBytes }[] = [
  {
    what: "a source that throws",
    source: () => () => {
      throw new Error("the pool of entropy is empty");
    },
  },
  { what: "a source that answers nothing", source: () => () => new Uint8Array(0) },
  { what: "a source that is one byte short", source: () => (bytes) => randomBytes(bytes - 1) },
  { what: "a source that is one token short", source: () => (bytes) => randomBytes(bytes - TOKEN_BYTES) },
  {
    what: REPEATING,
    source: () => {
      let first: Uint8Array | undefined;
      return (size) => {
        const bytes = randomBytes(size);
        first ??= Uint8Array.from(bytes.subarray(0, TOKEN_BYTES));
        bytes.set(first, size - TOKEN_BYTES);
        return bytes;
      };
    },
  },
];

/** Draws one token for ever. */
function repeat(token: Uint8Array): RandomBytes {
  return (size) => Buffer.alloc(size, token);
}

/** Good randomness, but for one token of all that are drawn. */
function withTokenAt(position: number, token: Uint8Array): RandomBytes {
  let drawn = 0;
  return (size) => {
    const bytes = randomBytes(size);
    const at = position * TOKEN_BYTES - drawn;
    if (at >= 0 && at < size) bytes.set(token, at);
    drawn += size;
    return bytes;
  };
}

function failsTheSecondTime(): RandomBytes {
  let calls = 0;
  return (size) => {
    calls += 1;
    if (calls > 1) throw new Error("the pool of entropy is empty");
    return randomBytes(size);
  };
}

async function refusedWithoutEntropy(
  { session }: CaseContext,
  what: string,
  claim: () => Promise<readonly Claim[]>,
): Promise<void> {
  await unchanged(`a claim with ${what}`, session, () =>
    refused(`a claim with ${what}`, ["ENTROPY_UNAVAILABLE"], claim),
  );
}

async function claimsOrNone(claim: () => Promise<readonly Claim[]>): Promise<readonly Claim[]> {
  try {
    return await claim();
  } catch (error) {
    assert.ok(isDovecoteError(error, "ENTROPY_UNAVAILABLE"), `entropy failed, not this: ${String(error)}`);
    return [];
  }
}
