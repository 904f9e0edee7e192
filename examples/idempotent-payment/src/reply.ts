/** What a customer is told: how the outcomes of a key look from outside. */
import { isDovecoteError, type RunOutcome } from "@dovecote/core";

export interface Reply {
  readonly outcome: RunOutcome["outcome"] | "failed";
  readonly status: number;
  /** The bytes of the answer, as base64. */
  readonly body: string;
  /** When to ask again with the same key. */
  readonly retryAfterMs?: number;
}

export function toReply(result: RunOutcome): Reply {
  const { outcome } = result;
  switch (result.outcome) {
    case "completed":
    case "released":
    case "replay": {
      const { status, body } = result.response;
      return { outcome, status, body: Buffer.from(body).toString("base64") };
    }
    case "inFlight":
      return { outcome, status: 409, body: "", retryAfterMs: result.retryAfterMs };
    case "mismatch":
      return { outcome, status: 422, body: "" };
    case "expired":
    case "unreplayable":
    case "indeterminate":
      return { outcome, status: 409, body: "" };
  }
}

/** Nothing was done, or nobody knows what was: with the same key it is safe to ask again. */
export function toFailure(error: unknown): Reply {
  if (!isDovecoteError(error) || !(error.retryable || error.code === "LOST_CLAIM")) throw error;
  return { outcome: "failed", status: 503, body: "", retryAfterMs: 100 };
}
