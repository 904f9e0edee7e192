import { describe, expect, it } from "vitest";
import { beginStep, type StoredKey } from "../../src/idempotency/begin.ts";
import { situationOf, sweepAt } from "../../src/idempotency/situation.ts";

const MS = 1000;
const fingerprint = { algorithm: "json-1", digest: new Uint8Array(32) };
const token = new Uint8Array(16);
const given = { fingerprint, takeover: "rerun", token: new Uint8Array(16).fill(9) } as const;

function claimed(overrides: Partial<StoredKey> = {}): StoredKey {
  const times = {
    takeover: "rerun",
    retentionMs: 100,
    tombstoneMs: 50,
    expiresAt: 1000 * MS,
    completedAt: null,
  } as const;
  return { ...times, fingerprint, attempt: 1, token, answer: null, ...overrides };
}

function completed(overrides: Partial<StoredKey> = {}): StoredKey {
  const answer = { status: 201, headers: "[]", body: new Uint8Array() };
  return claimed({ expiresAt: null, completedAt: 1000 * MS, token: null, answer, ...overrides });
}

describe("KEY-12, KEY-13: what a record is worth is a function of time, to the tick", () => {
  it.each([
    ["live until its lease ends", claimed(), 1000 * MS - 1, "live"],
    ["free from then on", claimed(), 1000 * MS, "free"],
    ["free until its retention ends", claimed(), 1100 * MS - 1, "free"],
    ["gone from then on", claimed(), 1100 * MS, "gone"],
    ["indeterminate if it refuses", claimed({ takeover: "refuse" }), 1000 * MS, "indeterminate"],
    ["indeterminate for ever", claimed({ takeover: "refuse" }), Number.MAX_SAFE_INTEGER, "indeterminate"],
    ["kept from its completion", completed(), 1000 * MS, "kept"],
    ["kept until its retention ends", completed(), 1100 * MS - 1, "kept"],
    ["a tombstone from then on", completed(), 1100 * MS, "tombstone"],
    ["a tombstone until its end", completed(), 1150 * MS - 1, "tombstone"],
    ["gone from then on, completed", completed(), 1150 * MS, "gone"],
    ["without a tombstone gone at once", completed({ tombstoneMs: 0 }), 1100 * MS, "gone"],
  ] as const)("%s", (_what, record, now, situation) => {
    expect(situationOf(record, now)).toBe(situation);
    const sweep = sweepAt(record);
    expect(sweep !== null && sweep <= now).toBe(situation === "gone");
  });
});

describe("what begin does", () => {
  it.each([
    ["nothing is there", undefined, 0, { write: "new" }],
    [
      "it is gone, whatever its fingerprint",
      completed({ fingerprint: { ...fingerprint, digest: new Uint8Array(31) } }),
      2000 * MS,
      { write: "new" },
    ],
    ["somebody is at it", claimed(), 999 * MS + 1, { outcome: "inFlight", remainingMs: 1 }],
    ["the lease is over", claimed(), 1000 * MS, { write: "takeover", attempt: 2 }],
    [
      "it may not be taken over",
      claimed({ takeover: "refuse" }),
      1000 * MS,
      { outcome: "indeterminate", since: 1000 * MS },
    ],
    ["it was long ago", completed(), 1100 * MS, { outcome: "expired", completedAt: 1000 * MS }],
    [
      "its answer was not kept",
      completed({ answer: { reason: "too large", status: 200 } }),
      1000 * MS,
      { outcome: "unreplayable", answer: { reason: "too large", status: 200 }, completedAt: 1000 * MS },
    ],
  ] as const)("when %s", (_what, stored, now, step) => {
    expect(beginStep(stored, given, now)).toEqual(step);
  });

  it("replays what was kept", () => {
    const stored = completed();
    expect(beginStep(stored, given, 1000 * MS)).toEqual({
      outcome: "replay",
      answer: stored.answer,
      completedAt: 1000 * MS,
    });
  });

  it("recognises its own claim, while it lives (KEY-14)", () => {
    const own = { ...given, token };
    expect(beginStep(claimed(), own, 999 * MS)).toEqual({
      outcome: "acquired",
      attempt: 1,
      expiresAt: 1000 * MS,
      takenOver: false,
    });
    expect(beginStep(claimed({ attempt: 3 }), own, 999 * MS)).toMatchObject({ takenOver: true });
    expect(beginStep(claimed(), own, 1000 * MS)).toEqual({ write: "takeover", attempt: 2 });
  });

  it("can only make the policy stricter (KEY-09)", () => {
    expect(beginStep(claimed(), { ...given, takeover: "refuse" }, 1000 * MS)).toEqual({
      write: "refuse",
      since: 1000 * MS,
    });
    expect(beginStep(claimed({ takeover: "refuse" }), given, 1000 * MS)).toMatchObject({
      outcome: "indeterminate",
    });
  });

  it("tells another request before everything else, and never by another algorithm (KEY-04)", () => {
    const other = { ...given, fingerprint: { algorithm: "json-1", digest: new Uint8Array(32).fill(1) } };
    const unknown = { ...given, fingerprint: { algorithm: "json-2", digest: new Uint8Array(32).fill(1) } };
    for (const [stored, now] of [
      [claimed(), 999 * MS],
      [claimed(), 1000 * MS],
      [claimed({ takeover: "refuse" }), 1000 * MS],
      [completed(), 1000 * MS],
      [completed(), 1100 * MS],
    ] as const) {
      expect(beginStep(stored, other, now)).toEqual({ outcome: "mismatch" });
      expect(beginStep(stored, unknown, now)).not.toEqual({ outcome: "mismatch" });
    }
    expect(beginStep(completed(), other, 1150 * MS)).toEqual({ write: "new" });
  });
});
