/** A worker of a soak: claims, and then does everything to its claims that a worker can do, also too late. */
import { setTimeout as pause } from "node:timers/promises";
import type { Claim, SettleOutcome } from "@dovecote/core";
import { isDecoded } from "@dovecote/core";
import { type ItemResult, tokenHash } from "../history/record.ts";
import { idOf, type Stage, TENANTS } from "./soak-role.ts";

type Ending = "ack" | "retry" | "release" | "quarantine";

/** As often as they stand here. */
const ENDINGS: readonly Ending[] = [
  "ack",
  "ack",
  "ack",
  "ack",
  "retry",
  "release",
  "quarantine",
  "quarantine",
];
const FAILURE = { code: "SOAK", detail: "failed in a soak" };
/** Nobody is so slow. */
const LONG_LEASE_MS = 60_000;

export async function work(stage: Stage): Promise<never> {
  const { random } = stage;
  for (;;) {
    const leaseMs = random.chance(0.5) ? 100 + random.below(300) : LONG_LEASE_MS;
    const claims = await claim(stage, leaseMs);
    if (claims.length === 0) {
      await pause(5 + random.below(15));
      continue;
    }
    const what = random.below(20);
    if (what === 0) await stage.stalled(claims.map(({ rowId }) => rowId));
    else if (what <= 2 && leaseMs < LONG_LEASE_MS) await pause(leaseMs + random.below(100));
    // Forgotten: the lease ends by itself, or is ended when everything is.
    else if (what === 3) continue;
    else if (what <= 6) await renew(stage, claims, random.chance(0.5) ? 200 : LONG_LEASE_MS);
    // A handler that takes its time, above all after a takeover: so a stale write finds a live claim to spoil.
    else if (what <= 9 || claims.some(({ reclaimed }) => reclaimed)) await pause(random.below(60));
    if (random.chance(0.5)) await settle(stage, claims);
    else for (const one of claims) await settle(stage, [one]);
  }
}

async function claim({ outbox, recorder, random, p }: Stage, leaseMs: number): Promise<readonly Claim[]> {
  const handle = random.chance(0.5) ? outbox.admin() : outbox.tenant(random.pick(TENANTS));
  const options = { worker: p, leaseMs, limit: 1 + random.below(5), shared: random.chance(0.3) };
  const claims = await recorder.call("claim", [], async () => {
    const value = await handle.claim(options);
    const items = value.map(
      (each): ItemResult => ({
        ...subjectOf(each),
        leaseMs,
        type: "ok",
        answer: each.reclaimed ? "reclaimed" : "claimed",
      }),
    );
    return { value, items };
  });
  return claims ?? [];
}

async function renew({ outbox, recorder }: Stage, claims: readonly Claim[], leaseMs: number): Promise<void> {
  const items = claims.map((each) => ({ ...subjectOf(each), leaseMs }));
  await recorder.call("renew", items, async () => {
    const value = await outbox.admin().renew(claims, { leaseMs });
    return { value, items: judged(items, value) };
  });
}

async function settle({ outbox, recorder, random }: Stage, claims: readonly Claim[]): Promise<void> {
  const admin = outbox.admin();
  const calls: Readonly<Record<Ending, () => Promise<readonly SettleOutcome[]>>> = {
    ack: () => admin.ack(claims),
    retry: () => admin.retry(claims, { failure: FAILURE, delayMs: random.below(50) }),
    release: () => admin.release(claims, { delayMs: random.below(20) }),
    quarantine: () => admin.quarantine(claims, { reason: FAILURE.detail }),
  };
  const ending = random.pick(ENDINGS);
  const items = claims.map(subjectOf);
  const outcomes = await recorder.call(ending, items, async () => {
    const value = await calls[ending]();
    return { value, items: judged(items, value) };
  });
  if (ending !== "quarantine") return;
  for (const [index, { rowId, id }] of items.entries()) {
    if (outcomes?.[index]?.outcome !== "applied" || random.chance(0.3)) continue;
    await recorder.call("redrive", [{ id, rowId }], async () => {
      await admin.redrive(rowId);
      return { value: null, items: [{ id, rowId, type: "ok" }] };
    });
  }
}

function subjectOf({ tenant, event, rowId, attempt, token }: Claim) {
  const id = idOf(tenant, isDecoded(event) ? event.id : "undecodable");
  return { id, rowId, attempt, token: tokenHash(token.reveal()) };
}

function judged<T extends object>(
  items: readonly T[],
  outcomes: readonly { readonly outcome: string }[],
): readonly (T & ItemResult)[] {
  return items.map((item, index) => {
    const answer = outcomes[index]?.outcome ?? "unanswered";
    return { ...item, type: answer === "applied" ? "ok" : "fail", answer };
  });
}
