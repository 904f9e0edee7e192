/** What is known of a library, case by case, as data that a run is compared with. */
import type { Kind, Outcome } from "./outcome.ts";

export interface Expectation {
  /** The title of a case: its id and its intent. */
  readonly case: string;
  /** `broken`: the set-up of the case relies on what the library does not promise, so that it cannot be asked. */
  readonly is: Kind;
  /** A race decides: the case may also hold. */
  readonly sometimes?: true;
  /** A part of the message that the case has to fail with. */
  readonly says?: string;
  /**
   * How `notKept` is to be read. `different`: the library promises another thing, and is not at fault. `absent`: the
   * assertion stands for something that the library does not have, such as tokens.
   */
  readonly read?: "different" | "absent";
  /** Why, in a sentence. */
  readonly note?: string;
}

/** What a reader is told. */
export function verdict({ is, read }: Expectation): string {
  if (is === "kept") return "kept";
  if (is === "broken") return "cannot be asked";
  if (is === "absent" || read === "absent") return "has no such thing";
  return read === "different" ? "not kept (another contract)" : "not kept";
}

/** Answers what is wrong, or undefined if the outcome is the expected one. */
export function mismatch(expected: Expectation | undefined, { kind, message }: Outcome): string | undefined {
  if (expected === undefined) return `nothing is expected of it; it is ${kind}: ${message}`;
  if (kind === "kept" && expected.sometimes) return undefined;
  if (kind !== expected.is) return `expected ${expected.is}, found ${kind}: ${message}`;
  if (expected.says !== undefined && !message.includes(expected.says)) {
    return `expected "${expected.says}" in the message, found: ${message}`;
  }
  return undefined;
}
