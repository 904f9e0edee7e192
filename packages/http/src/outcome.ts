/** What the outcome of a run, or its failure, means for a client. */
import { type DovecoteError, isDovecoteError, type RecordedResponse, type RunOutcome } from "@dovecote/core";
import type { Passed, Setting } from "./handling.ts";
import type { Plan } from "./options.ts";
import { type Answer, retryAfterSeconds } from "./problem.ts";
import { Refused } from "./refused.ts";

/** @throws Refused. */
export async function toPassed<Request, Tx, Sync extends boolean, Own extends Tx>(
  outcome: RunOutcome,
  { plan, request, counts }: Setting<Request, Tx, Sync, Own>,
): Promise<Passed> {
  switch (outcome.outcome) {
    case "completed":
      return { outcome: "handled", as: "created" };
    case "released":
      return { outcome: "handled", as: "released" };
    case "replay": {
      const answer = await replayed(outcome.response, plan, request);
      counts.add("replayed");
      return { outcome: "answered", answer };
    }
    case "unreplayable":
      throw new Refused({
        code: "unreplayable",
        detail: `It was handled at ${outcome.completedAt.toISOString()}: ${outcome.reason}`,
        members: {
          completedAt: outcome.completedAt.toISOString(),
          ...(outcome.status !== undefined && { answeredStatus: outcome.status }),
        },
      });
    case "inFlight":
      throw new Refused({
        code: "in-flight",
        detail: "Ask again with the same key.",
        retryAfterSeconds: retryAfterSeconds(outcome.retryAfterMs, {
          maxSeconds: plan.maxRetryAfterSeconds,
          random: Math.random,
        }),
      });
    case "mismatch":
      throw new Refused({
        code: "mismatch",
        detail: "Send a new request with a new key.",
        status: plan.mismatchStatus,
      });
    case "indeterminate":
      throw new Refused({
        code: "indeterminate",
        detail: `It was begun at ${outcome.since.toISOString()} or before, and is not repeated: ask the operator.`,
      });
    case "expired":
      throw new Refused({
        code: "expired",
        detail: `It was handled at ${outcome.completedAt.toISOString()}.`,
        status: plan.expiredStatus,
        members: { completedAt: outcome.completedAt.toISOString() },
      });
  }
}

async function replayed<Request>(
  recorded: RecordedResponse,
  plan: Plan<Request>,
  request: Request,
): Promise<Answer> {
  if (!(await plan.authorizeReplay(request, recorded))) {
    throw new Refused({ code: "replay-forbidden", detail: "The request was handled for somebody else." });
  }
  const { status, headers, body } = recorded;
  const replay = [
    ["idempotency-status", "replayed"],
    ["idempotent-replayed", "true"],
  ] as const;
  return { status, headers: [...headers, ...replay], body };
}

/** What the client is told of a failure of ours; `undefined` if it is the application's to see. */
export function storeRefusal(
  error: unknown,
  mode: Plan<never>["mode"],
  started: boolean,
): Refused | undefined {
  if (!isDovecoteError(error) || error.code === "INVALID_ARGUMENT") return undefined;
  const retry = { retryAfterSeconds: 1 };
  if (error.code === "LOST_CLAIM") {
    return new Refused({ code: "claim-lost", detail: "Ask again with the same key.", ...retry });
  }
  if (!started) return unavailable(error);
  // Beside the database its effects are there, and only the record is not.
  if (error.ambiguous || mode === "record") {
    return new Refused({ code: "outcome-unknown", detail: `The record failed: ${error.code}.`, ...retry });
  }
  return error.retryable ? unavailable(error) : undefined;
}

function unavailable({ code, retryable }: DovecoteError): Refused {
  return new Refused({
    code: "store-unavailable",
    detail: `The store answered ${code}.`,
    ...(retryable && { retryAfterSeconds: 1 }),
  });
}
