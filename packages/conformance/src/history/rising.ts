/** H5: a token was used twice, or the attempt of an event did not rise from claim to claim. */
import { claimsOf, type EventHistory } from "./operation.ts";

/** Which claim a token was seen in first, over all events. */
export type TokenOwners = Map<string, string>;

export function notRising(event: EventHistory, owners: TokenOwners): string | undefined {
  const claims = claimsOf(event);
  const messages: string[] = [];
  for (const [index, { id, attempt, token, p }] of claims.entries()) {
    const claim = `attempt ${attempt} of ${p} on ${id}`;
    const owner = owners.get(token);
    if (owner === undefined) owners.set(token, claim);
    else messages.push(`${claim} has the token of ${owner}`);
    const before = claims[index - 1];
    if (before?.attempt === attempt) messages.push(`${p} and ${before.p} both were given attempt ${attempt}`);
  }
  // A claim that had returned before another was called has the lower attempt.
  const byReturn = claims.toSorted((a, b) => a.t1 - b.t1);
  let returned = 0;
  let highest = 0;
  for (const claim of claims.toSorted((a, b) => a.t0 - b.t0)) {
    for (; (byReturn[returned]?.t1 ?? claim.t0) < claim.t0; returned++) {
      highest = Math.max(highest, byReturn[returned]?.attempt ?? 0);
    }
    if (claim.attempt <= highest) {
      messages.push(`${claim.p} was given attempt ${claim.attempt} after attempt ${highest}`);
    }
  }
  const last = claims.at(-1)?.attempt ?? 0;
  for (const { rowId, attempts } of event.final) {
    if (attempts < last) messages.push(`row ${rowId} ends with attempt ${attempts} after attempt ${last}`);
  }
  return messages[0];
}
