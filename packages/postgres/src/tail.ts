/** Reading only what is final, and where such a reader can begin after a snapshot. */
import { setTimeout as delay } from "node:timers/promises";
import { isDovecoteError, type PageRequest, type TailPage } from "@dovecote/core";
import type { Run } from "./client.ts";
import type { Finality } from "./finality.ts";
import { page } from "./read.ts";
import type { StatementTexts } from "./statements.ts";

/** How long a snapshot waits for transactions that are open, so that a tail need not repeat what it showed. */
const SETTLE_MS = 1000;

/** PAGE-04: the rows are read by a statement that began after they were known to be final. */
export async function tail(
  run: Run,
  texts: StatementTexts,
  finality: Finality,
  request: PageRequest,
): Promise<TailPage> {
  const { rowId, lastRowId, heldBackMs } = await finality.above(request.after);
  const upTo = Math.min(rowId, request.upTo ?? rowId);
  const rows = upTo > request.after ? await page(run, texts, { ...request, upTo }) : [];
  return { rows, upTo, lastRowId, heldBackMs };
}

/**
 * A row id below which nothing can appear any more (PAGE-06): the last one that is committed, if the transactions that
 * write now end soon. Otherwise what was known before, at worst 0; that is also what a standby knows.
 */
export async function cursorForTail(finality: Finality): Promise<number> {
  try {
    let { rowId, lastRowId: wanted } = await finality.look();
    for (let waited = 0, pause = 1; rowId < wanted && waited < SETTLE_MS; waited += pause, pause *= 2) {
      await delay(pause);
      ({ rowId } = await finality.look());
    }
    return rowId;
  } catch (error) {
    if (isDovecoteError(error) && error.code === "STORE_READ_ONLY") return 0;
    throw error;
  }
}
