import { type EnqueueOutcome, type EnqueueRow, isDovecoteError, type NewEvent } from "@dovecote/core";
import type { Outbox } from "../../case.ts";
import { override } from "../../override.ts";
import { answering, remembering, type SemanticMutant, storing } from "./define.ts";

export const identity: readonly SemanticMutant[] = [
  {
    name: "identity-folded",
    breaks: "ID-01",
    because: /must be an identity of its own/,
    wrap: (session) =>
      storing(session, (event) => ({ ...event, id: event.id.normalize("NFKC").toLowerCase().trim() })),
  },
  {
    name: "duplicate-answered-as-new",
    breaks: "ID-02",
    because: /the event must be recognised/,
    wrap: (session) =>
      answering(session, ({ outcome, rowId }) =>
        outcome === "identityConflict" ? { outcome, rowId, fields: [] } : { outcome: "enqueued", rowId },
      ),
  },
  {
    name: "conflict-taken-for-duplicate",
    breaks: "ID-03",
    because: /must be refused with IDENTITY_CONFLICT/,
    wrap: (session) =>
      answering(session, (outcome) =>
        outcome.outcome === "identityConflict"
          ? { outcome: "alreadyEnqueued", rowId: outcome.rowId }
          : outcome,
      ),
  },
  {
    name: "data-compared-by-a-part",
    breaks: "ID-03",
    because: /data that differs at byte \d+ must be refused/,
    wrap: (session) =>
      answering(session, (outcome, { event }) =>
        outcome.outcome === "identityConflict" && (event.data?.length ?? 0) > 1000
          ? { outcome: "alreadyEnqueued", rowId: outcome.rowId }
          : outcome,
      ),
  },
  {
    name: "defaults-take-part",
    breaks: "ID-03",
    because: /the bare event once more must be accepted/,
    wrapOutbox: (outbox) => {
      let drawn = 0;
      return given(outbox, (event) => {
        drawn += 1;
        return { time: new Date(drawn * 1000), ...event };
      });
    },
  },
  {
    name: "loser-answered-as-winner",
    breaks: "ID-04",
    because: /exactly one contender must be answered `enqueued`/,
    wrap: (session) =>
      answering(session, (outcome) =>
        outcome.outcome === "alreadyEnqueued" ? { ...outcome, outcome: "enqueued" } : outcome,
      ),
  },
  {
    name: "loser-never-conflicts",
    breaks: "ID-04",
    because: /other content must not pass for the same event/,
    wrap: (session) =>
      answering(session, (outcome) =>
        outcome.outcome === "identityConflict"
          ? { outcome: "alreadyEnqueued", rowId: outcome.rowId }
          : outcome,
      ),
  },
  {
    name: "identity-without-tenant",
    breaks: "ID-05",
    because: /an event of tenant \w+ must be accepted/,
    wrap: ({ driver }) =>
      override(driver, { enqueue: (tx, _tenant, rows) => driver.enqueue(tx, "everybody", rows) }),
  },
  {
    name: "batch-inserted-against-the-order",
    breaks: "ID-06",
    because: /rows must be inserted in identity order|row ids must rise in identity order/,
    wrap: ({ driver }) =>
      override(driver, {
        enqueue(tx, tenant, rows) {
          // Of one identity the first stays the first: what is answered must not change.
          const order = rows
            .map((_, index) => index)
            .sort((a, b) => identityOf(rows[b]).localeCompare(identityOf(rows[a])) || a - b);
          const answer = driver.enqueue(
            tx,
            tenant,
            order.flatMap((index) => rows[index] ?? []),
          );
          const inPlace = (outcomes: readonly EnqueueOutcome[]): readonly EnqueueOutcome[] =>
            rows.flatMap((_, index) => outcomes[order.indexOf(index)] ?? []);
          return answer instanceof Promise ? answer.then(inPlace) : inPlace(answer);
        },
      }),
  },
  {
    name: "batch-answered-in-the-order-of-inserts",
    breaks: "ID-06",
    because: /every answer must|as if it were sent after those before it/,
    wrapOutbox: (outbox) =>
      override(outbox, {
        tenant(id) {
          const handle = outbox.tenant(id);
          return override(handle, {
            enqueueMany(tx, events, options) {
              const answer = handle.enqueueMany(tx, events, options);
              const sorted = <T extends { readonly rowId: number }>(outcomes: readonly T[]): readonly T[] =>
                outcomes.toSorted((a, b) => a.rowId - b.rowId);
              return answer instanceof Promise ? answer.then(sorted) : sorted(answer);
            },
          });
        },
      }),
  },
  {
    name: "identity-indexed-by-its-beginning",
    breaks: "ID-07",
    because: /differs at its end must be another one|must be enqueued/,
    wrap: (session) => storing(session, (event) => ({ ...event, source: event.source.slice(0, 255) })),
  },
  {
    name: "identity-cut-to-fit",
    breaks: "ID-07",
    because: /must be refused with INVALID_EVENT, but it was accepted/,
    wrapOutbox: (outbox) =>
      override(outbox, {
        enqueue(tx, event, options) {
          try {
            const answer = outbox.enqueue(tx, event, options);
            return answer instanceof Promise ? answer.catch((error: unknown) => cut(error)) : answer;
          } catch (error) {
            return cut(error);
          }
          function cut(error: unknown): ReturnType<Outbox["enqueue"]> {
            if (!isDovecoteError(error, "INVALID_EVENT")) throw error;
            const { id = "", source } = event as NewEvent;
            const fitting = { ...(event as NewEvent), id: id.slice(0, 300), source: source.slice(0, 1000) };
            return outbox.enqueue(tx, fitting, options);
          }
        },
      }),
  },
  {
    name: "empty-data-stored-as-absent",
    breaks: "ID-09",
    because: /empty bytes, read by \w+, must come back as binary/,
    wrap: (session) =>
      storing(session, (event) =>
        event.data?.length === 0 ? { ...event, data: null, dataKind: "absent" } : event,
      ),
  },
  {
    name: "data-stored-as-text",
    breaks: "ID-09",
    because: /every byte, read by \w+, must come back/,
    wrap: (session) =>
      storing(session, (event) =>
        event.data === null ? event : { ...event, data: Buffer.from(Buffer.from(event.data).toString()) },
      ),
  },
  {
    name: "time-stored-as-a-moment",
    breaks: "ID-09",
    because: /time, read by \w+, must come back as it was given/,
    wrap: (session) =>
      storing(session, (event) =>
        event.time === null ? event : { ...event, time: new Date(event.time).toISOString() },
      ),
  },
  {
    name: "identity-outlives-its-prune",
    breaks: "ID-10",
    because: /a pruned identity must be free/,
    wrap: remembering,
  },
  {
    name: "delay-ignored",
    breaks: "ID-11",
    because: /a delay of \d+ ms must make it available from/,
    wrap: ({ driver }) =>
      override(driver, {
        enqueue: (tx, tenant, rows) =>
          driver.enqueue(
            tx,
            tenant,
            rows.map(({ event }) => ({ event, delayMs: 0 })),
          ),
      }),
  },
  {
    name: "delay-taken-for-content",
    breaks: "ID-11",
    because: /a delay must not be compared|must be refused|IDENTITY_CONFLICT/,
    wrap: (session) => {
      const delays = new Map<number, number>();
      return answering(session, (outcome, { delayMs }) => {
        const { rowId } = outcome;
        if (outcome.outcome === "enqueued") delays.set(rowId, delayMs);
        return outcome.outcome === "alreadyEnqueued" && delays.get(rowId) !== delayMs
          ? { outcome: "enqueued", rowId }
          : outcome;
      });
    },
  },
];

function identityOf(row: EnqueueRow | undefined): string {
  return JSON.stringify([row?.event.source, row?.event.id]);
}

/** The portable API, given other events than its caller gives. */
function given(outbox: Outbox, change: (event: NewEvent) => NewEvent): Outbox {
  return override(outbox, {
    enqueue: (tx, event, options) => outbox.enqueue(tx, change(event as NewEvent), options),
    enqueueMany: (tx, events, options) =>
      outbox.enqueueMany(
        tx,
        events.map((event) => change(event as NewEvent)),
        options,
      ),
  });
}
