/** What the planner makes of the driver's statements, each with parameters that it is called with. */
import type postgresClient from "postgres";
import type { StatementName } from "../src/statements.ts";

/** A node of `explain (format json)`, as far as it is judged here. */
export interface PlanNode {
  readonly "Node Type": string;
  readonly "Relation Name"?: string;
  readonly "Index Name"?: string;
  readonly "Index Cond"?: string;
  readonly "Subplan Name"?: string;
  readonly "Conflict Arbiter Indexes"?: readonly string[];
  readonly Plans?: readonly PlanNode[];
}

export type PlanMode = "force_generic_plan" | "force_custom_plan";

/** The plan of one statement, made for these parameters or for any. */
export async function explain(
  connection: postgresClient.TransactionSql,
  text: string,
  parameters: readonly (string | null)[],
  mode: PlanMode,
): Promise<PlanNode> {
  const values = parameters.map((value) => (value === null ? "null" : `'${value.replaceAll("'", "''")}'`));
  await connection.unsafe(`set plan_cache_mode = ${mode}`);
  await connection.unsafe(`prepare planned as ${text}`);
  try {
    const given = values.length === 0 ? "" : `(${values.join(", ")})`;
    const [row] = await connection.unsafe<{ "QUERY PLAN": [{ Plan: PlanNode }] }[]>(
      `explain (format json) execute planned${given}`,
    );
    if (row === undefined) throw new Error("explain answered nothing");
    return row["QUERY PLAN"][0].Plan;
  } finally {
    await connection.unsafe("deallocate planned");
  }
}

const STORED: ReadonlySet<string> = new Set([
  "dovecote_deliveries",
  "dovecote_events",
  "dovecote_idempotency_keys",
  "dovecote_inbox",
]);

/**
 * What a plan must not do, whatever the statistics say: read a table, or all that an index holds of it; sort what it did
 * not find by its key, unless a limit below the sort leaves few rows; look up n rows with n² comparisons.
 */
export function faultsOf(plan: PlanNode): readonly string[] {
  const faults: string[] = [];
  const walk = (node: PlanNode, sorted: boolean): void => {
    const relation = node["Relation Name"] ?? "";
    const type = node["Node Type"];
    if (/= ANY/.test(node["Index Cond"] ?? "") && / AND /.test(node["Index Cond"] ?? "")) {
      if (isByKey(node)) faults.push(`looks rows of ${relation} up one by one in a list of them all`);
    }
    if (STORED.has(relation) && /Scan$/.test(type) && !isByKey(node)) {
      if (type === "Seq Scan") faults.push(`reads all of ${relation}`);
      if (type === "Bitmap Heap Scan") faults.push(`reads a bitmap of ${relation}`);
      if (sorted) faults.push(`sorts ${relation}`);
    }
    const below = type === "Limit" || node["Subplan Name"] !== undefined ? false : sorted;
    for (const child of node.Plans ?? []) {
      walk(child, child["Subplan Name"] === undefined && (below || /Sort$/.test(type)));
    }
  };
  walk(plan, false);
  return faults;
}

