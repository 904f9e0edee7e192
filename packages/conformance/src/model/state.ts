/**
 * The model: what a store of two tenants and two streams has to look like, without times. Leases and delays are either
 * none or so long that they never end by themselves; what ends a lease is a fault.
 */
import type { DeliveryState } from "@dovecote/core";
import type { ClaimJson } from "../engine/actors.ts";

export type Tenant = "a" | "b";
export type Stream = "x" | "y";
/** Through which handle a call is made. */
export type Via = Tenant | "admin";

export interface ModelRow {
  readonly rowId: number;
  readonly tenant: Tenant;
  readonly stream: Stream;
  readonly id: string;
  readonly data: number;
  readonly state: DeliveryState;
  /** Available in the far future. */
  readonly scheduled: boolean;
  readonly attempt: number;
  readonly forgiven: number;
  readonly claim: { readonly token: string; readonly worker: string; readonly shared: boolean } | null;
  /** The lease of the claim has ended. */
  readonly expired: boolean;
  readonly failureCode: string | null;
  readonly reason: string | null;
}

export interface Model {
  readonly rows: Map<number, ModelRow>;
  /** Every claim that was ever made. */
  readonly claims: ClaimJson[];
  highestRowId: number;
}

export function emptyModel(): Model {
  return { rows: new Map(), claims: [], highestRowId: 0 };
}

export function visibleRows({ rows }: Model, via: Via, stream?: Stream): readonly ModelRow[] {
  return [...rows.values()]
    .filter(
      (row) => (via === "admin" || row.tenant === via) && (stream === undefined || row.stream === stream),
    )
    .sort((a, b) => a.rowId - b.rowId);
}

function visible({ rows }: Model, via: Via, rowId: number): ModelRow | undefined {
  const row = rows.get(rowId);
  return via === "admin" || row?.tenant === via ? row : undefined;
}

export function change({ rows }: Model, row: ModelRow, members: Partial<ModelRow>): void {
  rows.set(row.rowId, { ...row, ...members });
}

export interface Given {
  readonly id: string;
  readonly stream: Stream;
  readonly data: number;
}

/** What an enqueue has to answer, or undefined if it has to be new. */
export function storedAs(
  model: Model,
  tenant: Tenant,
  { id, stream, data }: Given,
): { readonly outcome: string; readonly rowId: number; readonly fields?: readonly string[] } | undefined {
  const row = visibleRows(model, tenant).find((each) => each.id === id);
  if (row === undefined) return undefined;
  const { rowId } = row;
  const fields = [...(row.stream === stream ? [] : ["stream"]), ...(row.data === data ? [] : ["data"])];
  return fields.length === 0
    ? { outcome: "alreadyEnqueued", rowId }
    : { outcome: "identityConflict", rowId, fields };
}

export function store(model: Model, row: Pick<ModelRow, "rowId" | "tenant" | "scheduled"> & Given): void {
  model.rows.set(row.rowId, {
    ...row,
    state: "pending",
    attempt: 0,
    forgiven: 0,
    claim: null,
    expired: false,
    failureCode: null,
    reason: null,
  });
}

/** Rows that a claim may take, the expired and the due apart. */
export function claimable(
  model: Model,
  via: Via,
  stream: Stream | undefined,
): { readonly expired: readonly ModelRow[]; readonly due: readonly ModelRow[] } {
  const rows = visibleRows(model, via, stream);
  return {
    expired: rows.filter(({ expired }) => expired),
    due: rows.filter(({ state, scheduled }) => state === "pending" && !scheduled),
  };
}

/** A row that was taken; answers what its claim has to say. */
export function take(
  model: Model,
  row: ModelRow,
  claim: NonNullable<ModelRow["claim"]>,
): { readonly attempt: number; readonly forgiven: number; readonly reclaimed: boolean } {
  const attempt = row.attempt + 1;
  const forgiven = row.forgiven + (row.expired && row.claim?.shared ? 1 : 0);
  change(model, row, { state: "claimed", attempt, forgiven, claim, expired: false });
  model.claims.push({ rowId: row.rowId, attempt, token: claim.token });
  return { attempt, forgiven, reclaimed: row.expired };
}

type Refused =
  | { readonly outcome: "notFound" }
  | { readonly outcome: "lostClaim" }
  | { readonly outcome: "illegalTransition"; readonly state: DeliveryState };
export type Judgement = { readonly outcome: "applied" } | Refused;

export type Ending =
  | { readonly action: "ack" }
  | { readonly action: "retry"; readonly later: boolean; readonly code: string }
  | { readonly action: "release"; readonly later: boolean }
  | { readonly action: "quarantine"; readonly reason: string; readonly code: string | null };

export function settle(model: Model, via: Via, proof: ClaimJson, ending: Ending): Judgement {
  const row = held(model, via, proof);
  if ("outcome" in row) return row;
  const ended = { claim: null, expired: false };
  switch (ending.action) {
    case "ack":
      change(model, row, { ...ended, state: "delivered" });
      break;
    case "retry": {
      const { later, code } = ending;
      change(model, row, { ...ended, state: "pending", scheduled: later, failureCode: code });
      break;
    }
    case "release":
      change(model, row, {
        ...ended,
        state: "pending",
        scheduled: ending.later,
        forgiven: row.forgiven + 1,
      });
      break;
    case "quarantine": {
      const { reason, code } = ending;
      change(model, row, { ...ended, state: "quarantined", reason, failureCode: code ?? row.failureCode });
      break;
    }
  }
  return { outcome: "applied" };
}

export function renew(model: Model, via: Via, proof: ClaimJson, unshare: boolean): Judgement {
  const row = held(model, via, proof);
  if ("outcome" in row) return row;
  if (unshare && row.claim !== null) change(model, row, { claim: { ...row.claim, shared: false } });
  return { outcome: "applied" };
}

/** The row that a claim holds, or why it does not. */
function held(model: Model, via: Via, { rowId, attempt, token }: ClaimJson): ModelRow | Refused {
  const row = visible(model, via, rowId);
  if (row === undefined) return { outcome: "notFound" };
  if (row.state !== "claimed") return { outcome: "illegalTransition", state: row.state };
  const proven = row.claim?.token === token && row.attempt === attempt && !row.expired;
  return proven ? row : { outcome: "lostClaim" };
}

export function quarantinePending(model: Model, via: Via, rowId: number, reason: string): Judgement {
  return inState(model, via, rowId, "pending", { state: "quarantined", reason });
}

export function redrive(model: Model, via: Via, rowId: number): Judgement {
  const forgiven = model.rows.get(rowId)?.attempt ?? 0;
  const pending = { state: "pending", scheduled: false, reason: null } as const;
  return inState(model, via, rowId, "quarantined", { ...pending, forgiven, failureCode: "quarantined" });
}

function inState(
  model: Model,
  via: Via,
  rowId: number,
  state: DeliveryState,
  members: Partial<ModelRow>,
): Judgement {
  const row = visible(model, via, rowId);
  if (row === undefined) return { outcome: "notFound" };
  if (row.state !== state) return { outcome: "illegalTransition", state: row.state };
  change(model, row, members);
  return { outcome: "applied" };
}
