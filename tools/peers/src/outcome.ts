/** What became of a case on a library, told apart by how it failed. */
import { AssertionError } from "node:assert/strict";
import { isDovecoteError } from "@dovecote/core";

/**
 * `kept`: the case holds. `notKept`: an assertion of the case failed. `absent`: the library has no such thing, which the
 * driver said. `broken`: the harness is at fault, or nobody knows what is.
 */
export type Kind = "kept" | "notKept" | "absent" | "broken";

export interface Outcome {
  readonly kind: Kind;
  /** The message of the failure, on one line. Empty if the case holds. */
  readonly message: string;
}

/** `error` is what the case was ended by, undefined if it held. */
export function outcomeOf(error: unknown): Outcome {
  if (error === undefined) return { kind: "kept", message: "" };
  const message = (error instanceof Error ? error.message : String(error)).replaceAll(/\s+/g, " ").trim();
  const cause = error instanceof Error ? error.cause : undefined;
  if (isDovecoteError(error, "UNSUPPORTED") || isDovecoteError(cause, "UNSUPPORTED"))
    return { kind: "absent", message };
  if (!(error instanceof AssertionError)) return { kind: "broken", message };
  // Where a case asserts about the code of a refusal, or a contender of a race was refused.
  return {
    kind: /\bUNSUPPORTED\b|DovecoteError: [\w-]+ has no /.test(message) ? "absent" : "notKept",
    message,
  };
}