/** By its primary key, whole, or by the digest of its identity: as many rows as the statement was given. */
function isByKey(node: PlanNode): boolean {
  const bitmap = node.Plans?.find((child) => child["Node Type"] === "Bitmap Index Scan");
  const condition = node["Index Cond"] ?? bitmap?.["Index Cond"] ?? "";
  return /^\(*(event_row_id|row_id|identity_digest|event_digest|scope_digest = .* AND \(key_digest) = /.test(
    condition,
  );
}

/** Every index that a plan reads, or looks for a conflict in. */
export function allIndexesOf(plan: PlanNode): readonly string[] {
  const own = [plan["Index Name"] ?? [], plan["Conflict Arbiter Indexes"] ?? []].flat();
  return [...new Set([...own, ...(plan.Plans ?? []).flatMap(allIndexesOf)])].sort();
}

/** By CTE, the indexes that it reads. */
export function indexesOf(plan: PlanNode): Readonly<Record<string, readonly string[]>> {
  const found: Record<string, string[]> = {};
  const walk = (node: PlanNode, cte: string): void => {
    const name = /^CTE (\w+)$/.exec(node["Subplan Name"] ?? "")?.[1] ?? cte;
    const index = node["Index Name"];
    if (index !== undefined) found[name] = [...(found[name] ?? []), index];
    for (const child of node.Plans ?? []) walk(child, name);
  };
  walk(plan, "main");
  return found;
}

const LIMIT = 100;
const TOKENS = `{${Array.from({ length: LIMIT }, (_, index) => `"\\\\x${String(index).padStart(32, "0")}"`).join(",")}}`;
const each = (value: string | number): string => `{${Array.from({ length: LIMIT }, () => value).join(",")}}`;
const ROWS = `{${Array.from({ length: LIMIT }, (_, index) => 300_001 + 7 * index).join(",")}}`;
const texts = (value: string | null): string => JSON.stringify(Array.from({ length: LIMIT }, () => value));
const HELD = ["acme", ROWS, each(1), TOKENS];
const CLAIM = [String(LIMIT), "w", "30000", TOKENS];
const POSITION = ["1700000000000000", "1000"];
const DIGEST = "00".repeat(32);
const ADDRESS = [DIGEST, DIGEST, "acme"];
const PROOF = [...ADDRESS, "11".repeat(16)];
const FRESH = [...PROOF, DIGEST, "json-1", DIGEST, "30000", "rerun", "86400000", "0"];
const ANSWER = ["201", "[]", "70616964", null];
const GUARD = "2b0a0c40-6d7b-4a43-8e1c-6f3f2f6a3c4e";

export interface Call {
  readonly name: StatementName;
  readonly what: string;
  readonly parameters: readonly (string | null)[];
}

/** The hot statements and those that meet the largest tables, with every kind of parameters that changes a plan. */
export const CALLS: readonly Call[] = [
  ...(["claimAll", "claimAllShared"] as const).map((name) => call(name, "", CLAIM)),
  ...(["claimStream", "claimStreamShared"] as const).map((name) => call(name, "", [...CLAIM, "orders"])),
  ...(["claimTenant", "claimTenantShared"] as const).map((name) => call(name, "", [...CLAIM, "acme"])),
  ...(["claimTenantStream", "claimTenantStreamShared"] as const).map((name) =>
    call(name, "", [...CLAIM, "acme", "orders"]),
  ),
  call("claimAll", "one", ["1", "w", "30000", TOKENS]),
  call("claimAll", "the most", ["1000", "w", "30000", TOKENS]),
  call("claimTenant", "unknown", [...CLAIM, "nobody"]),
  call("claimStream", "unknown", [...CLAIM, "nothing"]),
  call("claimTenant", "the most", ["1000", "w", "30000", TOKENS, "acme"]),
  call("ack", "of a tenant", HELD),
  call("ack", "of all", [null, ...HELD.slice(1)]),
  call("settle", "of a tenant", [...HELD, each("ack"), each(0), texts(null), texts(null), texts(null)]),
  call("settle", "of all", [
    null,
    ...HELD.slice(1),
    each("retry"),
    each(5),
    texts("c"),
    texts("d"),
    texts(null),
  ]),
  call("renew", "of a tenant", [...HELD, each(30000), each("false")]),
  call("renew", "of all", [null, ...HELD.slice(1), each(30000), each("true")]),
  call("statesOf", "of a tenant", ["acme", ROWS]),
  call("statesOf", "of all", [null, ROWS]),
  call("redrive", "", [null, "acme", "300001"]),
  call("redriveState", "", [null, "acme", "300001"]),
  ...(["redriveMany", "redriveManyDry"] as const).flatMap((name) => [
    call(name, "of a tenant", ["acme", null, null, "100", null]),
    call(name, "of all", [null, null, null, "100", null]),
    call(name, "filtered", ["acme", "orders", "http-500", "1000", null]),
  ]),
  ...(["pruneDelivered", "pruneQuarantined"] as const).flatMap((name) => [
    call(name, "of a tenant", ["acme", "1000", "1000", null]),
    call(name, "of all", [null, "1000", "1000", null]),
    call(name, "of all, alone", [null, "1000", "1000", "prune"]),
  ]),
  call("pageAll", "first", [null, null, "0", "9223372036854775807", "100"]),
  call("pageAll", "later", [null, null, "300000", "9223372036854775807", "1000"]),
  call("pageAll", "of a stream", [null, "orders", "300000", "9223372036854775807", "1000"]),
  call("pageAll", "one row", [null, null, "300000", "300001", "1"]),
  call("pageTenant", "first", ["acme", null, "0", "9223372036854775807", "100"]),
  call("pageTenant", "later", ["acme", null, "300000", "9223372036854775807", "1000"]),
  call("pageTenant", "of a stream", ["acme", "orders", "300000", "9223372036854775807", "1000"]),
  ...(["listPending", "listClaimed", "listDelivered", "listQuarantined"] as const).flatMap((name) => [
    call(name, "of a tenant", ["acme", null, null, null, null, "100"]),
    call(name, "of all", [null, null, null, null, null, "1000"]),
    call(name, "later", ["acme", null, null, ...POSITION, "100"]),
    call(name, "filtered", ["acme", "orders", "http-500", null, null, "100"]),
  ]),
  call("statsAll", "", ["10001", null]),
  call("statsAll", "to a million", ["1000001", null]),
  call("statsTenant", "", ["10001", "acme"]),
  call("lastRowId", "", []),
  call("reconcile", "", ["300001"]),
  call("eventExists", "", ["300001"]),
  ...(["keyGet", "keyUnheld", "keyResolveCompleted", "keyResolveReleased"] as const).map((name) =>
    call(name, "", ADDRESS),
  ),
  ...(["keyRefuse", "keyRelease"] as const).map((name) => call(name, "", PROOF)),
  ...(["keyInsert", "keyReplace"] as const).map((name) => call(name, "", FRESH)),
  call("keyTakeover", "", [...FRESH, "11".repeat(16)]),
  call("keyRenew", "", [...PROOF, "30000"]),
  call("keyComplete", "", [...PROOF, ...ANSWER, null]),
  call("keyComplete", "in a transaction", [...PROOF, ...ANSWER, GUARD]),
  call("keyHold", "", [...PROOF, GUARD]),
  call("keyCompleteHeld", "", [...PROOF, ...ANSWER]),
  ...(["keysStuck", "keysSweep", "inboxSweep"] as const).flatMap((name) => [
    call(name, "of a tenant", ["acme", "1000"]),
    call(name, "one", ["acme", "1"]),
    call(name, "of all", [null, "1000"]),
  ]),
  call("keysForget", "", ["acme", DIGEST, "1000"]),
  call("inboxMark", "", [DIGEST, "acme", "invoices", "86400000", GUARD]),
];

function call(name: StatementName, what: string, parameters: readonly (string | null)[]): Call {
  return { name, what, parameters };
}
