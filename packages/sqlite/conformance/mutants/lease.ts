import { override, sqlMutant } from "@dovecote/conformance";
import { renew } from "../../src/settle.ts";
import { selectingThenUpdating } from "./claim.ts";
import type { SqliteMutant } from "./define.ts";
import { atTheTimeOfTheCall } from "./stopped-clock.ts";

const TOKEN = "and claim_token = :token ";
const EXPIRY = "and claim_expires_at > :now\n";

export const lease: readonly SqliteMutant[] = [
  {
    name: "select-then-update-takeover",
    breaks: "LEASE-02",
    because: /must be taken over by exactly one contender/,
    wrap: selectingThenUpdating,
  },
  sqlMutant(
    "sql-renew-without-token",
    "LEASE-04",
    /renew with a superseded token.* but it was accepted/,
    "renew",
    TOKEN,
    "",
  ),
  sqlMutant(
    "sql-renew-without-expiry",
    "LEASE-06",
    /renew of an expired lease.* but it was accepted/,
    "renew",
    EXPIRY,
    "",
  ),
  sqlMutant(
    "sql-renew-from-old-expiry",
    "LEASE-03",
    /the renewed expiry/,
    "renew",
    ":now + :lease",
    "claim_expires_at + :lease",
  ),
  sqlMutant(
    "sql-renew-races-without-expiry",
    "LEASE-05",
    /an expired lease must not be renewed/,
    "renew",
    EXPIRY,
    "",
  ),
  {
    name: "renew-judges-expiry-before-the-lock",
    breaks: "LEASE-06",
    because: /the renewal of a claim that expired while it waited/,
    wrap: (driver, client) =>
      override(driver, {
        renew: (tenant, items) =>
          atTheTimeOfTheCall(client, (connection) => renew(connection, tenant, items)),
      }),
  },
];
