/**
 * H7: two live owners of one idempotency key, or two answers to it.
 *
 * When is that proven? A key was acquired at a moment between the call of `begin` (`t0`) and its return (`t1`), so that its
 * lease ends at `t0 + lease` at the earliest, less what database time may have run ahead. Until then its claim certainly
 * lives, unless its holder may have ended it: by completing or releasing, from that call on. A claim that was held lives on
 * until its holder's next call. Whoever acquired the key wholly within that time, had it beside its owner.
 *
 * What a payment leaves is a business row that names its token, and an answer that is the token: one row of each key at
 * most, every answer the same, and the answer that of the row.
 */
import type { History, Operation } from "./operation.ts";

/** What a history knows of one key. */
export interface KeyHistory extends Pick<History, "clockSlackNs"> {
  readonly id: string;
  /** In the order of their beginnings. */
  readonly operations: readonly Operation[];
  /** The tokens that the business rows of this key name. */
  readonly rows: readonly string[];
}

interface Owner {
  readonly token: string;
  readonly begin: Operation;
  /** Until when it certainly lives. */
  readonly until: number;
}

/** How a history names a key. */
export const KEY_ID = "key/";

export function brokenKey(key: KeyHistory): string | undefined {
  return paidTwice(key) ?? answeredTwice(key) ?? ownedTwice(key);
}

function paidTwice({ operations, rows }: KeyHistory): string | undefined {
  if (rows.length > 1) return `its business row was written ${rows.length} times`;
  const paid = operations.find(({ op, type }) => op === "complete" && type === "ok");
  if (paid !== undefined && rows[0] !== paid.token) return `the business row of ${paid.p} is not there`;
  const known = operations.some(
    ({ op, type, token }) => op === "complete" && type !== "fail" && token === rows[0],
  );
  return rows.length === 1 && !known ? "its business row is one that nobody committed" : undefined;
}

function answeredTwice({ operations, rows }: KeyHistory): string | undefined {
  const replays = operations.filter(({ op, answer }) => op === "begin" && answer === "replay");
  const other = replays.find(({ token }) => token !== rows[0]);
  return other && `${other.p} was answered ${other.token}, and its business row says ${rows[0] ?? "nothing"}`;
}

function ownedTwice(key: KeyHistory): string | undefined {
  const owners = ownersOf(key);
  for (const one of owners) {
    for (const { begin, token } of owners) {
      if (token !== one.token && begin.t0 >= one.begin.t1 && begin.t1 < one.until) {
        return `${begin.p} acquired it while the claim of ${one.begin.p} was alive`;
      }
      const late = key.operations.find(
        ({ op, type, token: given, t0 }) =>
          op === "complete" && type === "ok" && given === one.token && token !== given && begin.t1 < t0,
      );
      if (late !== undefined && begin.t0 >= one.begin.t1) {
        return `${late.p} completed it after ${begin.p} had taken it over`;
      }
    }
  }
  return undefined;
}

function ownersOf({ operations, clockSlackNs }: KeyHistory): readonly Owner[] {
  return operations.flatMap((begin) => {
    const { op, type, token, t0, leaseMs = 0 } = begin;
    if (op !== "begin" || type !== "ok" || token === undefined || begin.answer === "replay") return [];
    const own = operations.filter((each) => each !== begin && each.token === token);
    let until = t0 + leaseMs * 1e6 - clockSlackNs;
    for (const renewal of own.filter((each) => each.op === "renew" && each.type === "ok")) {
      until = renewal.t0 + (renewal.leaseMs ?? 0) * 1e6 - clockSlackNs;
    }
    // A renewal that may have made the lease shorter, or longer: nobody knows.
    const unknown = own.find((each) => each.op === "renew" && each.type === "info");
    if (unknown !== undefined) until = Math.min(until, unknown.t0);
    const ending = own.find((each) => each.op === "complete" || each.op === "release");
    const held = own.some((each) => each.op === "hold" && each.type === "ok");
    if (held && ending !== undefined) until = ending.t0;
    return [{ token, begin, until: Math.min(until, ending?.t0 ?? until) }];
  });
}
