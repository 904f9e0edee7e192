/** Ending and extending claims. Every statement proves row, attempt, token and unexpired lease by itself. */
import type {
  DeliveryState,
  Refusal,
  RenewItem,
  RenewOutcome,
  SettleItem,
  SettleOutcome,
} from "@dovecote/core";
import type { Connection } from "./connection.ts";

/** One after the other, so that a row named twice is judged as if its items had been sent singly (FENCE-12). */
export function settle(
  connection: Connection,
  tenant: string | null,
  items: readonly SettleItem[],
): readonly SettleOutcome[] {
  const now = connection.now();
  return items.map((item) =>
    write(connection, tenant, item, now) === 1
      ? { outcome: "applied" }
      : refusal(connection, tenant, item.rowId, item.action !== "quarantinePending"),
  );
}

export function renew(
  connection: Connection,
  tenant: string | null,
  items: readonly RenewItem[],
): readonly RenewOutcome[] {
  const now = connection.now();
  return items.map(({ rowId, attempt, token, leaseMs, unshare }) => {
    const lease = leaseMs * 1000;
    const parameters = { rowId, attempt, token, tenant, now, lease, unshare: unshare ? 1 : 0 };
    return connection.run("renew", parameters) === 1
      ? { outcome: "applied", expiresAt: now + lease }
      : refusal(connection, tenant, rowId, true);
  });
}

function write(connection: Connection, tenant: string | null, item: SettleItem, now: number): number {
  const { rowId, action } = item;
  if (action === "quarantinePending")
    return connection.run(action, { rowId, tenant, reason: item.reason, now });
  const proof = { rowId, attempt: item.attempt, token: item.token, tenant, now };
  switch (action) {
    case "ack":
      return connection.run(action, proof);
    case "retry":
      return connection.run(action, { ...proof, ...item.failure, delay: item.delayMs * 1000 });
    case "release":
      return connection.run(action, { ...proof, delay: item.delayMs * 1000 });
    case "quarantine": {
      const { code = null, detail = null } = item.failure ?? {};
      return connection.run(action, { ...proof, reason: item.reason, code, detail });
    }
  }
}

/** Why nothing was written: what is true now, in the order of FENCE-06. */
function refusal(connection: Connection, tenant: string | null, rowId: number, proves: boolean): Refusal {
  const row = connection.get<{ state: DeliveryState }>("stateOf", { rowId, tenant });
  if (row === undefined) return { outcome: "notFound" };
  if (row.state !== "claimed" || !proves) return { outcome: "illegalTransition", state: row.state };
  return { outcome: "lostClaim" };
}
