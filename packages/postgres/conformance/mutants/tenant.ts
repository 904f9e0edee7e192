import { sqlMutant } from "@dovecote/conformance";
import { EXPIRY, type PostgresMutant } from "./define.ts";

const TENANT = "and ($1::text is null or tenant_id = $1::text)";

export const tenant: readonly PostgresMutant[] = [
  sqlMutant(
    "sql-ack-any-tenant",
    "TENANT-01",
    /tenant/,
    "ack",
    `${EXPIRY}\n    ${TENANT}`,
    `${EXPIRY}\n    and ($1::text is null or true)`,
  ),
];
