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
