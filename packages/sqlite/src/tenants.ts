import type { Connection } from "./connection.ts";

/**
 * The tenants that have rows of a state, or the one that is named. Delivered and quarantined rows are indexed by
 * tenant alone; whoever spans tenants hops from one to the next through that index instead of reading it whole.
 */
export function* tenantsWith(
  connection: Connection,
  state: "delivered" | "quarantined",
  named: string | null,
): Generator<string, void, undefined> {
  if (named !== null) {
    yield named;
    return;
  }
  const statement = connection.statement(
    state === "delivered" ? "nextTenantDelivered" : "nextTenantQuarantined",
  );
  let after = "";
  for (;;) {
    const { tenant_id } = statement.get({ after }) as { tenant_id: string | null };
    if (tenant_id === null) return;
    yield tenant_id;
    after = tenant_id;
  }
}
