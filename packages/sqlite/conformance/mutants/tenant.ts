import { sqlMutant } from "@dovecote/conformance";
import type { SqliteMutant } from "./define.ts";

export const tenant: readonly SqliteMutant[] = [
  sqlMutant(
    "sql-ack-any-tenant",
    "TENANT-01",
    /tenant/,
    "ack",
    "and (:tenant is null or tenant_id = :tenant)",
    "",
  ),
];
