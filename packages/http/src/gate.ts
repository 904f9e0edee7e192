/**
 * The gate: whether a request passes without a key, is answered without its handler, or is handled once. It knows nothing of
 * any framework: adapters say what came in, and send what comes out.
 */
import {
  type BeginOptions,
  BOUNDS,
  type DovecoteError,
  invalid,
  isDovecoteError,
  type RunOutcome,
  type TransactionHandler,
} from "@dovecote/core";
import { fingerprintBody, fingerprintParsed, type ReadBody } from "./body-fingerprint.ts";
import { Call } from "./call.ts";
import type { AnyContext, Incoming, KeyStore, Passed, Setting, Work } from "./handling.ts";
import { readKeyHeader } from "./key-header.ts";
import type { Plan } from "./options.ts";
import { storeRefusal, toPassed } from "./outcome.ts";
import { passThrough } from "./pass-through.ts";
import { problemAnswer } from "./problem.ts";
import { Refused, UploadAborted } from "./refused.ts";
import { type BodyMode, requestFingerprint } from "./request-fingerprint.ts";
import { toTarget } from "./target.ts";

/** @throws what the handler throws, after the key was given back; what the functions of the options throw. */
export async function passGate<Request, Tx, Sync extends boolean, Own extends Tx>(
  setting: Setting<Request, Tx, Sync, Own>,
  incoming: Incoming,
  work: Work<AnyContext<Sync, Own>>,
): Promise<Passed> {
  const { plan, counts } = setting;
  try {
    const key = keyOf(plan, incoming);
    const passed =
      key === undefined
        ? await passThrough(setting, incoming, work, "unkeyed")
        : await runOnce(setting, incoming, key, work);
    if (passed.outcome === "handled") counts.add(passed.as);
    return passed;
  } catch (error) {
    if (error instanceof UploadAborted) {
      counts.add("aborted");
      return { outcome: "aborted" };
    }
    if (!(error instanceof Refused)) throw error;
    counts.add(error.problem.code);
    return { outcome: "answered", answer: problemAnswer(error.problem) };
  }
}

/** `undefined` where a request needs none. */
function keyOf<Request>(plan: Plan<Request>, { method, keyLines }: Incoming): string | undefined {
  if (!plan.methods.has(method)) return undefined;
  const header = readKeyHeader(keyLines, plan);
  switch (header.outcome) {
    case "key":
      return header.key;
    case "malformed":
      throw new Refused({ code: "key-malformed", detail: header.reason });
    case "missing":
      if (!plan.required) return undefined;
      throw new Refused({ code: "key-missing", detail: "Send a new unique key with every new request." });
  }
}

async function runOnce<Request, Tx, Sync extends boolean, Own extends Tx>(
  setting: Setting<Request, Tx, Sync, Own>,
  incoming: Incoming,
  key: string,
  work: Work<AnyContext<Sync, Own>>,
): Promise<Passed> {
  const { store, plan, request } = setting;
  const { path, parameters } = toTarget(plan.target?.(request) ?? incoming.target);
  // Of a normal path, a character is a byte.
  if (path.length > BOUNDS.pathBytes) {
    throw new Refused({ code: "target-too-long", detail: `A path has ${BOUNDS.pathBytes} bytes at most.` });
  }
  const principal = await plan.principal(request);
  const read = await readBody(plan, request, incoming);
  const options = {
    scope: { principal, method: incoming.method, path },
    key,
    fingerprint: requestFingerprint({ ...incoming, parameters }, plan.body, read.fingerprint),
    takeover: plan.takeover,
    ...plan.times,
  };
  const call = new Call(plan, incoming, read, work);
  try {
    return await toPassed(await run(store, options, call, plan), setting);
  } catch (error) {
    if (call.threw(error)) throw call.aborted ? new UploadAborted(error) : error;
    if (isDovecoteError(error, "TX_ASYNC") && read.verify !== undefined) throw notStreamed(plan.body);
    const refusal = storeRefusal(error, plan.mode, call.started);
    if (refusal === undefined) throw error;
    if (plan.onUnavailable === "run" && refusal.problem.code === "store-unavailable") {
      return passThrough(setting, incoming, work, "unprotected", read);
    }
    throw refusal;
  }
}

function notStreamed({ kind }: BodyMode): DovecoteError {
  return invalid(
    "fingerprint",
    'one of a body that is read before its handler runs: a synchronous transaction waits for no stream. Use mode "record", and its commit',
    kind,
  );
}

function run<Request, Tx, Sync extends boolean, Own extends Tx>(
  store: KeyStore<Tx, Sync, Own>,
  options: BeginOptions,
  { record, once }: Call<Request, Sync, Own>,
  { mode }: Plan<Request>,
): Promise<RunOutcome> {
  return mode === "transaction"
    ? // Synchronous where the driver's transactions are: the adapter's types ask the handler to be.
      store.keys.run({ ...options, mode, record }, once as unknown as TransactionHandler<Sync, Own>)
    : store.keys.run({ ...options, mode, record }, once);
}

async function readBody<Request>(
  plan: Plan<Request>,
  request: Request,
  incoming: Incoming,
): Promise<ReadBody> {
  const { body } = incoming;
  if (!("parsed" in body)) return fingerprintBody(plan, request, body, incoming);
  const fingerprint = await fingerprintParsed(plan, request, body.parsed, incoming);
  return { fingerprint, bytes: undefined, verify: undefined };
}
