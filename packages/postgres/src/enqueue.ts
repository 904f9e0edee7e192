/** Inserting events and their deliveries in the caller's transaction, behind the guard that proves there is one. */
import {
  DovecoteError,
  differingFields,
  type EnqueueOutcome,
  type EnqueueRow,
  type EventRecord,
} from "@dovecote/core";
import type { Answers, Guard } from "./guard.ts";
import { identityDigest, safeRowId } from "./rows.ts";
import type { StatementTexts } from "./statements.ts";

interface Inserted {
  readonly guarded: boolean | null;
  /** Row ids by digest. */
  readonly inserted: Readonly<Record<string, string>>;
}

type Stored = Omit<EventRecord, "data"> & {
  readonly digest: string;
  readonly rowId: string;
  readonly tenant: string;
  readonly data: string | null;
};

/** A rival may commit an identity after our insert's snapshot and be pruned before our look: then it is tried again. */
const ATTEMPTS = 3;

/** Rows come in identity order; every one is answered as if it were alone (ID-01 to ID-06). */
export async function enqueue(
  answers: Answers,
  texts: StatementTexts,
  guard: Guard,
  tenant: string,
  rows: readonly EnqueueRow[],
): Promise<readonly EnqueueOutcome[]> {
  const digests = rows.map(({ event }) => identityDigest(tenant, event.source, event.id));
  const input = JSON.stringify(
    rows.map(({ event, delayMs }, place) => ({
      ...event,
      ...encoded(event),
      place,
      delay: delayMs,
      digest: digests[place],
    })),
  );
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const { inserted } = await guard.run(answers, async () => {
      const [answer] = await answers(texts.enqueue, [guard.value, tenant, input]);
      return JSON.parse(String(answer)) as Inserted;
    });
    const conflicting = digests.filter(
      (digest, place) => inserted[digest] === undefined || digests.indexOf(digest) !== place,
    );
    const stored =
      conflicting.length === 0 ? new Map<string, Stored>() : await storedEvents(answers, texts, conflicting);
    if (conflicting.every((digest) => stored.has(digest))) {
      return rows.map(({ event }, place) =>
        outcomeOf(event, String(digests[place]), place, digests, inserted, stored),
      );
    }
  }
  throw new DovecoteError(
    "SERIALIZATION_FAILURE",
    "another transaction keeps writing and removing the same identity",
  );
}

function outcomeOf(
  event: EventRecord,
  digest: string,
  place: number,
  digests: readonly string[],
  inserted: Inserted["inserted"],
  stored: ReadonlyMap<string, Stored>,
): EnqueueOutcome {
  const rowId = inserted[digest];
  if (rowId !== undefined && digests.indexOf(digest) === place)
    return { outcome: "enqueued", rowId: safeRowId(rowId) };
  const found = stored.get(digest);
  if (found === undefined || found.source !== event.source || found.id !== event.id) {
    throw new DovecoteError("INTEGRITY", "a stored identity does not match its digest");
  }
  const fields = differingFields(event, {
    ...found,
    data: found.data === null ? null : Buffer.from(found.data, "hex"),
  });
  const known = safeRowId(found.rowId);
  return fields.length === 0
    ? { outcome: "alreadyEnqueued", rowId: known }
    : { outcome: "identityConflict", rowId: known, fields };
}

async function storedEvents(
  answers: Answers,
  texts: StatementTexts,
  digests: readonly string[],
): Promise<ReadonlyMap<string, Stored>> {
  const found = await answers(texts.storedEvents, [JSON.stringify(digests)]);
  return new Map(
    found.map((answer) => {
      const stored = JSON.parse(answer) as Stored;
      return [stored.digest, stored];
    }),
  );
}

function encoded({ data }: EventRecord): { readonly data: string | null } {
  return { data: data === null ? null : Buffer.from(data).toString("hex") };
}
