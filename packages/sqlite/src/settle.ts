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

/** Judged in input order, so that a row named twice is judged as if the items had been sent singly (FENCE-12). */
export function settle(
  connection: Connection,
  tenant: string | null,
  items: readonly SettleItem[],
): readonly SettleOutcome[] {
  const now = connection.now();
  return items.map((item) =>
    apply(connection, tenant, item, now) ? { outcome: "applied" } : refusal(connection, tenant, item),
  );
}

export function renew(
  connection: Connection,
  tenant: string | null,
  items: readonly RenewItem[],
): readonly RenewOutcome[] {
  const now = connection.now();
  const statement = connection.statement("renew");
  return items.map((item) => {
    const { rowId, attempt, token } = item;
    const lease = item.leaseMs * 1000;
    const unshare = item.unshare ? 1 : 0;
    const { changes } = statement.run({ rowId, attempt, token, tenant, now, lease, unshare });
    return changes === 1
      ? { outcome: "applied", expiresAt: now + lease }
      : refusal(connection, tenant, { ...item, action: "renew" });
  });
}

function apply(connection: Connection, tenant: string | null, item: SettleItem, now: number): boolean {
  const { rowId } = item;
  if (item.action === "quarantinePending") {
    const { reason } = item;
    return connection.statement("quarantinePending").run({ rowId, tenant, reason, now }).changes === 1;
  }
  const proof = { rowId, attempt: item.attempt, token: item.token, tenant, now };
  switch (item.action) {
    case "ack":
      return connection.statement("ack").run(proof).changes === 1;
    case "retry":
      return (
        connection.statement("retry").run({ ...proof, ...item.failure, delay: item.delayMs * 1000 })
          .changes === 1
      );
    case "release":
      return connection.statement("release").run({ ...proof, delay: item.delayMs * 1000 }).changes === 1;
    case "quarantine": {
      const { reason, failure } = item;
      const statement = connection.statement(failure === null ? "quarantine" : "quarantineFailed");
      return statement.run({ ...proof, reason, ...failure }).changes === 1;
    }
  }
}

/** Why nothing was written: what is true now, in the order of FENCE-06. */
function refusal(
  connection: Connection,
  tenant: string | null,
  { rowId, action }: { readonly rowId: number; readonly action: SettleItem["action"] | "renew" },
): Refusal {
  const row = connection.statement("stateOf").get({ rowId, tenant }) as { state: DeliveryState } | undefined;
  if (row === undefined) return { outcome: "notFound" };
  if (row.state !== "claimed" || action === "quarantinePending") {
    return { outcome: "illegalTransition", state: row.state };
  }
  return { outcome: "lostClaim" };
}
