/** Claiming, renewing and settling: one statement when every item applies, a second one to explain what did not. */
import {
  type ClaimedRow,
  type ClaimRequest,
  type DeliveryState,
  DovecoteError,
  type Refusal,
  type RenewItem,
  type RenewOutcome,
  type SettleItem,
  type SettleOutcome,
} from "@dovecote/core";
import type { ScopeName } from "./claim-statement.ts";
import type { Run } from "./client.ts";
import { afterWrite } from "./errors.ts";
import { arrayOf, byteaArrayOf, toClaimedRow } from "./rows.ts";
import type { StatementName, StatementTexts } from "./statements.ts";

const CLAIMS: Readonly<Record<ScopeName, readonly [StatementName, StatementName]>> = {
  all: ["claimAll", "claimAllShared"],
  stream: ["claimStream", "claimStreamShared"],
  tenant: ["claimTenant", "claimTenantShared"],
  tenantStream: ["claimTenantStream", "claimTenantStreamShared"],
};

export async function claim(
  run: Run,
  texts: StatementTexts,
  request: ClaimRequest,
): Promise<readonly ClaimedRow[]> {
  const { tenant, stream, limit, shared } = request;
  const scope = [tenant, stream].filter((part) => part !== null);
  const name: ScopeName =
    tenant === null ? (stream === null ? "all" : "stream") : stream === null ? "tenant" : "tenantStream";
  const tokens = request.drawTokens(limit);
  const rows = await run(texts[CLAIMS[name][shared ? 1 : 0]], [
    String(limit),
    request.worker,
    String(request.leaseMs),
    byteaArrayOf(tokens),
    ...scope,
  ]);
  if (rows.some((row) => row.at(-1) === "true")) {
    throw new DovecoteError(
      "ENTROPY_UNAVAILABLE",
      "the source of random bytes repeated a token; nothing was claimed",
    );
  }
  return rows
    .map((row) => toClaimedRow(row, tokens))
    .sort((a, b) => a.place - b.place)
    .map(({ place: _, ...claimed }) => claimed);
}

export async function renew(
  run: Run,
  texts: StatementTexts,
  tenant: string | null,
  items: readonly RenewItem[],
): Promise<readonly RenewOutcome[]> {
  return inRounds(run, texts, tenant, items, async (round) => {
    const rows = await run(texts.renew, [
      tenant,
      ...proofs(round),
      arrayOf(round.map(({ leaseMs }) => leaseMs)),
      arrayOf(round.map(({ unshare }) => unshare)),
    ]);
    return new Map(
      rows.map(([rowId, expiresAt]) => [
        Number(rowId),
        { outcome: "applied", expiresAt: Number(expiresAt) } as const,
      ]),
    );
  });
}

export async function settle(
  run: Run,
  texts: StatementTexts,
  tenant: string | null,
  items: readonly SettleItem[],
): Promise<readonly SettleOutcome[]> {
  return inRounds(run, texts, tenant, items, async (round) => {
    const rows = round.every(({ action }) => action === "ack")
      ? await run(texts.ack, [tenant, ...proofs(round)])
      : await run(texts.settle, [tenant, ...proofs(round), ...details(round)]);
    return new Map(rows.map(([rowId]) => [Number(rowId), { outcome: "applied" } as const]));
  });
}

/** What an item of a settlement without a claim is given in place of its proof. */
const NO_PROOF = { attempt: 0, token: new Uint8Array(16) };

/** Row ids, attempts and tokens as arrays, in ascending order of the row ids. */
function proofs(items: readonly (SettleItem | RenewItem)[]): readonly string[] {
  const proven = items.map((item) => ("token" in item ? item : { ...NO_PROOF, rowId: item.rowId }));
  return [
    arrayOf(proven.map(({ rowId }) => rowId)),
    arrayOf(proven.map(({ attempt }) => attempt)),
    byteaArrayOf(proven.map(({ token }) => token)),
  ];
}

function details(items: readonly SettleItem[]): readonly string[] {
  const failures = items.map((item) => ("failure" in item ? item.failure : null));
  return [
    arrayOf(items.map(({ action }) => action)),
    arrayOf(items.map((item) => ("delayMs" in item ? item.delayMs : 0))),
    JSON.stringify(failures.map((failure) => failure?.code ?? null)),
    JSON.stringify(failures.map((failure) => failure?.detail ?? null)),
    JSON.stringify(items.map((item) => ("reason" in item ? item.reason : null))),
  ];
}

/**
 * Applies items whose row ids are distinct, as the statements need, in ascending order of them. A row that is named
 * again is judged in a later round, as if the items had been sent one by one (FENCE-12).
 */
async function inRounds<
  Item extends { readonly rowId: number; readonly action?: SettleItem["action"] },
  Applied,
>(
  run: Run,
  texts: StatementTexts,
  tenant: string | null,
  items: readonly Item[],
  apply: (round: readonly Item[]) => Promise<ReadonlyMap<number, Applied>>,
): Promise<readonly (Applied | Refusal)[]> {
  const outcomes = new Map<Item, Applied | Refusal>();
  let waiting: readonly Item[] = items;
  while (waiting.length > 0) {
    const seen = new Set<number>();
    const round = waiting.filter(({ rowId }) => !seen.has(rowId) && seen.add(rowId));
    waiting = waiting.filter((item) => !round.includes(item));
    const sorted = [...round].sort((a, b) => a.rowId - b.rowId);
    const first = outcomes.size === 0;
    const applied = await apply(sorted).catch((error: unknown) => {
      throw first ? error : afterWrite(error, "settle");
    });
    const refused = round.filter(({ rowId }) => !applied.has(rowId));
    const explaining = refused.length === 0 ? undefined : explain(run, texts, tenant, refused);
    const refusals = await explaining?.catch((error: unknown) => afterWrite(error, "settle"));
    for (const item of round) {
      const outcome = applied.get(item.rowId) ?? refusals?.(item);
      if (outcome !== undefined) outcomes.set(item, outcome);
    }
  }
  return items.flatMap((item) => outcomes.get(item) ?? []);
}

/** Why nothing was written: what is true now, in the order of FENCE-06. */
async function explain(
  run: Run,
  texts: StatementTexts,
  tenant: string | null,
  refused: readonly { readonly rowId: number }[],
): Promise<(item: { readonly rowId: number; readonly action?: SettleItem["action"] }) => Refusal> {
  const rows = await run(texts.statesOf, [tenant, arrayOf(refused.map(({ rowId }) => rowId))]);
  const states = new Map(rows.map(([rowId, state]) => [Number(rowId), state as DeliveryState]));
  return ({ rowId, action }) => {
    const state = states.get(rowId);
    if (state === undefined) return { outcome: "notFound" };
    if (state !== "claimed" || action === "quarantinePending") return { outcome: "illegalTransition", state };
    return { outcome: "lostClaim" };
  };
}
