/** A producer of a soak: batches with new and repeated events, in transactions of which some are rolled back. */
import { setTimeout as pause } from "node:timers/promises";
import type { EnqueueManyOutcome } from "@dovecote/core";
import type { OpenTransaction } from "../define-harness.ts";
import type { ItemResult, Recorded } from "../history/record.ts";
import { idOf, type Stage, TENANTS } from "./soak-role.ts";

/** Producers repeat these events of one another. */
const TWINS = 20;

export async function produce(stage: Stage): Promise<never> {
  const { recorder, random, p } = stage;
  for (let batch = 0; ; batch++) {
    const tenant = random.pick(TENANTS);
    const ids = Array.from({ length: 1 + random.below(5) }, (_, index) =>
      random.chance(0.25) ? `twin-${random.below(TWINS)}` : `${p}-${batch}-${index}`,
    );
    const undo = random.chance(0.2);
    const items = ids.map((id) => ({ id: idOf(tenant, id) }));
    await recorder.call("enqueue", items, () => enqueue(stage, tenant, ids, { undo, row: `${p}-${batch}` }));
    await pause(random.below(25));
  }
}

async function enqueue(
  { session, outbox }: Stage,
  tenant: string,
  ids: readonly string[],
  { undo, row }: { readonly undo: boolean; readonly row: string },
): Promise<Recorded<null>> {
  const events = ids.map((id) => ({ stream: "soak", type: "soak", source: "/soak", id, data: { id } }));
  const all = (type: ItemResult["type"], answer: string): Recorded<null> => ({
    value: null,
    items: ids.map((id) => ({ id: idOf(tenant, id), type, answer })),
  });
  const tx = await session.begin().catch(() => undefined);
  // The application's own client may be refused, as when the database is locked.
  if (tx === undefined) return all("fail", "notBegun");
  const outcomes = await within(tx, async () => {
    await tx.writeBusinessRow(row);
    return outbox.tenant(tenant).enqueueMany(tx.handle, events);
  });
  if (undo) {
    await tx.rollback();
    return all("fail", "rolledBack");
  }
  try {
    await tx.commit();
  } catch {
    return all("info", "commitFailed");
  }
  return {
    value: null,
    items: outcomes.map(({ id, outcome, rowId }) => ({
      id: idOf(tenant, id),
      rowId,
      type: "ok",
      answer: outcome,
    })),
  };
}

/** Rolls back if the body throws. */
async function within(
  tx: OpenTransaction,
  body: () => Promise<readonly EnqueueManyOutcome[]>,
): Promise<readonly EnqueueManyOutcome[]> {
  try {
    return await body();
  } catch (error) {
    await tx.rollback();
    throw error;
  }
}
