/** From the caller's events to the rows of one insert, and back to an answer per event. */
import { checkBatch, checkOptions, checkWhole, invalid, orDefault } from "./arguments.ts";
import { BOUNDS } from "./bounds.ts";
import type { EnqueueOutcome, EnqueueRow } from "./driver.ts";
import { DovecoteError } from "./errors.ts";
import { compareIdentity } from "./event/identity.ts";
import { checkStream, normalizeEvent } from "./event/validate.ts";
import type { Enqueued, EnqueueManyOutcome } from "./handle.ts";

const MEMBERS: readonly string[] = ["delayMs", "stream"];

/** Validated rows in identity order, and how to answer in the order of the input. */
export interface EnqueueBatch {
  readonly rows: readonly EnqueueRow[];
  answer(outcomes: readonly EnqueueOutcome[]): readonly EnqueueManyOutcome[];
}

/**
 * Validates everything before anything is written. Rows are sorted by identity, so that two batches never lock in
 * opposite orders; the sort is stable, so that a repeated identity is judged in input order (ID-06).
 */
export function toEnqueueBatch(events: unknown, given: unknown, maxEventBytes: number): EnqueueBatch {
  if (!Array.isArray(events)) throw invalid("events", "a list of events", events);
  checkBatch(events, "events");
  return toBatch(events, (index) => `events[${index}]`, given, maxEventBytes);
}

export function toSingleBatch(event: unknown, given: unknown, maxEventBytes: number): EnqueueBatch {
  return toBatch([event], () => "event", given, maxEventBytes);
}

function toBatch(
  events: readonly unknown[],
  pathOf: (index: number) => string,
  given: unknown,
  maxEventBytes: number,
): EnqueueBatch {
  const options = checkOptions(given, MEMBERS, "options");
  const delayMs = checkWhole(orDefault(options.delayMs, 0), BOUNDS.delayMs, "options.delayMs");
  const stream = options.stream === undefined ? undefined : checkStream(options.stream, "options.stream");
  const records = events.map((event, index) =>
    normalizeEvent(event, { maxEventBytes, path: pathOf(index), ...(stream !== undefined && { stream }) }),
  );
  const order = records
    .map((event, index) => ({ event, index }))
    .sort((a, b) => compareIdentity(a.event, b.event) || a.index - b.index);
  return {
    rows: order.map(({ event }) => ({ event, delayMs })),
    answer(outcomes) {
      const answers: EnqueueManyOutcome[] = new Array(outcomes.length);
      for (const [position, { event, index }] of order.entries()) {
        const outcome = outcomes[position];
        if (outcome === undefined)
          throw new DovecoteError("DRIVER_FAILURE", "the driver answered too few outcomes");
        answers[index] = { ...outcome, id: event.id };
      }
      return answers;
    },
  };
}

/** The answer to a single `enqueue`: a conflict is an error there (ID-03). */
export function toEnqueued(outcome: EnqueueManyOutcome): Enqueued {
  if (outcome.outcome !== "identityConflict") return outcome;
  const { rowId, fields } = outcome;
  const message = `this (source, id) is stored as row ${rowId} with other content: ${fields.join(", ")} differ`;
  throw new DovecoteError("IDENTITY_CONFLICT", message, { rowId, fields });
}
