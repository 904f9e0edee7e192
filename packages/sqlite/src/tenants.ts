import type { Connection } from "./connection.ts";

const NEXT = {
  delivered: "nextTenantDelivered",
  quarantined: "nextTenantQuarantined",
  /** Of idempotency keys. */
  claimed: "nextTenantClaimed",
} as const;

/**
 * The tenants that have rows of a state, or the one that is named. Delivered and quarantined rows, and claimed keys, are
 * indexed by tenant alone; whoever spans tenants hops from one to the next through that index instead of reading it whole.
 */
export function* tenantsWith(
  connection: Connection,
  state: keyof typeof NEXT,
  named: string | null,
): Generator<string, void, undefined> {
  if (named !== null) {
    yield named;
    return;
  }
  const statement = connection.statement(NEXT[state]);
  let after = "";
  for (;;) {
    const { tenant_id } = statement.get({ after }) as { tenant_id: string | null };
    if (tenant_id === null) return;
    yield tenant_id;
    after = tenant_id;
  }
}
