/** Quarantined rows back to pending. */
import { BOUNDS, type DeliveryState, type RedriveFilter, type RedriveOutcome } from "@dovecote/core";
import type { Answers } from "./guard.ts";
import { safeRowId } from "./rows.ts";
import type { StatementTexts } from "./statements.ts";

export async function redrive(
  answers: Answers,
  texts: StatementTexts,
  tenant: string | null,
  rowId: number,
): Promise<RedriveOutcome> {
  const applied = await answers(texts.redrive, [tenant, String(rowId)]);
  if (applied.length === 1) return { outcome: "applied" };
  const [found] = await answers(texts.redriveState, [tenant, String(rowId)]);
  if (found === undefined) return { outcome: "notFound" };
  const { state, attempts } = JSON.parse(found) as { state: DeliveryState; attempts: number };
  if (state === "quarantined" && attempts === BOUNDS.attempt) return { outcome: "counterOverflow" };
  return { outcome: "illegalTransition", state };
}

export async function redriveMany(
  answers: Answers,
  texts: StatementTexts,
  { tenant, stream, failureCode, limit, dryRun }: RedriveFilter,
): Promise<readonly number[]> {
  const text = dryRun ? texts.redriveManyDry : texts.redriveMany;
  const [rowIds] = await answers(text, [tenant, stream, failureCode, String(limit)]);
  return (JSON.parse(String(rowIds)) as string[]).map(safeRowId);
}
