import { setImmediate as turn } from "node:timers/promises";
import { type AnyDriver, override, sqlMutant } from "@dovecote/conformance";
import type Database from "better-sqlite3";
import { settle } from "../../src/settle.ts";
import type { SqliteMutant } from "./define.ts";
import { atTheTimeOfTheCall } from "./stopped-clock.ts";

const TOKEN = "and claim_token = :token ";
const EXPIRY = "and claim_expires_at > :now\n";

export const fence: readonly SqliteMutant[] = [
  sqlMutant("sql-ack-without-token", "FENCE-01", /a stale ack.* but it was accepted/, "ack", TOKEN, ""),
  sqlMutant(
    "sql-ack-without-attempt",
    "FENCE-01",
    /an ack with the live token and an.* but it was accepted/,
    "ack",
    "attempts = :attempt",
    ":attempt > 0",
  ),
  sqlMutant("sql-retry-without-token", "FENCE-02", /a stale retry.* but it was accepted/, "retry", TOKEN, ""),
  sqlMutant(
    "sql-release-without-token",
    "FENCE-02",
    /a stale release.* but it was accepted/,
    "release",
    TOKEN,
    "",
  ),
  sqlMutant(
    "sql-quarantine-without-token",
    "FENCE-02",
    /a stale quarantine.* but it was accepted/,
    "quarantine",
    TOKEN,
    "",
  ),
  {
    // The CHECK that ties the token to the state would refuse it.
    ...sqlMutant(
      "sql-ack-keeps-its-token",
      "FENCE-03",
      /must clear the token/,
      "ack",
      "claim_token = null, ",
      "",
    ),
    wrap(driver, client) {
      client.pragma("ignore_check_constraints = on");
      return driver;
    },
  },
  sqlMutant(
    "sql-attempt-not-counted",
    "FENCE-04",
    /the claim must store its attempt/,
    "claim",
    "attempts = attempts + 1, ",
    "",
  ),
  sqlMutant("sql-ack-without-expiry", "FENCE-05", /an expired ack.* but it was accepted/, "ack", EXPIRY, ""),
  {
    name: "expiry-judged-before-the-lock",
    breaks: "FENCE-05",
    because: /of a claim that expired while it waited/,
    wrap: settlingByTheTimeOfTheCall,
  },
  {
    name: "settle-beside-a-claim-by-an-old-time",
    breaks: "FENCE-09",
    because: /settle\(old\) beside claim\(new\)/,
    wrap: settlingByTheTimeOfTheCall,
  },
  {
    name: "prune-reads-then-deletes",
    breaks: "FENCE-10",
    because: /prune must not remove a row that was redriven|two prunes must remove a row once/,
    wrap: (driver, client) =>
      override(driver, {
        async prune({ olderThanMs }) {
          const old = client
            .prepare(
              `select event_row_id from dovecote_deliveries where coalesce(delivered_at, quarantined_at)
              <= cast(round(unixepoch('subsec') * 1000) as integer) * 1000 - ?`,
            )
            .pluck()
            .all(olderThanMs * 1000);
          await turn();
          for (const rowId of old) {
            client.prepare("delete from dovecote_deliveries where event_row_id = ?").run(rowId);
            client.prepare("delete from dovecote_events where row_id = ?").run(rowId);
          }
          return old.length;
        },
      }),
  },
];

function settlingByTheTimeOfTheCall(driver: AnyDriver, client: Database.Database): AnyDriver {
  return override(driver, {
    settle: (tenant, items) => atTheTimeOfTheCall(client, (connection) => settle(connection, tenant, items)),
  });
}
