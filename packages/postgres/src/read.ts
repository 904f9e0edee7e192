/** Everything that reads: pages, lists, counts, single rows. */
import type { CappedCount, ListRequest, PageRequest, StatsRecord, StoredRow } from "@dovecote/core";
import type { Run } from "./client.ts";
import { numberOrNull, safeRowId, toStoredRow } from "./rows.ts";
import type { StatementTexts } from "./statements.ts";

/** Above every row id. */
const END = "9223372036854775807";

export async function page(
  run: Run,
  texts: StatementTexts,
  { tenant, stream, after, upTo, limit }: PageRequest,
): Promise<readonly StoredRow[]> {
  const text = tenant === null ? texts.pageAll : texts.pageTenant;
  const range = [String(after), upTo === null ? END : String(upTo), String(limit)];
  return (await run(text, [tenant, stream, ...range])).map(toStoredRow);
}

export async function lastRowId(run: Run, texts: StatementTexts): Promise<number> {
  const [row] = await run(texts.lastRowId, []);
  return safeRowId(String(row?.[0]));
}

export async function inspect(
  run: Run,
  texts: StatementTexts,
  tenant: string | null,
  rowId: number,
): Promise<StoredRow | null> {
  const request = { tenant: null, stream: null, after: rowId - 1, upTo: rowId, limit: 1 };
  const [row] = await page(run, texts, request);
  return row === undefined || (tenant !== null && row.tenant !== tenant) ? null : row;
}

export async function list(
  run: Run,
  texts: StatementTexts,
  { state, tenant, stream, failureCode, before, limit }: ListRequest,
): Promise<readonly StoredRow[]> {
  const text = {
    pending: texts.listPending,
    claimed: texts.listClaimed,
    delivered: texts.listDelivered,
    quarantined: texts.listQuarantined,
  }[state];
  const position = before === null ? [null, null] : [String(before.at), String(before.rowId)];
  return (await run(text, [tenant, stream, failureCode, ...position, String(limit)])).map(toStoredRow);
}

export async function stats(
  run: Run,
  texts: StatementTexts,
  tenant: string | null,
  cap: number,
): Promise<StatsRecord> {
  const [row] = await run(tenant === null ? texts.statsAll : texts.statsTenant, [String(cap + 1), tenant]);
  const count = (index: number): CappedCount => {
    const found = Number(row?.[index]);
    return { count: Math.min(found, cap), exact: found <= cap };
  };
  return {
    due: count(0),
    scheduled: count(1),
    claimed: count(2),
    expired: count(3),
    quarantined: count(4),
    exhausted: count(5),
    oldestDueMs: numberOrNull(row?.[6]),
  };
}
