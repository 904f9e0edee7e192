/** The options of `keys.run`, checked and completed. */
import { checkOptions, invalid } from "../arguments.ts";
import type { KeyResponse, UnreplayableResponse } from "./response.ts";

/** Whether an answer is recorded, or the key is given back as if it had never been used. */
export type RecordPolicy = (response: KeyResponse | UnreplayableResponse) => boolean;

/** What another attempt may answer differently, although the request is the same. */
const PASSING: ReadonlySet<number> = new Set([401, 403, 407, 408, 421, 425, 429]);

/** 2xx, 3xx and 4xx, but 401, 403, 407, 408, 421, 425 and 429. */
export const recordsByDefault: RecordPolicy = ({ status }) => status < 500 && !PASSING.has(status);

const MEMBERS = ["mode", "record", "signal"] as const;

export interface RunPlan {
  readonly mode: "transaction" | "record";
  readonly record: RecordPolicy;
  readonly signal: AbortSignal | undefined;
  /** What `begin` is given. */
  readonly begin: Record<string, unknown>;
}

export function toRunPlan(given: unknown, beginMembers: readonly string[]): RunPlan {
  if (given === undefined) throw invalid("options", "an object", given);
  const { mode, record, signal, ...begin } = checkOptions(given, [...MEMBERS, ...beginMembers], "options");
  if (mode !== undefined && mode !== "transaction" && mode !== "record") {
    throw invalid("options.mode", '"transaction" or "record"', mode);
  }
  if (record !== undefined && typeof record !== "function") {
    throw invalid("options.record", "a function", record);
  }
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw invalid("options.signal", "an AbortSignal", signal);
  }
  return { mode: mode ?? "transaction", record: (record ?? recordsByDefault) as RecordPolicy, signal, begin };
}
