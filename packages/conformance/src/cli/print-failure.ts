/** What failed, and the one command that repeats it. */
import { styleText } from "node:util";
import type { CaseResult } from "../report.ts";
import { stackFrames } from "./stack-frames.ts";

export interface Failure {
  readonly result: CaseResult;
  readonly error: unknown;
}

export function failureText({ result, error }: Failure, harness: string, seed: number): string {
  const { id, level, intent, message = "" } = result;
  const title = styleText("red", `${id} (level ${level}): ${intent}`, { stream: process.stdout });
  const repeat = `repeat: npx @dovecote/conformance ${harness} --only ${id} --seed ${seed}`;
  const body = [message, ...stackFrames(error), repeat].join("\n").replaceAll(/^(?=.)/gm, "  ");
  return `\n${title}\n${body}`;
}
