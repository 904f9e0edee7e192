/** What cases of idempotency keys start from. */
import assert from "node:assert/strict";
import type { BeginOptions, Begun, Fingerprint, KeyClaim, KeyName, Keys } from "@dovecote/core";
import type { Case, CaseContext, Outbox } from "../case.ts";
import type { Session } from "../define-harness.ts";
import { refused } from "./expect.ts";

export type AnyKeys = Keys<unknown, boolean>;

export const SCOPE = { principal: "user-1", method: "POST", path: "/payments" } as const;
export const FINGERPRINT: Fingerprint = { algorithm: "json-1", digest: new Uint8Array(32) };
export const OTHER_REQUEST: Fingerprint = { algorithm: "json-1", digest: new Uint8Array(32).fill(1) };
export const RESPONSE = {
  status: 201,
  headers: [["content-type", "application/json"]] as const,
  body: '{"paid":true}',
};

let drawn = 0;

/** A key that no other case has. */
export function name(overrides: Partial<KeyName> = {}): KeyName {
  drawn += 1;
  return { scope: SCOPE, key: `key-${drawn}`, ...overrides };
}

export function options(of: KeyName, overrides: Partial<BeginOptions> = {}): BeginOptions {
  return { ...of, fingerprint: FINGERPRINT, takeover: "rerun", leaseMs: 60_000, ...overrides };
}

export async function acquired(
  keys: AnyKeys,
  of: KeyName,
  overrides: Partial<BeginOptions> = {},
): Promise<KeyClaim> {
  const begun = await keys.begin(options(of, overrides));
  assert.equal(begun.outcome, "acquired", `the key must be acquired, got ${begun.outcome}`);
  return begun.claim;
}

/** The outcome has to be this one; answers it. */
export async function begins<Outcome extends Begun["outcome"]>(
  what: string,
  expected: Outcome,
  call: Promise<Begun>,
): Promise<Extract<Begun, { readonly outcome: Outcome }>> {
  const begun = await call;
  assert.equal(begun.outcome, expected, `${what} must be ${expected}, got ${begun.outcome}`);
  return begun as Extract<Begun, { readonly outcome: Outcome }>;
}

/** Runs the call and asserts that no record changed, byte for byte. */
export async function keptAsItWas<T>(what: string, session: Session, call: () => Promise<T>): Promise<T> {
  const before = await session.probe.keys();
  const result = await call();
  assert.deepEqual(await session.probe.keys(), before, `${what} must leave every record byte-identical`);
  return result;
}

/** A driver without keys has to say so. */
export function ifKeys(each: Case): Case {
  return {
    ...each,
    async run(t) {
      if (t.capabilities.keys) return each.run(t);
      await refused("begin without keys", ["UNSUPPORTED"], () => keysOf(t).begin(options(name())));
    },
  };
}

export function keysOf({ outbox }: { readonly outbox: Pick<Outbox, "keys"> }): AnyKeys {
  return outbox.keys as AnyKeys;
}

/** What is stored of a key; `none` if nothing is. */
export async function keyState(t: CaseContext, of: KeyName): Promise<string> {
  const found = await keysOf(t).inspect(of);
  return found.outcome === "found" ? found.record.state : "none";
}

/** Lets leases of this length, and whatever was completed, become older by so much. */
export async function age({ session }: CaseContext, ms: number): Promise<void> {
  await session.faults.ageKeys(ms);
}
