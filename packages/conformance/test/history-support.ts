/** Histories by hand. Times are ms here; a row and its event have the same number unless a test says otherwise. */
import type { FinalRow, History, Operation, Subject, Verb } from "../src/history/operation.ts";

export const ID = "default/event-1";

/** An operation of process `p` between two moments. */
export function did(
  p: string,
  op: Verb,
  [from, to]: readonly [number, number],
  rest: Subject & Partial<Pick<Operation, "type" | "answer">> = {},
): Operation {
  return { p, op, t0: from * 1e6, t1: to * 1e6, id: ID, rowId: 1, type: "ok", ...rest };
}

/** What one claim says at every operation. */
export function claim(
  attempt: number,
  leaseMs = 60_000,
): Required<Pick<Operation, "attempt" | "token" | "leaseMs">> {
  return { attempt, token: `token-${attempt}`, leaseMs };
}

export function proof(attempt: number): Subject {
  return { attempt, token: `token-${attempt}` };
}

export const enqueued: Operation = did("producer", "enqueue", [0, 1], { answer: "enqueued" });

export function ends(state: FinalRow["state"], attempts: number): readonly FinalRow[] {
  return [{ id: ID, rowId: 1, state, attempts }];
}

export function history(operations: readonly Operation[], final: readonly FinalRow[]): History {
  return { operations, final, clockSlackNs: 1e6 };
}
