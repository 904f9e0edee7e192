import { setImmediate as turn } from "node:timers/promises";
import { override, sqlMutant } from "@dovecote/conformance";
import { quoteIdentifier } from "../../src/schema.ts";
import { EXPIRY, EXPIRY_AT_THE_START, NO_EXPIRY, NO_TOKEN, type PostgresMutant, TOKEN } from "./define.ts";

export const fence: readonly PostgresMutant[] = [
  sqlMutant("sql-ack-without-token", "FENCE-01", /a stale ack.* but it was accepted/, "ack", TOKEN, NO_TOKEN),
  sqlMutant(
    "sql-ack-without-attempt",
    "FENCE-01",
    /an ack with the live token and an.* but it was accepted/,
    "ack",
    "attempts = (select $3::text::integer[])[place]",
    "cardinality($3::text::integer[]) > 0",
  ),
  sqlMutant(
    "sql-settle-without-token",
    "FENCE-02",
    /a stale.* but it was accepted/,
    "settle",
    TOKEN,
    NO_TOKEN,
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
    wrap: (driver, client, schema) =>
      override(driver, {
        async settle(tenant, items) {
          await client.unsafe(`alter table ${quoteIdentifier(schema)}.dovecote_deliveries
            drop constraint if exists dovecote_deliveries_token`);
          return driver.settle(tenant, items);
        },
      }),
  },
  sqlMutant(
    "sql-attempt-not-counted",
    "FENCE-04",
    /attempt must/,
    "claimTenant",
    "attempts = d.attempts + 1",
    "attempts = greatest(d.attempts, 1)",
  ),
  sqlMutant(
    "sql-ack-without-expiry",
    "FENCE-05",
    /an expired ack.* but it was accepted/,
    "ack",
    EXPIRY,
    NO_EXPIRY,
  ),
  sqlMutant(
    "sql-expiry-judged-before-the-lock",
    "FENCE-05",
    /the ack of a claim that expired while it waited/,
    "ack",
    EXPIRY,
    EXPIRY_AT_THE_START,
  ),
  sqlMutant(
    "sql-ack-any-token-of-its-batch",
    "FENCE-07",
    /a batch of ack with crossed tokens/,
    "ack",
    "claim_token = (select $4::text::bytea[])[place]",
    "claim_token = any ((select $4::text::bytea[])::bytea[])",
  ),
  sqlMutant(
    "sql-ack-beside-a-claim-by-an-old-time",
    "FENCE-09",
    /settle\(old\) beside claim\(new\)/,
    "ack",
    EXPIRY,
    EXPIRY_AT_THE_START,
  ),
  {
    name: "prune-reads-then-deletes",
    breaks: "FENCE-10",
    because: /prune must not remove a row that was redriven|two prunes must remove a row once/,
    wrap: (driver, client, schema) =>
      override(driver, {
        async prune({ olderThanMs }) {
          const quoted = quoteIdentifier(schema);
          const old = await client.unsafe<{ id: string }[]>(
            `select event_row_id::text as id from ${quoted}.dovecote_deliveries
            where coalesce(delivered_at, quarantined_at) <= clock_timestamp() - $1::text::bigint * interval '1 millisecond'`,
            [String(olderThanMs)],
          );
          await turn();
          for (const { id } of old) {
            await client.unsafe(
              `with removed as (delete from ${quoted}.dovecote_deliveries where event_row_id = $1::text::bigint)
              delete from ${quoted}.dovecote_events where row_id = $1::text::bigint`,
              [id],
            );
          }
          return old.length;
        },
      }),
  },
];
