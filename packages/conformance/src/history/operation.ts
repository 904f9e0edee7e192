/** A history: what every process did to a store, as far as the processes themselves can tell. */
import type { DeliveryState } from "@dovecote/core";

export type Verb =
  | "enqueue"
  | "claim"
  | "renew"
  | "ack"
  | "retry"
  | "release"
  | "quarantine"
  | "redrive"
  /** Of an idempotency key; `renew` and `release` are used of both. */
  | "begin"
  | "hold"
  | "complete"
  /** The suite ends a lease in the database itself. */
  | "expire";

/** `ok`: it applied. `fail`: it certainly did not. `info`: nobody knows, as after a kill. */
export type Outcome = "ok" | "fail" | "info";

/** What one operation is about. Members that do not belong to the verb, or are not known, are absent. */
export interface Subject {
  /** Tenant and id of the event, or the name of the key. */
  readonly id?: string;
  readonly rowId?: number;
  readonly attempt?: number;
  /** A hash, so that a history can be shown. Of a replay: the one that was answered. */
  readonly token?: string;
  readonly leaseMs?: number;
}

/** One operation on one event; a call on a batch is several of them. */
export interface Operation extends Subject {
  readonly p: string;
  readonly op: Verb;
  /** When the call began and returned, in ns after the start, by the clock that processes of one machine share. */
  readonly t0: number;
  /** Infinity if it never returned. */
  readonly t1: number;
  readonly type: Outcome;
  /** What was answered, such as `alreadyEnqueued`, or the code of a refusal. */
  readonly answer?: string;
}

/** A row as the probe finds it in the end. */
export interface FinalRow {
  readonly id: string;
  readonly rowId: number;
  /** null: the event has no delivery. */
  readonly state: DeliveryState | null;
  readonly attempts: number;
}

export interface History {
  readonly operations: readonly Operation[];
  /** After everything that was left had been delivered. */
  readonly final: readonly FinalRow[];
  /** The application's own rows in the end. Default: none. */
  readonly businessRows?: readonly string[];
  /** How far database time may have run ahead of the clock of the operations, at most. */
  readonly clockSlackNs: number;
}

/** Everything about one event. */
export interface EventHistory {
  readonly id: string;
  /** In the order of their beginnings. */
  readonly operations: readonly Operation[];
  readonly final: readonly FinalRow[];
  readonly clockSlackNs: number;
}

/** A claim that a process received. */
export interface HeldClaim extends Operation {
  readonly rowId: number;
  readonly attempt: number;
  readonly token: string;
  readonly leaseMs: number;
}

/** By attempt, then by beginning. */
export function claimsOf({ operations }: EventHistory): readonly HeldClaim[] {
  return operations
    .filter((each): each is HeldClaim => each.op === "claim" && each.type === "ok")
    .sort((a, b) => a.attempt - b.attempt || a.t0 - b.t0);
}

/** Operations of some kinds that applied, or may have. */
export function perhaps({ operations }: EventHistory, ...verbs: readonly Verb[]): readonly Operation[] {
  return operations.filter(({ op, type }) => type !== "fail" && verbs.includes(op));
}

export function applied({ operations }: EventHistory, ...verbs: readonly Verb[]): readonly Operation[] {
  return operations.filter(({ op, type }) => type === "ok" && verbs.includes(op));
}
