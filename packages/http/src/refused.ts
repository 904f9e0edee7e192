/** Why a request is not handled, or what was handled not kept. */
import type { Problem } from "./problem.ts";

/** Thrown to where the gate answers: whatever was begun rolls back on the way. */
export class Refused extends Error {
  readonly problem: Problem;

  constructor(problem: Problem) {
    super(`${problem.code}: ${problem.detail}`);
    this.name = "Refused";
    this.problem = problem;
  }
}

/** The client went away before its body was whole: there is nobody to answer, and the key is given back. */
export class UploadAborted extends Error {
  constructor(cause?: unknown) {
    super("the client closed the connection before its request was whole", { cause });
    this.name = "UploadAborted";
  }
}

/** A transaction that is to be repeated, with a body that its first run has read. */
export function notRepeatable(): Refused {
  return new Refused({
    code: "store-unavailable",
    detail: "The transaction conflicted with another one: ask again with the same key.",
    retryAfterSeconds: 1,
  });
}
