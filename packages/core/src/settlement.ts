/** From what a caller says to the one settle primitive of the drivers, and from its outcomes to typed errors. */
import { checkBatch, checkOptions, checkRowId, checkWhole, invalid, orDefault } from "./arguments.ts";
import { BOUNDS } from "./bounds.ts";
import { toProof } from "./claim.ts";
import type { Refusal, SettleItem } from "./driver.ts";
import { DovecoteError } from "./errors.ts";
import { checkFailure, failureText, type Redact } from "./failure.ts";

type Action = "ack" | "retry" | "release" | "quarantine";

const MEMBERS: Readonly<Record<Action, readonly string[]>> = {
  ack: [],
  retry: ["delayMs", "failure"],
  release: ["delayMs"],
  quarantine: ["reason", "failure"],
};

/** One settle item, from a claim and the options of its action. */
export function toSettleItem(
  action: Action,
  claim: unknown,
  given: unknown,
  redact: Redact | undefined,
  path: { readonly claim: string; readonly options: string },
): SettleItem {
  const options = checkOptions(given, MEMBERS[action], path.options);
  const delayMs = () => checkWhole(orDefault(options.delayMs, 0), BOUNDS.delayMs, `${path.options}.delayMs`);
  const failure = () => checkFailure(options.failure, redact, `${path.options}.failure`);
  switch (action) {
    case "ack":
      return { action, ...toProof(claim, path.claim) };
    case "retry":
      return { action, ...toProof(claim, path.claim), delayMs: delayMs(), failure: failure() };
    case "release":
      return { action, ...toProof(claim, path.claim), delayMs: delayMs() };
    case "quarantine": {
      const { quarantineReasonBytes } = BOUNDS;
      const reason = failureText(options.reason, quarantineReasonBytes, redact, `${path.options}.reason`);
      if (typeof claim === "number") {
        if (options.failure !== undefined) {
          throw invalid(
            `${path.options}.failure`,
            "absent when a pending row is quarantined",
            options.failure,
          );
        }
        return { action: "quarantinePending", rowId: checkRowId(claim, path.claim), reason };
      }
      const last = options.failure === undefined ? null : failure();
      return { action, ...toProof(claim, path.claim), reason, failure: last };
    }
  }
}

/** The items of `settle(batch)`, where every item says its own action. */
export function toSettleItems(batch: unknown, redact: Redact | undefined): readonly SettleItem[] {
  if (!Array.isArray(batch)) throw invalid("batch", "a list of settlements", batch);
  checkBatch(batch, "batch");
  return batch.map((item: unknown, index) => {
    const path = `batch[${index}]`;
    if (typeof item !== "object" || item === null) throw invalid(path, "{ action, claim, … }", item);
    const { action, claim, ...options } = item as { action?: unknown; claim?: unknown };
    if (typeof action !== "string" || !Object.hasOwn(MEMBERS, action)) {
      throw invalid(`${path}.action`, "ack, retry, release or quarantine", action);
    }
    return toSettleItem(action as Action, claim, options, redact, { claim: `${path}.claim`, options: path });
  });
}

/** The typed error of a refused call with a single claim (FENCE-06). */
export function refusalError(refusal: Refusal, rowId: number, verb: string): DovecoteError {
  switch (refusal.outcome) {
    case "notFound":
      return new DovecoteError("NOT_FOUND", `cannot ${verb} row ${rowId}: there is no such row`, { rowId });
    case "illegalTransition": {
      const { state } = refusal;
      const message = `cannot ${verb} row ${rowId}: it is ${state}`;
      return new DovecoteError("ILLEGAL_TRANSITION", message, { rowId, state });
    }
    case "lostClaim": {
      const message = `cannot ${verb} row ${rowId}: the claim expired or was taken over; whoever holds it now decides`;
      return new DovecoteError("LOST_CLAIM", message, { rowId });
    }
  }
}
