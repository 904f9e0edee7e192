import { type AnyDriver, override, sqlMutant } from "@dovecote/conformance";
import type Database from "better-sqlite3";
import { claim } from "../../src/claim.ts";
import { Connection } from "../../src/connection.ts";
import { STATEMENTS } from "../../src/statements.ts";
import type { SqliteMutant } from "./define.ts";

export const tx: readonly SqliteMutant[] = [
  sqlMutant(
    "sql-event-without-delivery",
    "TX-01",
    /every event must have its delivery/,
    "insertDelivery",
    "values (:rowId, :tenant, :stream, 'pending', :now + :delay, 0, 0)",
    "select :rowId, :tenant, :stream, 'pending', :now + :delay, 0, 0 where false",
  ),
  {
    name: "enqueue-commits-by-itself",
    breaks: "TX-02",
    because: /a rollback must write nothing/,
    wrap: committingAtOnce,
  },
  {
    name: "enqueue-visible-before-the-commit",
    breaks: "TX-03",
    because: /a page must not show an uncommitted event/,
    wrap: committingAtOnce,
  },
  {
    name: "enqueue-survives-its-process",
    breaks: "TX-06",
    because: /a transaction that died must leave no event/,
    wrap: committingAtOnce,
  },
  {
    name: "claim-joins-an-open-transaction",
    breaks: "TX-07",
    because: /a claim must wait while a transaction is open/,
    wrap: (driver, client) =>
      override(driver, {
        claim: async (request) =>
          client.inTransaction ? claim(new Connection(client, STATEMENTS), request) : driver.claim(request),
      }),
  },
];

function committingAtOnce(driver: AnyDriver, client: Database.Database): AnyDriver {
  return override(driver, {
    enqueue(tx, tenant, rows) {
      const outcomes = driver.enqueue(tx, tenant, rows);
      client.exec("commit; begin immediate");
      return outcomes;
    },
  });
}
