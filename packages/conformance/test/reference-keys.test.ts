/** What no case can show on every driver: who is refused while a transaction of the reference store is open. */
import { type BeginOptions, createDovecote } from "@dovecote/core";
import { beforeEach, expect, it } from "vitest";
import { ReferenceDriver, Store } from "../src/reference/index.ts";
import { ReferenceTransaction } from "../src/reference/transaction.ts";

const BUSY = { code: "STORE_BUSY", retryable: true };
const name = { scope: { principal: "user-1", method: "POST", path: "/" }, key: "k" };
const fingerprint = { algorithm: "json-1", digest: new Uint8Array(32) };
const options = { ...name, fingerprint, takeover: "rerun" } as const;
const mark = { consumer: "invoices", event: { source: "/shop", id: "1" } };

let store: Store;
let outbox: ReturnType<typeof open>;

function open() {
  return createDovecote(new ReferenceDriver(store));
}

async function acquired(times: Pick<BeginOptions, "leaseMs" | "retentionMs"> = {}) {
  const begun = await outbox.keys.begin({ ...options, ...times });
  if (begun.outcome !== "acquired") throw new Error(begun.outcome);
  return begun.claim;
}

async function untilGone(): Promise<void> {
  while ((await outbox.keys.inspect(name)).outcome === "found");
}

beforeEach(() => {
  store = new Store();
  outbox = open();
});

it("a held claim outlives its lease and its retention, for begin, the sweep and an operator", async () => {
  const claim = await acquired({ leaseMs: 200, retentionMs: 1 });
  const tx = new ReferenceTransaction(store);
  const held = await outbox.keys.hold(tx, claim);
  await untilGone();
  for (const takeover of ["rerun", "refuse"] as const) {
    expect(await outbox.keys.begin({ ...options, takeover })).toMatchObject({ outcome: "inFlight" });
  }
  expect(await outbox.keys.sweep()).toEqual({ swept: 0, more: false });
  await expect(outbox.keys.resolve(name, "released")).rejects.toMatchObject({ code: "ILLEGAL_TRANSITION" });
  await expect(outbox.keys.forget({ principal: "user-1" })).rejects.toMatchObject(BUSY);
  await held.complete({ status: 200 });
  tx.commit();
  expect(store.keys.size).toBe(1);
});

it("a lock ends with its transaction, or with a rollback to the savepoint before it", async () => {
  const claim = await acquired();
  const tx = new ReferenceTransaction(store);
  const undo = tx.savepoint();
  await outbox.keys.hold(tx, claim);
  await expect(outbox.keys.renew(claim)).rejects.toMatchObject(BUSY);
  await expect(outbox.keys.hold(new ReferenceTransaction(store), claim)).rejects.toMatchObject(BUSY);
  undo();
  await outbox.keys.renew(claim);
  await outbox.keys.hold(tx, claim);
  tx.rollback();
  await outbox.keys.release(claim);
});

it("a transaction sees its own answer, and nobody else does before the commit", async () => {
  const claim = await acquired();
  const tx = new ReferenceTransaction(store);
  await outbox.keys.complete(claim, { status: 200 }, tx);
  await expect(outbox.keys.complete(claim, { status: 200 }, tx)).rejects.toMatchObject({
    code: "ILLEGAL_TRANSITION",
  });
  expect(await outbox.keys.begin(options)).toMatchObject({ outcome: "inFlight" });
  tx.commit();
  store.refusal = "STORE_FULL";
  expect(await outbox.keys.begin(options)).toMatchObject({ outcome: "replay" });
  await expect(outbox.keys.begin({ ...options, key: "new" })).rejects.toMatchObject({ code: "STORE_FULL" });
});

it("a rival at the same event is refused, and is the first after a rollback", async () => {
  const [one, other] = [new ReferenceTransaction(store), new ReferenceTransaction(store)];
  const once = (tx: ReferenceTransaction) => outbox.inbox.once(tx, mark, () => "done");
  expect(await once(one)).toEqual({ outcome: "first", result: "done" });
  expect(await once(one)).toEqual({ outcome: "seen" });
  await expect(once(other)).rejects.toMatchObject(BUSY);
  one.rollback();
  expect(await once(other)).toEqual({ outcome: "first", result: "done" });
  other.commit();
  expect(await once(new ReferenceTransaction(store))).toEqual({ outcome: "seen" });
});
