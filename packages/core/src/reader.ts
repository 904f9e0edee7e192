/** Reading a store: pages, lists, snapshots and the tail share their checks and their rule for damaged rows. */
import { checkCursor, checkOptions, checkWhole, invalid, orDefault } from "./arguments.ts";
import { BOUNDS } from "./bounds.ts";
import type {
  DeliveryState,
  ListPosition,
  ListRequest,
  PageRequest,
  StatsRecord,
  StoredRow,
} from "./driver.ts";
import { type Entry, missingDelivery, toEntry } from "./entry.ts";
import { checkStream } from "./event/validate.ts";
import { checkFailureCode } from "./failure.ts";
import type { List, Page, Stats } from "./handle.ts";

const STATES: readonly DeliveryState[] = ["pending", "claimed", "delivered", "quarantined"];
const COUNT_LIMIT = { min: 1, max: 1_000_000 };

export function toPageRequest(given: unknown, tenant: string | null): PageRequest {
  const options = checkOptions(given, ["after", "limit", "stream"], "options");
  return {
    tenant,
    stream: optionalStream(options.stream),
    after: checkCursor(orDefault(options.after, 0), "options.after"),
    upTo: null,
    limit: checkWhole(orDefault(options.limit, 100), BOUNDS.limit, "options.limit"),
  };
}

export function optionalStream(value: unknown): string | null {
  return value === undefined ? null : checkStream(value, "options.stream");
}

/**
 * The page up to the first damaged row; if that is the first one, an `INTEGRITY` error that carries the cursor past
 * it. So no damaged row is silently missing and none stops a reader for good (PAGE-02).
 */
export function toPage(rows: readonly StoredRow[], after: number): Page {
  const entries: Entry[] = [];
  for (const row of rows) {
    if (row.delivery === null) {
      if (entries.length === 0) throw missingDelivery(row.rowId);
      break;
    }
    entries.push(toEntry(row));
  }
  return { entries, cursor: entries.at(-1)?.rowId ?? after };
}

export function toListRequest(given: Record<string, unknown>, tenant: string | null): ListRequest {
  const { state, stream, failureCode, before, limit } = given;
  if (!STATES.includes(state as DeliveryState)) throw invalid("options.state", STATES.join(", "), state);
  return {
    tenant,
    state: state as DeliveryState,
    stream: optionalStream(stream),
    failureCode: failureCode === undefined ? null : checkFailureCode(failureCode, "options.failureCode"),
    before: before === undefined ? null : toPosition(before),
    limit: checkWhole(orDefault(limit, 100), BOUNDS.limit, "options.limit"),
  };
}

export function toList(rows: readonly StoredRow[], request: ListRequest): List {
  const entries = rows.map(toEntry);
  const last = rows.at(-1);
  if (last === undefined || rows.length < request.limit) return { entries };
  return { entries, cursor: `${orderingTime(last, request.state)}.${last.rowId}` };
}

function toPosition(cursor: unknown): ListPosition {
  const match = typeof cursor === "string" ? /^(\d{1,16})\.(\d{1,16})$/.exec(cursor) : null;
  if (match === null) throw invalid("options.before", "the cursor of a list", cursor);
  return {
    at: checkCursor(Number(match[1]), "options.before"),
    rowId: checkCursor(Number(match[2]), "options.before"),
  };
}

/** The time by which a state is listed. */
function orderingTime({ delivery }: StoredRow, state: DeliveryState): number {
  switch (state) {
    case "pending":
      return delivery?.availableAt ?? 0;
    case "claimed":
      return delivery?.expiresAt ?? 0;
    case "delivered":
      return delivery?.deliveredAt ?? 0;
    case "quarantined":
      return delivery?.quarantinedAt ?? 0;
  }
}

export function toCountLimit(given: unknown): number {
  const options = checkOptions(given, ["countLimit"], "options");
  return checkWhole(orDefault(options.countLimit, 10_000), COUNT_LIMIT, "options.countLimit");
}

export function toStats({ oldestDueMs, ...counts }: StatsRecord): Stats {
  return oldestDueMs === null ? counts : { ...counts, oldestDueMs };
}
