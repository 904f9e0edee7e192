/** Inserting events and their deliveries in the caller's transaction, behind the guard that proves there is one. */
import {
  DovecoteError,
  differingFields,
  type EnqueueOutcome,
  type EnqueueRow,
  type EventRecord,
} from "@dovecote/core";
import type { Answers } from "./client.ts";
import type { Guarded } from "./guard.ts";
import { identityDigest, safeRowId } from "./rows.ts";
import type { StatementTexts } from "./statements.ts";
import type { Via } from "./transaction.ts";

interface Inserted extends Guarded {
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

/** Rows come in identity order, and whoever listens on the channel is woken if there are new ones; every one is answered as if it were alone (ID-01 to ID-06). */
export async function enqueue(
  { answers, guard, run }: Via,
  texts: StatementTexts,
  tenant: string,
  rows: readonly EnqueueRow[],
  channel: string | null,
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
  /** The place of the first row with a digest: a repeated identity is judged by it (ID-06). */
  const firstPlaces = new Map(digests.map((digest, place) => [digest, place] as const).reverse());
  const inserted = new Map<string, string>();
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const answer = await run(async () => {
      const [text] = await answers(texts.enqueue, [guard, tenant, input, channel]);
      return JSON.parse(String(text)) as Inserted;
    });
    for (const [digest, rowId] of Object.entries(answer.inserted)) inserted.set(digest, rowId);
    const isNew = (digest: string, place: number): boolean =>
      inserted.has(digest) && firstPlaces.get(digest) === place;
    const known = digests.filter((digest, place) => !isNew(digest, place));
    const stored = known.length === 0 ? new Map<string, Stored>() : await storedEvents(answers, texts, known);
    if (!known.every((digest) => stored.has(digest))) continue;
    return rows.map(({ event }, place) => {
      const digest = digests[place] ?? "";
      const rowId = inserted.get(digest);
      if (rowId !== undefined && isNew(digest, place))
        return { outcome: "enqueued", rowId: safeRowId(rowId) };
      return compared(event, stored.get(digest));
    });
  }
  const message = "another transaction keeps writing and removing the same identity";
  throw new DovecoteError("SERIALIZATION_FAILURE", message);
}

function compared(event: EventRecord, stored: Stored | undefined): EnqueueOutcome {
  if (stored === undefined || stored.source !== event.source || stored.id !== event.id) {
    throw new DovecoteError("INTEGRITY", "a stored identity does not match its digest");
  }
  const data = stored.data === null ? null : Buffer.from(stored.data, "hex");
  const fields = differingFields(event, { ...stored, data });
  const rowId = safeRowId(stored.rowId);
  return fields.length === 0
    ? { outcome: "alreadyEnqueued", rowId }
    : { outcome: "identityConflict", rowId, fields };
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
