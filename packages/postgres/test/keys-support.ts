/** What tests of keys in transactions start from: claims through the public API, and clocks that are moved by hand. */
import type { BeginOptions, Begun, Fingerprint, KeyClaim, KeyName } from "@dovecote/core";
import type postgresClient from "postgres";
import { assert, expect } from "vitest";
import type { PostgresDovecote } from "../src/index.ts";
import { until } from "./support.ts";

export const ISOLATIONS = ["read committed", "repeatable read", "serializable"] as const;
/** Those in which a transaction sees what was committed before its first statement, and no more. */
export const SNAPSHOT_ISOLATIONS = ["repeatable read", "serializable"] as const;

const LEASE_MS = 60_000;
export const RESPONSE = { status: 201, body: "paid" } as const;
const FINGERPRINT: Fingerprint = { algorithm: "json-1", digest: new Uint8Array(32) };
export const OTHER_REQUEST: Fingerprint = { algorithm: "json-1", digest: new Uint8Array(32).fill(1) };

type Store = Pick<PostgresDovecote<postgresClient.Sql>, "keys">;

export const PRINCIPAL = "user-1";

export function named(key: string): KeyName {
  return { scope: { principal: PRINCIPAL, method: "POST", path: "/payments" }, key };
}

export function request(key: string, overrides: Partial<BeginOptions> = {}): BeginOptions {
  return {
    ...named(key),
    fingerprint: FINGERPRINT,
    takeover: "rerun",
    leaseMs: LEASE_MS,
    ...overrides,
  };
}

export async function acquired(
  { keys }: Store,
  key: string,
  overrides: Partial<BeginOptions> = {},
): Promise<KeyClaim> {
  const begun = await keys.begin(request(key, overrides));
  assert(begun.outcome === "acquired", `the key must be acquired, got ${begun.outcome}`);
  return begun.claim;
}

/** What a retry of the same request is told. */
export async function retried(
  { keys }: Store,
  key: string,
  overrides: Partial<BeginOptions> = {},
): Promise<Begun["outcome"]> {
  return (await keys.begin(request(key, overrides))).outcome;
}

/** As if so much time had passed for every record. It waits for whoever holds one. */
export async function age(other: postgresClient.Sql, schema: string, ms: number = LEASE_MS): Promise<void> {
  const interval = `${ms} milliseconds`;
  await other`update ${other(schema)}.dovecote_idempotency_keys set claim_expires_at = claim_expires_at - ${interval}::interval,
    completed_at = completed_at - ${interval}::interval, sweep_at = sweep_at - ${interval}::interval`;
}

/** The key is taken over by somebody else while whoever calls this is busy. */
export async function takenOver(
  store: Store,
  other: postgresClient.Sql,
  schema: string,
  key: string,
): Promise<KeyClaim> {
  await age(other, schema);
  const claim = await acquired(store, key);
  expect([claim.attempt, claim.takenOver]).toEqual([2, true]);
  return claim;
}

/** The backend of a connection. */
export async function pidOf(connection: {
  readonly unsafe: (text: string) => PromiseLike<readonly { readonly pid?: number }[]>;
}): Promise<number> {
  const [row] = await connection.unsafe("select pg_backend_pid() as pid");
  return Number(row?.pid);
}

/** Until this backend waits for a lock. */
export function untilBlocked(other: postgresClient.Sql, pid: number): Promise<void> {
  return until(
    async () => (await other`select 1 from pg_locks where pid = ${pid} and not granted`).length > 0,
  );
}
