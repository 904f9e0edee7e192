/** Quarantined rows back to pending, in autocommit or, behind its guard, in the caller's transaction. */
import { BOUNDS, type DeliveryState, type RedriveFilter, type RedriveOutcome } from "@dovecote/core";
import type { Guarded } from "./guard.ts";
import { safeRowId } from "./rows.ts";
import type { StatementTexts } from "./statements.ts";
import type { Via } from "./transaction.ts";

export async function redrive(
  { answers, guard, run }: Via,
  texts: StatementTexts,
  tenant: string | null,
  rowId: number,
): Promise<RedriveOutcome> {
  const parameters = [guard, tenant, String(rowId)];
  const { outcome } = await run(async () => {
    const applied = await answers(texts.redrive, parameters);
    if (applied.length === 1) return { guarded: true, outcome: { outcome: "applied" } as const };
    const [found] = await answers(texts.redriveState, parameters);
    return toRefusal(JSON.parse(String(found)) as RedriveState);
  });
  return outcome;
}

interface RedriveState extends Guarded {
  readonly state: DeliveryState | null;
  readonly attempts: number | null;
}

function toRefusal({
  guarded,
  state,
  attempts,
}: RedriveState): Guarded & { readonly outcome: RedriveOutcome } {
  if (state === null) return { guarded, outcome: { outcome: "notFound" } };
  if (state === "quarantined" && attempts === BOUNDS.attempt) {
    return { guarded, outcome: { outcome: "counterOverflow" } };
  }
  return { guarded, outcome: { outcome: "illegalTransition", state } };
}

export async function redriveMany(
  { answers, guard, run }: Via,
  texts: StatementTexts,
  { tenant, stream, failureCode, limit, dryRun }: RedriveFilter,
): Promise<readonly number[]> {
  const text = dryRun ? texts.redriveManyDry : texts.redriveMany;
  const parameters = [tenant, stream, failureCode, String(limit), guard];
  const { rowIds } = await run(async () => {
    const [answer] = await answers(text, parameters);
    return JSON.parse(String(answer)) as Guarded & { readonly rowIds: readonly string[] };
  });
  return rowIds.map(safeRowId);
}
