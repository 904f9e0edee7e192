/** A payer of a soak: claims idempotency keys that others claim as well, and pays, in time or too late, whole or not at all. */
import { setTimeout as pause } from "node:timers/promises";
import type { KeyClaim } from "@dovecote/core";
import { fingerprint } from "@dovecote/core";
import type { OpenTransaction } from "../define-harness.ts";
import { KEY_ID } from "../history/keys.ts";
import { type ItemResult, type Recorded, tokenHash } from "../history/record.ts";
import type { Stage } from "./soak-role.ts";

/** Payers want the same few keys for so long. */
const ERA_MS = 400;
const KEYS = 3;
const LONG_LEASE_MS = 60_000;
const REQUEST = fingerprint.json("{}");

export async function pay(stage: Stage): Promise<never> {
  const { random } = stage;
  for (;;) {
    const key = `${Math.floor(Date.now() / ERA_MS)}-${random.below(KEYS)}`;
    const leaseMs = random.chance(0.6) ? 60 + random.below(150) : LONG_LEASE_MS;
    const claim = await begin(stage, key, leaseMs);
    if (claim !== undefined) await use(stage, key, claim, leaseMs);
    await pause(random.below(15));
  }
}

/** What was answered, for the record; the claim if there is one. */
export async function begin(
  { outbox, recorder }: Pick<Stage, "outbox" | "recorder">,
  key: string,
  leaseMs: number,
): Promise<KeyClaim | undefined> {
  const id = `${KEY_ID}${key}`;
  return recorder.call("begin", [{ id }], async () => {
    const scope = { principal: null, method: "POST", path: "/soak" };
    const begun = await outbox.keys.begin({ scope, key, fingerprint: REQUEST, takeover: "rerun", leaseMs });
    const item = (rest: Partial<ItemResult>): readonly ItemResult[] => [
      { id, type: "ok", answer: begun.outcome, ...rest },
    ];
    if (begun.outcome === "acquired") {
      const { claim } = begun;
      const token = tokenHash(claim.token.reveal());
      const answer = claim.takenOver ? "takenOver" : "acquired";
      return { value: claim, items: item({ token, attempt: claim.attempt, leaseMs, answer }) };
    }
    const replayed =
      begun.outcome === "replay"
        ? { token: Buffer.from(begun.response.body).toString() }
        : { type: "fail" as const };
    return { value: undefined, items: item(replayed) };
  });
}

async function use(stage: Stage, key: string, claim: KeyClaim, leaseMs: number): Promise<void> {
  const { outbox, random, recorder } = stage;
  const subject = { id: `${KEY_ID}${key}`, token: tokenHash(claim.token.reveal()) };
  const applied = async (work: Promise<unknown>): Promise<Recorded<null>> => {
    await work;
    return { value: null, items: [{ ...subject, type: "ok" }] };
  };
  const what = random.below(20);
  // Forgotten: the lease ends by itself.
  if (what === 0) return;
  if (what <= 2) {
    await recorder.call("release", [subject], () => applied(outbox.keys.release(claim)));
    return;
  }
  if (what <= 5) {
    const item = { ...subject, leaseMs: random.chance(0.5) ? 100 : LONG_LEASE_MS };
    await recorder.call("renew", [item], async () => {
      await outbox.keys.renew(claim, { leaseMs: item.leaseMs });
      return { value: null, items: [{ ...item, type: "ok" }] };
    });
  } else if (what <= 10 && leaseMs < LONG_LEASE_MS) await pause(leaseMs + random.below(60));
  else await pause(random.below(20));
  const tx = await stage.session.begin().catch(() => undefined);
  // The application's own client may be refused, as when the database is locked.
  if (tx !== undefined) await payIn(stage, tx, claim, subject, key);
}

/** The business row names the token, and so does the answer. */
async function payIn(
  { outbox, random, recorder }: Stage,
  tx: OpenTransaction,
  claim: KeyClaim,
  subject: { readonly id: string; readonly token: string },
  key: string,
): Promise<void> {
  const answer = { status: 200, body: subject.token };
  const isHeld = random.chance(0.6);
  const held = isHeld
    ? await recorder.call("hold", [subject], async () => ({
        value: await outbox.keys.hold(tx.handle, claim),
        items: [{ ...subject, type: "ok" as const }],
      }))
    : undefined;
  if (isHeld && held === undefined) {
    await tx.rollback().catch(() => {});
    return;
  }
  if (random.chance(0.3)) await pause(random.below(120));
  if (random.chance(0.1)) {
    await tx.rollback().catch(() => {});
    return;
  }
  await recorder.call("complete", [subject], async () => {
    try {
      await tx.writeBusinessRow(`${KEY_ID}${key}=${subject.token}`);
      await (held === undefined ? outbox.keys.complete(claim, answer, tx.handle) : held.complete(answer));
    } catch (error) {
      await tx.rollback().catch(() => {});
      throw error;
    }
    // What a commit that fails came to, nobody knows.
    const type = await tx.commit().then(
      () => "ok" as const,
      () => "info" as const,
    );
    return { value: null, items: [{ ...subject, type }] };
  });
}
