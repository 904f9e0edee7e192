import { AssertionError } from "node:assert";
import { HarnessError } from "../harness-error.ts";
import { TimeLimitError } from "../within.ts";

/** Where an error was thrown, without Node's own frames, for those errors whose message does not say enough. */
export function stackFrames(error: unknown): readonly string[] {
  if (!(error instanceof Error) || error instanceof AssertionError || error instanceof TimeLimitError)
    return [];
  if (error.cause instanceof Error) return stackFrames(error.cause);
  if (error instanceof HarnessError) return [];
  return (error.stack ?? "").split("\n").filter((line) => /^\s+at /.test(line) && !line.includes("(node:"));
}
