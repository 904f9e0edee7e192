/** Assertions that cases share. Every message names what was expected, so that a mutant's failure can be recognised. */
import assert from "node:assert/strict";
import { type DovecoteError, type ErrorCode, isDovecoteError } from "@dovecote/core";
import type { ProbedDelivery, Session } from "../define-harness.ts";

/**
 * The call has to be refused with one of the codes, whether it throws or rejects; answers the error.
 *
 * @example
 * await refused("a stale ack", ["LOST_CLAIM"], () => outbox.ack(stale));
 */
export async function refused(
  what: string,
  codes: readonly ErrorCode[],
  call: () => unknown,
): Promise<DovecoteError> {
  let answer: unknown;
  try {
    answer = await call();
  } catch (error) {
    if (isDovecoteError(error)) {
      assert.ok(
        codes.includes(error.code),
        `${what} must be refused with ${codes.join(" or ")}, got ${error.code}: ${error.message}`,
      );
      return error;
    }
    assert.fail(`${what} must be refused with a DovecoteError, got ${String(error)}`);
  }
  assert.fail(
    `${what} must be refused with ${codes.join(" or ")}, but it was accepted${describeAnswer(answer)}`,
  );
}

function describeAnswer(answer: unknown): string {
  return answer === undefined ? "" : ` and answered ${JSON.stringify(answer)}`;
}

/** Runs the call and asserts that no delivery row changed, byte for byte. */
export async function unchanged<T>(what: string, session: Session, call: () => Promise<T>): Promise<T> {
  const before = await session.probe.deliveries();
  const result = await call();
  assert.deepEqual(await session.probe.deliveries(), before, `${what} must leave every row byte-identical`);
  return result;
}

/** The one delivery row with an id. */
export async function deliveryOf(session: Session, rowId: number): Promise<ProbedDelivery> {
  const row = (await session.probe.deliveries()).find((delivery) => delivery.rowId === rowId);
  assert.ok(row !== undefined, `row ${rowId} must have a delivery`);
  return row;
}
