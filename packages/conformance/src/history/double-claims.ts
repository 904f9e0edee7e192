/**
 * H3: two live claims of one event overlapped.
 *
 * When is that proven? A claim was made at a moment between its call (`t0`) and its return (`t1`), so that its lease
 * ends at `t0 + lease` at the earliest, less what database time may have run ahead. Until then it certainly lives,
 * unless something can have ended it: its own settlement, from the call on, whatever came of it; a renewal, which may
 * make the lease shorter; a lease that the suite ended by hand. The earliest of these moments is the claim's
 * `certainUntil`. The next claim was made at a moment no later than its return. If it returned before `certainUntil` of
 * an earlier claim, both were alive at once, wherever in their calls they were made.
 *
 * Which claim is earlier is what the attempt says. With equal attempts (a fault of its own, H5) the claims overlapped
 * only if neither order is possible.
 */
import { claimsOf, type EventHistory, type HeldClaim, type Operation } from "./operation.ts";

export function doublyHeld(event: EventHistory): string | undefined {
  const claims = claimsOf(event);
  if (claims.length < 2) return undefined;
  const ends = certainEnds(event, claims);
  const until = (claim: HeldClaim): number => ends.get(claim) ?? 0;
  let longest: HeldClaim | undefined;
  for (const [index, claim] of claims.entries()) {
    const before = claims[index - 1];
    if (before?.attempt === claim.attempt && claim.t1 < until(before) && before.t1 < until(claim)) {
      return describe(before, claim);
    }
    const earlier = longest !== undefined && longest.attempt < claim.attempt ? longest : undefined;
    // One that was called after this one had returned has too low an attempt, which is H5.
    if (earlier !== undefined && earlier.t0 <= claim.t1 && claim.t1 < until(earlier)) {
      return describe(earlier, claim);
    }
    if (longest === undefined || until(claim) > until(longest)) longest = claim;
  }
  return undefined;
}

function describe(one: HeldClaim, other: HeldClaim): string {
  return `attempt ${other.attempt} of ${other.p} was claimed while attempt ${one.attempt} of ${one.p} was alive`;
}

/** For each claim the moment until which it lives for certain. */
function certainEnds(event: EventHistory, claims: readonly HeldClaim[]): ReadonlyMap<HeldClaim, number> {
  const { operations, clockSlackNs } = event;
  const writes = new Map<string, Operation[]>(claims.map((claim) => [proofOf(claim), []]));
  for (const operation of operations) {
    if (operation.op !== "claim") writes.get(proofOf(operation))?.push(operation);
  }
  // A fault that had returned before the claim was called did not touch it: of the others, the first one counts.
  const faults = operations.filter(({ op }) => op === "expire").sort((a, b) => a.t1 - b.t1);
  const firstBeginning = suffixMinimum(faults.map(({ t0 }) => t0));
  return new Map(
    claims.map((claim) => {
      let leaseEnd = claim.t0 + claim.leaseMs * 1e6 - clockSlackNs;
      let ended = Number.POSITIVE_INFINITY;
      let returned = 0;
      for (const { op, type, t0, t1, leaseMs = 0 } of writes.get(proofOf(claim)) ?? []) {
        const renewedUntil = t0 + leaseMs * 1e6 - clockSlackNs;
        // A renewal that applied found the claim alive, and moved its end; of two at once, either may be the last.
        if (op === "renew" && type === "ok") {
          leaseEnd = t0 > returned ? renewedUntil : Math.min(leaseEnd, renewedUntil);
          returned = Math.max(returned, t1);
        } else ended = Math.min(ended, op === "renew" && type === "info" ? renewedUntil : t0);
      }
      const place = firstAtLeast(faults, claim.t0);
      return [claim, Math.min(leaseEnd, ended, firstBeginning[place] ?? Number.POSITIVE_INFINITY)];
    }),
  );
}

function proofOf({ attempt, token }: Operation): string {
  return `${attempt}/${token}`;
}

/** The least of each member and those after it. */
function suffixMinimum(values: readonly number[]): readonly number[] {
  const least = [...values];
  for (let index = least.length - 2; index >= 0; index--) {
    least[index] = Math.min(least[index] ?? 0, least[index + 1] ?? 0);
  }
  return least;
}

/** The place of the first operation that returned at `from` or later, in a list that is sorted by return. */
function firstAtLeast(sorted: readonly Operation[], from: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle]?.t1 ?? 0) < from) low = middle + 1;
    else high = middle;
  }
  return low;
}
