/** What a gate is given of a store and a request, and what it gives a handler. */
import type { Keys, RecordRunContext, RunResponse } from "@dovecote/core";
import type { BodyHeaders } from "./body-fingerprint.ts";
import type { Counts } from "./counts.ts";
import type { IncomingBody } from "./incoming-body.ts";
import type { Plan } from "./options.ts";
import type { Answer } from "./problem.ts";

/** What a gate needs of a Dovecote handle. */
export interface KeyStore<Tx, Sync extends boolean, Own extends Tx> {
  readonly keys: Keys<Tx, Sync, Own>;
  readonly transaction: <T>(fn: (tx: Own) => T) => Promise<Awaited<T>>;
}

/** A request as it came in. */
export interface Incoming extends BodyHeaders {
  readonly method: string;
  /** As it was asked for, with its mount prefix and its query. */
  readonly target: string;
  /** The values of its `Idempotency-Key` lines. */
  readonly keyLines: readonly string[];
  readonly body: IncomingBody | { readonly parsed: unknown };
}

/** What a handler is told, and what it can say beyond its answer. */
export interface HandlerContext {
  /** 1, and one more with every takeover. */
  readonly attempt: number;
  /** An earlier attempt ended by its expiry: outside a transaction, what it did is not known. */
  readonly takenOver: boolean;
  /** The bytes of the body, where they were read whole: not if another part of the server parsed it, nor while it streams. */
  readonly body: Uint8Array | undefined;
  /** Records the answer, whatever the policy says of it. */
  save(): void;
  /** Gives the key back as if it had never been used; in a transaction, everything is rolled back. */
  release(): void;
  /** Records that there was an answer, and not the answer: a retry is told so, with this reason of at most 255 bytes. */
  unreplayable(reason: string): void;
}

export interface TransactionContext<Own> extends HandlerContext {
  /** The transaction of the business rows, the events and the recorded answer: they commit together, or not at all. */
  readonly tx: Own;
}

export interface RecordContext<Sync extends boolean, Own> extends HandlerContext {
  /** Aborts when the claim is lost. Not when the client goes away: the work is finished, and recorded. */
  readonly signal: AbortSignal;
  /** As of `keys.run`: ends the work with rows, events and the answer in one fenced transaction. Answer what it gives. */
  readonly commit: RecordRunContext<Sync, Own>["commit"];
}

/** The handler, as the adapter calls it. */
export interface Work<Context> {
  /** Its answer is held until it may be sent; this is it, with all of its headers. */
  hold(context: Context): RunResponse | Promise<RunResponse>;
  /** Its answer is sent as it comes. */
  pass(context: Context): void | Promise<void>;
}

export type AnyContext<Sync extends boolean, Own> = TransactionContext<Own> & RecordContext<Sync, Own>;

export type Passed =
  /** The handler was not called, or what it did was not kept: send this. */
  | { readonly outcome: "answered"; readonly answer: Answer }
  /** What the handler answered may be sent: what had to be committed is. */
  | {
      readonly outcome: "handled";
      readonly as: "created" | "released" | "unkeyed" | "unprotected";
    }
  /** The client is gone, and nothing was kept. */
  | { readonly outcome: "aborted" };

export interface Setting<Request, Tx, Sync extends boolean, Own extends Tx> {
  readonly store: KeyStore<Tx, Sync, Own>;
  readonly plan: Plan<Request>;
  readonly counts: Counts;
  readonly request: Request;
}
