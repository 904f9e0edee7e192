/**
 * The history checker. It asks of every event by itself whether the operations on it can have happened in a store that
 * keeps its promises, and reports nothing that it cannot prove: an operation took effect at one unknown moment between
 * its call and its return, and one that never returned took effect at any later moment or not at all. Sorting is the
 * most expensive step, so that a history of n operations takes O(n log n).
 */
import { doublyHeld } from "./double-claims.ts";
import { lost, phantom } from "./existence.ts";
import { brokenKey, KEY_ID } from "./keys.ts";
import type { EventHistory, History, Operation } from "./operation.ts";
import { notRising, type TokenOwners } from "./rising.ts";
import { settledTwice, staleWrite } from "./stale-writes.ts";
import { lineOf, timelineOf } from "./timeline.ts";

/** What a history must never show; the order is that in which an event is judged. */
const RULES = {
  H4: "a renewal or settlement by an old claim applied",
  H3: "two live claims overlapped",
  H5: "a token was used twice, or the attempt did not rise",
  H6: "an event was ended twice",
  H1: "a committed event was lost",
  H2: "there is an event, or an end of one, that nobody caused",
  H7: "two owned an idempotency key at once, or it was paid or answered twice",
} as const;

export type Rule = keyof typeof RULES;

export interface Violation {
  readonly rule: Rule;
  /** The event's tenant and id, or the name of the key. */
  readonly event: string;
  readonly message: string;
  /** One line per operation on the event. */
  readonly timeline: string;
}

/** The first rule that each event and each key breaks; the events in the order of their beginnings. */
export function checkHistory(history: History): readonly Violation[] {
  const ofKeys = history.operations.filter(isOfKey);
  const ofEvents = history.operations.filter((operation) => !isOfKey(operation));
  return [
    ...checkEvents({ ...history, operations: ofEvents }),
    ...checkKeys({ ...history, operations: ofKeys }),
  ];
}

function isOfKey({ id }: Operation): boolean {
  return id?.startsWith(KEY_ID) === true;
}

function checkKeys({ operations, businessRows = [], clockSlackNs }: History): readonly Violation[] {
  const keys = Map.groupBy(operations, ({ id }) => String(id));
  return [...keys].flatMap(([id, each]) => {
    const sorted = each.toSorted((a, b) => a.t0 - b.t0);
    const prefix = `${id}=`;
    const rows = businessRows.filter((row) => row.startsWith(prefix)).map((row) => row.slice(prefix.length));
    const message = brokenKey({ id, operations: sorted, rows, clockSlackNs });
    if (message === undefined) return [];
    const timeline = [...sorted.map(lineOf), ...rows.map((row) => `  in the end   a row of ${row}`)].join(
      "\n",
    );
    return [{ rule: "H7", event: id, message, timeline }] as const;
  });
}

function checkEvents(history: History): readonly Violation[] {
  const owners: TokenOwners = new Map();
  return eventsOf(history).flatMap((event) => {
    const found: Readonly<Record<Exclude<Rule, "H7">, string | undefined>> = {
      H4: staleWrite(event),
      H3: doublyHeld(event),
      H5: notRising(event, owners),
      H6: settledTwice(event),
      H1: lost(event),
      H2: phantom(event),
    };
    const rule = (Object.keys(found) as readonly (keyof typeof found)[]).find(
      (each) => found[each] !== undefined,
    );
    if (rule === undefined) return [];
    return { rule, event: event.id, message: found[rule] ?? "", timeline: timelineOf(event) };
  });
}

/** As text: every kind of violation once, with the timeline of its first event. */
export function explain(violations: readonly Violation[], seed: number): string {
  const examples = (Object.keys(RULES) as readonly Rule[]).flatMap((rule) => {
    const all = violations.filter((each) => each.rule === rule);
    const [first] = all;
    return first === undefined
      ? []
      : `${rule}, ${RULES[rule]} (events: ${all.length}): ${first.message}\n${first.timeline}`;
  });
  return [`events that break the history rules: ${violations.length}; seed ${seed}`, ...examples].join(
    "\n\n",
  );
}

/** Groups by identity; operations that know only a row belong to the event that was seen in that row. */
function eventsOf({ operations, final, clockSlackNs }: History): readonly EventHistory[] {
  const idOfRow = new Map<number, string>();
  for (const { id, rowId } of [...operations, ...final]) {
    if (id !== undefined && rowId !== undefined) idOfRow.set(rowId, id);
  }
  const groups = new Map<string, { operations: Operation[]; final: History["final"][number][] }>();
  const group = (id: string) => {
    const found = groups.get(id) ?? { operations: [], final: [] };
    groups.set(id, found);
    return found;
  };
  for (const operation of operations.toSorted((a, b) => a.t0 - b.t0)) {
    const { id, rowId } = operation;
    // A claim that was killed names no event.
    if (id === undefined && rowId === undefined) continue;
    group(id ?? idOfRow.get(rowId ?? 0) ?? `row ${rowId}`).operations.push(operation);
  }
  for (const row of final) group(row.id).final.push(row);
  return [...groups].map(([id, each]) => ({ id, ...each, clockSlackNs }));
}
