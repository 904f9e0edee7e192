/** Failure texts on their way into a settlement: whatever they hold, they cannot block it. */
import { invalid } from "./arguments.ts";
import { BOUNDS } from "./bounds.ts";
import type { Failure } from "./driver.ts";
import { safeText } from "./event/text.ts";

/** Takes secrets out of a text before it is stored. */
export type Redact = (text: string) => string;

const REDACTION_FAILED = "[redaction failed]";

/** Redacts, cleans and cuts a text: NUL and lone surrogates replaced, at most `maxBytes` of UTF-8. */
export function failureText(
  value: unknown,
  maxBytes: number,
  redact: Redact | undefined,
  path: string,
): string {
  if (typeof value !== "string" || value === "") throw invalid(path, "a non-empty string", value);
  return safeText(redact === undefined ? value : redacted(value, redact), maxBytes);
}

export function checkFailure(value: unknown, redact: Redact | undefined, path: string): Failure {
  if (typeof value !== "object" || value === null) throw invalid(path, "{ code, detail }", value);
  const { code, detail } = value as Partial<Failure>;
  return {
    code: failureText(code, BOUNDS.failureCodeBytes, undefined, `${path}.code`),
    detail: failureText(detail, BOUNDS.failureDetailBytes, redact, `${path}.detail`),
  };
}

/** A hook that throws or answers with something else must not let the original text through. */
function redacted(text: string, redact: Redact): string {
  try {
    const answer: unknown = redact(text);
    return typeof answer === "string" && answer !== "" ? answer : REDACTION_FAILED;
  } catch {
    return REDACTION_FAILED;
  }
}

/** A failure code to search for, compared as it was stored. */
export function checkFailureCode(value: unknown, path: string): string {
  return failureText(value, BOUNDS.failureCodeBytes, undefined, path);
}
