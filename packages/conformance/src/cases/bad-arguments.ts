/** Arguments that every method has to refuse: one past its bound, of a wrong type, or no number at all. */
import { inspect } from "node:util";
import { BOUNDS, type Claim } from "@dovecote/core";
import type { Outbox } from "../case.ts";

export interface BadCall {
  readonly what: string;
  call(outbox: Outbox): unknown;
}

type Handle = "store" | "admin";

const DAY_MS = 24 * 3600 * 1000;
const LEASE = BOUNDS.leaseMs;
const DELAY = BOUNDS.delayMs;
const LIMIT = BOUNDS.limit;
const LONG = LIMIT.max + 1;

/** What is no whole number of the range. Lengths of time are refused, never read as "none" or "for ever". */
export function wholes({ min, max }: { readonly min: number; readonly max: number }): readonly unknown[] {
  const near = [min - 1, max + 1, min + 0.5, -1.5];
  const far = [-1e15, Number.MAX_VALUE, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  return [...near, ...far, String(min), "", true, {}, [min], BigInt(max), () => min];
}

export const ROW_IDS: readonly unknown[] = wholes({ min: 1, max: Number.MAX_SAFE_INTEGER });

export function names(maxBytes: number): readonly unknown[] {
  const tooLong = ["x".repeat(maxBytes + 1), "é".repeat(Math.floor(maxBytes / 2) + 1)];
  return ["", ...tooLong, "NUL \0", "lone \ud800", 5, Number.NaN, true, {}, ["x"]];
}

export const STREAMS: readonly unknown[] = [...names(BOUNDS.streamBytes), "-x", ".x", "a b", "a/b", "ä"];
export const FLAGS: readonly unknown[] = ["true", 0, 1, {}];
export const NO_OBJECT: readonly unknown[] = [null, 5, "text", true, []];

/** Bad values of one argument of a method; `args` puts each in its place. */
function each(
  method: string,
  argument: string,
  values: readonly unknown[],
  args: (value: unknown) => readonly unknown[],
  handle: Handle = "store",
): readonly BadCall[] {
  return values.map((value) => ({
    what: `${method} (${handle}) with ${argument} ${shown(value)}`,
    call: (outbox) => {
      const on: object = handle === "admin" ? outbox.admin() : outbox;
      return consume(Reflect.apply(Reflect.get(on, method), on, args(value)));
    },
  }));
}

export function shown(value: unknown): string {
  const text = inspect(value, { breakLength: Number.POSITIVE_INFINITY });
  return text.length > 30 ? `${text.slice(0, 30)}… (${text.length})` : text;
}

/** Iterates what has to be iterated to be asked for anything. */
async function consume(answer: unknown): Promise<unknown> {
  if (typeof answer !== "object" || answer === null || !(Symbol.asyncIterator in answer)) return answer;
  for await (const _ of answer as AsyncIterable<unknown>) break;
  return undefined;
}

export function badArguments(claim: Claim): readonly BadCall[] {
  const ok = { rowId: claim.rowId, attempt: claim.attempt, token: claim.token };
  const failure = { code: "E", detail: "d" };
  return [
    ...ofClaim(),
    ...["renew", "ack", "retry", "release", "quarantine"].flatMap((method) => ofProof(method, ok)),
    ...each("renew", "leaseMs", wholes(LEASE), (leaseMs) => [ok, { leaseMs }]),
    ...each("renew", "shared", FLAGS, (shared) => [ok, { shared }]),
    ...each("renew", "options", NO_OBJECT, (options) => [ok, options]),
    ...each("retry", "delayMs", wholes(DELAY), (delayMs) => [ok, { failure, delayMs }]),
    ...each("retry", "failure", [undefined, ...NO_OBJECT], (given) => [ok, { failure: given }]),
    ...each("retry", "options", [undefined, ...NO_OBJECT], (options) => [ok, options]),
    ...each("release", "delayMs", wholes(DELAY), (delayMs) => [ok, { delayMs }]),
    ...each("release", "options", NO_OBJECT, (options) => [ok, options]),
    ...each("quarantine", "reason", [undefined, null, 5, {}, true], (reason) => [ok, { reason }]),
    ...each("quarantine", "failure", NO_OBJECT, (given) => [ok, { reason: "r", failure: given }]),
    ...each("quarantine", "rowId", numbers(ROW_IDS), (rowId) => [rowId, { reason: "r" }]),
    ...each("settle", "batch", [undefined, {}, ...NO_OBJECT.slice(0, 4)], (batch) => [batch]),
    ...each("settle", "item", [undefined, {}, ...NO_OBJECT], (item) => [[item]]),
    ...each("settle", "action", [undefined, "", "reclaim", 5, null], (action) => [[{ action, claim: ok }]]),
    ...each("settle", "claim", [undefined, {}, ...NO_OBJECT], (given) => [[{ action: "ack", claim: given }]]),
    ...each("settle", "a good item before rowId", ROW_IDS, (rowId) => [
      [
        { action: "ack", claim: ok },
        { action: "ack", claim: { ...ok, rowId } },
      ],
    ]),
    ...each("settle", "length", [LONG], () => [
      Array.from({ length: LONG }, () => ({ action: "ack", claim: ok })),
    ]),
    ...ofReading(),
    ...ofMaintenance(),
  ];
}

function ofClaim(): readonly BadCall[] {
  const worker = "w1";
  return [
    ...each("claim", "worker", [undefined, null, ...names(BOUNDS.workerBytes)], (given) => [
      { worker: given },
    ]),
    ...each("claim", "leaseMs", wholes(LEASE), (leaseMs) => [{ worker, leaseMs }]),
    ...each("claim", "limit", wholes(LIMIT), (limit) => [{ worker, limit }]),
    ...each("claim", "stream", STREAMS, (stream) => [{ worker, stream }]),
    ...each("claim", "shared", FLAGS, (shared) => [{ worker, shared }]),
    ...each("claim", "options", [undefined, ...NO_OBJECT], (options) => [options]),
    ...each("claim", "limit", wholes(LIMIT), (limit) => [{ worker, limit }], "admin"),
  ];
}

/** The proof of a claim, alone and in a list whose first item is good. */
function ofProof(method: string, ok: object): readonly BadCall[] {
  const options = { reason: "r", failure: { code: "E", detail: "d" } };
  const rest = method === "retry" ? [{ failure: options.failure }] : method === "quarantine" ? [options] : [];
  // A number is a row id there.
  const noClaim =
    method === "quarantine" ? [undefined, null, "text", true, {}] : [undefined, null, 5, "text", true, {}];
  const attempts = wholes({ min: 1, max: BOUNDS.attempt });
  const tokens = [
    undefined,
    null,
    "",
    "0".repeat(31),
    "0".repeat(33),
    "g".repeat(32),
    5,
    {},
    new Uint8Array(16),
  ];
  const proofs: readonly unknown[] = [
    ...ROW_IDS.map((rowId) => ({ ...ok, rowId })),
    ...attempts.map((attempt) => ({ ...ok, attempt })),
    ...tokens.map((token) => ({ ...ok, token })),
  ];
  return [
    ...each(method, "claim", [...noClaim, ...proofs], (claim) => [claim, ...rest]),
    ...each(method, "a good claim beside", [...noClaim, ...proofs], (claim) => [[ok, claim], ...rest]),
    ...each(method, "length", [LONG], () => [Array.from({ length: LONG }, () => ok), ...rest]),
  ];
}

function ofReading(): readonly BadCall[] {
  const cursors = wholes({ min: 0, max: Number.MAX_SAFE_INTEGER });
  const state = "pending";
  return [
    ...each("page", "after", cursors, (after) => [{ after }]),
    ...each("page", "limit", wholes(LIMIT), (limit) => [{ limit }]),
    ...each("page", "stream", STREAMS, (stream) => [{ stream }]),
    ...each("page", "options", NO_OBJECT, (options) => [options]),
    ...each("snapshot", "pageSize", wholes(LIMIT), (pageSize) => [{ pageSize }]),
    ...each("snapshot", "stream", STREAMS, (stream) => [{ stream }]),
    ...each("tail", "after", cursors, (after) => [{ after }]),
    ...each("tail", "pageSize", wholes(LIMIT), (pageSize) => [{ pageSize }]),
    ...each("tail", "pollMs", wholes(LEASE), (pollMs) => [{ pollMs }]),
    ...each("tail", "signal", [5, "abort", {}, true], (signal) => [{ signal }]),
    ...each("list", "state", [undefined, null, "", "due", 5, {}], (given) => [{ state: given }]),
    ...each("list", "limit", wholes(LIMIT), (limit) => [{ state, limit }]),
    ...each("list", "stream", STREAMS, (stream) => [{ state, stream }]),
    ...each("list", "before", ["", "no cursor", 5, {}, true], (before) => [{ state, before }]),
    ...each("list", "failureCode", [5, {}, true], (failureCode) => [{ state, failureCode }]),
    ...each("list", "span", [{}, { all: false }, { tenant: "" }, { tenant: 5 }], spanned({ state }), "admin"),
    ...each("stats", "countLimit", wholes({ min: 1, max: 1_000_000 }), (countLimit) => [{ countLimit }]),
    ...each("inspect", "rowId", [undefined, null, ...ROW_IDS], (rowId) => [rowId]),
    ...each("subscribe", "listener", [undefined, ...NO_OBJECT, {}], (listener) => [listener]),
  ];
}

function ofMaintenance(): readonly BadCall[] {
  const olderThanMs = DAY_MS;
  const spans = [
    {},
    { all: false },
    { all: "yes" },
    { tenant: "" },
    { tenant: 5 },
    { tenant: "acme", all: true },
  ];
  return [
    ...each("redrive", "rowId", [undefined, null, ...numbers(ROW_IDS)], (rowId) => [rowId]),
    ...each("redrive", "limit", wholes(LIMIT), (limit) => [{ limit }]),
    ...each("redrive", "stream", STREAMS, (stream) => [{ stream }]),
    ...each("redrive", "failureCode", [5, {}, true], (failureCode) => [{ failureCode }]),
    ...each("redrive", "dryRun", FLAGS, (dryRun) => [{ dryRun }]),
    ...each("redrive", "span", spans, spanned({}), "admin"),
    ...each("prune", "olderThanMs", [undefined, null, ...wholes(BOUNDS.retentionMs)], (given) => [
      { olderThanMs: given },
    ]),
    ...each("prune", "limit", wholes(LIMIT), (limit) => [{ olderThanMs, limit }]),
    ...each("prune", "quarantined", FLAGS, (quarantined) => [{ olderThanMs, quarantined }]),
    ...each("prune", "options", [undefined, ...NO_OBJECT], (options) => [options]),
    ...each("prune", "span", spans, spanned({ olderThanMs }), "admin"),
    ...each("reconcile", "rowId", [undefined, null, ...ROW_IDS], (rowId) => [rowId], "admin"),
    ...each("transaction", "callback", [undefined, ...NO_OBJECT, {}], (callback) => [callback]),
    ...each("tenant", "id", [undefined, null, ...names(BOUNDS.tenantBytes)], (id) => [id]),
  ];
}

const spanned =
  (options: object) =>
  (span: unknown): readonly unknown[] => [{ ...options, ...(span as object) }];

/** Without what is an object or a list: it means something else in that place. */
export function numbers(values: readonly unknown[]): readonly unknown[] {
  return values.filter((value) => typeof value !== "object" && typeof value !== "function");
}
