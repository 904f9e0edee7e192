import type { EnqueueOutcome } from "@dovecote/core";
import { isDovecoteError } from "@dovecote/core";
import type { AnyDriver, Session } from "../../define-harness.ts";
import { override } from "../../override.ts";
import { remembering, type SemanticMutant } from "./define.ts";

export const tx: readonly SemanticMutant[] = [
  {
    name: "identity-remembered-beyond-its-savepoint",
    breaks: "TX-04",
    because: /dropped by a savepoint must be free/,
    on: { savepoints: true },
    wrap: remembering,
  },
  {
    name: "dead-transaction-never-ends",
    breaks: "TX-06",
    because: /a transaction whose connection died must be answered/,
    on: { serverSide: true },
    wrap: ({ driver }) =>
      override(driver, {
        transaction: (fn) =>
          driver.transaction(fn).catch((error: unknown) => {
            if (isDovecoteError(error, "CONNECTION_LOST")) return new Promise<never>(() => {});
            throw error;
          }),
      }),
  },
  {
    name: "dead-transaction-enqueues-elsewhere",
    breaks: "TX-06",
    because: /a late enqueue on a dead connection must be refused/,
    on: { serverSide: true },
    wrap: (session) => enqueueingElsewhere(session, ["CONNECTION_LOST", "TX_REQUIRED"]),
  },
  {
    name: "transaction-does-not-await-its-callback",
    breaks: "TX-08",
    because: /async/,
    wrap: ({ driver }) =>
      override(driver, {
        transaction: (fn) =>
          driver.transaction((own) => {
            const result = fn(own);
            if (!(result instanceof Promise)) return result as Awaited<typeof result>;
            result.catch(() => {});
            return undefined as never;
          }),
      }),
  },
  {
    name: "ended-handle-begins-anew",
    breaks: "TX-09",
    because: /enqueue after its commit must be refused|a handle after its commit must write nothing/,
    wrap: (session) => enqueueingElsewhere(session, ["TX_CLOSED"]),
  },
  {
    name: "concurrent-enqueues-share-an-answer",
    breaks: "TX-10",
    because: /each event must have its own row/,
    wrap: ({ driver }) => {
      let first: ReturnType<AnyDriver["enqueue"]> | undefined;
      return override(driver, {
        enqueue(handle, tenant, rows) {
          const answer = driver.enqueue(handle, tenant, rows);
          if (first !== undefined) return first;
          first = answer;
          setImmediate(() => {
            first = undefined;
          });
          return answer;
        },
      });
    },
  },
  {
    name: "identity-remembered-beyond-its-rollback",
    breaks: "TX-11",
    because: /rolled back must not be remembered/,
    wrap: remembering,
  },
];

/** A driver that takes a transaction of its own when the caller's is gone. */
function enqueueingElsewhere(
  { driver }: Session,
  codes: readonly ("CONNECTION_LOST" | "TX_REQUIRED" | "TX_CLOSED")[],
): AnyDriver {
  return override(driver, {
    enqueue(handle, tenant, rows) {
      const elsewhere = (error: unknown): readonly EnqueueOutcome[] | Promise<readonly EnqueueOutcome[]> => {
        if (!codes.some((code) => isDovecoteError(error, code))) throw error;
        let answer: ReturnType<AnyDriver["enqueue"]> | undefined;
        const transaction = driver.transaction((own) => {
          answer = driver.enqueue(own, tenant, rows);
          return answer;
        });
        // A synchronous driver has run it by now.
        if (answer === undefined || answer instanceof Promise) return transaction;
        transaction.catch(() => {});
        return answer;
      };
      try {
        const answer = driver.enqueue(handle, tenant, rows);
        return answer instanceof Promise ? answer.catch(elsewhere) : answer;
      } catch (error) {
        return elsewhere(error);
      }
    },
  });
}
