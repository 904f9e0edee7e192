/** H4 and H6: what a claim may still write after another one, and how often an event may be ended. */
import { applied, claimsOf, type EventHistory, type Operation, perhaps } from "./operation.ts";

/**
 * H4: a renewal or settlement by an old claim applied. That is proven when it was called after a claim with a higher
 * attempt had returned. An ack needs no times: nobody claims a delivered event, so that whoever has a higher attempt
 * claimed it before. A quarantine is the same unless a redrive can have come between.
 */
export function staleWrite(event: EventHistory): string | undefined {
  const claims = claimsOf(event);
  const highest = Math.max(
    ...claims.map(({ attempt }) => attempt),
    ...event.final.map(({ attempts }) => attempts),
  );
  const earliestReturn = returnsFrom(claims);
  const between = redrivesOf(event);
  for (const write of applied(event, "renew", "ack", "retry", "release", "quarantine")) {
    const { op, p, attempt = 0 } = write;
    const told = earliestReturn(attempt + 1);
    if (told < write.t0)
      return `${op} by attempt ${attempt} of ${p} applied after a later claim had returned`;
    const unexplained =
      op === "ack" ? attempt < highest : op === "quarantine" && told < Infinity && !between(write.t0, told);
    if (unexplained) return `${op} by attempt ${attempt} of ${p} applied, yet a later attempt was made`;
  }
  return undefined;
}

/** H6: an event was acked or quarantined more than once, without a redrive that explains it. */
export function settledTwice(event: EventHistory): string | undefined {
  const ends = [...applied(event, "ack", "quarantine")].sort(
    (a, b) => (a.attempt ?? 0) - (b.attempt ?? 0) || a.t0 - b.t0,
  );
  const between = redrivesOf(event);
  for (const [index, end] of ends.entries()) {
    const before = ends[index - 1];
    if (before === undefined) continue;
    const redriven =
      before.op === "quarantine" && before.attempt !== end.attempt && between(before.t0, end.t1);
    if (!redriven) return `${end.op} by ${end.p} applied after ${before.op} by ${before.p} without a redrive`;
  }
  return undefined;
}

/** When the first claim with at least some attempt had returned. */
function returnsFrom(claims: readonly Operation[]): (attempt: number) => number {
  const earliest = new Array<number>(claims.length).fill(Number.POSITIVE_INFINITY);
  for (let index = claims.length - 1; index >= 0; index--) {
    earliest[index] = Math.min(
      claims[index]?.t1 ?? Number.POSITIVE_INFINITY,
      earliest[index + 1] ?? Number.POSITIVE_INFINITY,
    );
  }
  return (attempt) => {
    const place = count(claims, (claim) => (claim.attempt ?? 0) < attempt);
    return earliest[place] ?? Number.POSITIVE_INFINITY;
  };
}

/** Whether a redrive can have taken effect at or after one moment, and at or before another. */
export function redrivesOf(event: EventHistory): (from: number, to: number) => boolean {
  const redrives = perhaps(event, "redrive");
  let latest = 0;
  const latestReturn = redrives.map(({ t1 }) => {
    latest = Math.max(latest, t1);
    return latest;
  });
  return (from, to) => {
    const begun = count(redrives, ({ t0 }) => t0 <= to);
    return begun > 0 && (latestReturn[begun - 1] ?? 0) >= from;
  };
}

/** How many members at the beginning of a sorted list fulfil a condition that no later one fulfils. */
function count<T>(sorted: readonly T[], holds: (member: T) => boolean): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (holds(sorted[middle] as T)) low = middle + 1;
    else high = middle;
  }
  return low;
}
