import { type AnyDriver, override, sqlMutant } from "@dovecote/conformance";
import { DovecoteError } from "@dovecote/core";
import { callersConnection, type PostgresJsConnection, type Run, runOf } from "../../src/client.ts";
import { quoteIdentifier } from "../../src/schema.ts";
import { claim, settle } from "../../src/settle.ts";
import { type StatementTexts, statementsOf } from "../../src/statements.ts";
import { OwnTransaction } from "../../src/transaction.ts";
import { type PostgresMutant, readThenInsert } from "./define.ts";

const GUARD = "strpos(coalesce(current_setting('dovecote.transaction', true), ''), $1::text) > 0";

export const tx: readonly PostgresMutant[] = [
  sqlMutant(
    "sql-event-without-delivery",
    "TX-01",
    /every event must have its delivery/,
    "enqueue",
    ") as f using (identity_digest)",
    ") as f using (identity_digest) where false",
  ),
  {
    name: "enqueue-on-another-connection",
    breaks: "TX-02",
    because: /a rollback must write nothing/,
    wrap: enqueueingOnAnotherConnection,
  },
  {
    name: "enqueue-visible-before-the-commit",
    breaks: "TX-03",
    because: /a page must not show an uncommitted event/,
    wrap: enqueueingOnAnotherConnection,
  },
  {
    name: "guard-armed-once",
    breaks: "TX-04",
    because: /an enqueue after the rollback of the first one must be accepted/,
    // Armed after the savepoint, the setting is gone with its rollback.
    wrap(driver) {
      const armed = new WeakSet<object>();
      return override(driver, {
        async enqueue(handle, tenant, rows) {
          const key = handle as object;
          if (!armed.has(key) || handle instanceof OwnTransaction) {
            armed.add(key);
            return driver.enqueue(handle, tenant, rows);
          }
          const [setting] = await callersConnection(handle).answers(
            "select coalesce(current_setting('dovecote.transaction', true), '') as answer",
            [],
          );
          if (setting === "") throw new DovecoteError("TX_REQUIRED", "the guard is gone");
          return driver.enqueue(handle, tenant, rows);
        },
      });
    },
  },
  sqlMutant(
    "sql-enqueue-without-guard",
    "TX-05",
    /enqueue with the client, without a transaction, must write nothing/,
    "enqueue",
    `where ${GUARD}`,
    "where $1::text is not null",
  ),
  {
    name: "settle-joins-the-open-transaction",
    breaks: "TX-07",
    because: /a rollback must not undo an ack/,
    wrap: (driver, _client, schema) =>
      joining(driver, (run) => ({
        settle: (tenant, items) => settle(run, textsOf(schema), tenant, items),
      })),
  },
  {
    name: "claim-joins-the-callers-transaction",
    breaks: "TX-07",
    because: /one event can be claimed, got 2/,
    wrap: (driver, _client, schema) =>
      joining(driver, (run) => ({ claim: (request) => claim(run, textsOf(schema), request) })),
  },
  {
    name: "claim-joins-a-transaction-of-ours",
    breaks: "TX-07",
    because: /one event can be claimed, got 2/,
    wrap: (driver, _client, schema) =>
      joining(
        driver,
        (run) => ({ claim: (request) => claim(run, textsOf(schema), request) }),
        (handle) => handle instanceof OwnTransaction,
      ),
  },
  sqlMutant(
    "sql-contended-enqueue-fails",
    "TX-11",
    /told to retry, got DRIVER_FAILURE/,
    "enqueue",
    ...readThenInsert,
  ),
];

function textsOf(schema: string): StatementTexts {
  return statementsOf(quoteIdentifier(schema));
}

/** Some methods run on the connection of the last handle that was given to `enqueue`. */
function joining(
  driver: AnyDriver,
  membersOn: (run: Run) => Partial<AnyDriver>,
  isJoined: (handle: unknown) => boolean = (handle) => !(handle instanceof OwnTransaction),
): AnyDriver {
  let current = driver;
  return override(driver, {
    enqueue(handle, tenant, rows) {
      const connection = handle instanceof OwnTransaction ? handle.sql : handle;
      const run = runOf(connection as PostgresJsConnection);
      current = isJoined(handle) ? override(driver, membersOn(run)) : driver;
      return driver.enqueue(handle, tenant, rows);
    },
    claim: (request) => current.claim(request),
    settle: (tenant, items) => current.settle(tenant, items),
  });
}

function enqueueingOnAnotherConnection(driver: AnyDriver): AnyDriver {
  return override(driver, {
    enqueue: (_tx, tenant, rows) => driver.transaction((own) => driver.enqueue(own, tenant, rows)),
  });
}
