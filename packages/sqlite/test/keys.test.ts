/** The keys of the driver itself: what the portable API does not ask it for. */
import { randomBytes } from "node:crypto";
import { expect, it } from "vitest";
import { SqliteDriver } from "../src/driver.ts";
import { migrated } from "./support.ts";

it("stuck claims of all tenants come longest first, and no more than were asked for", async () => {
  const { db, other } = await migrated();
  const { keys } = new SqliteDriver({ client: db, ownsClient: false, busyBudgetMs: 1000 });
  const begin = (tenant: string) =>
    keys.begin({
      tenant,
      scope: new Uint8Array(32),
      key: new Uint8Array(randomBytes(32)),
      principal: null,
      token: new Uint8Array(randomBytes(16)),
      fingerprint: { algorithm: "json-1", digest: new Uint8Array(32) },
      leaseMs: 60_000,
      takeover: "refuse",
      retentionMs: 60_000,
      tombstoneMs: 0,
    });
  for (const tenant of ["b", "a", "c", "a", "b"]) {
    await begin(tenant);
    other.exec("update dovecote_idempotency_keys set claim_expires_at = claim_expires_at - 60000000");
  }
  await begin("a");
  const tenantsOf = async (tenant: string | null, limit: number) =>
    (await keys.listStuck(tenant, limit)).map((record) => record.tenant);
  expect(await tenantsOf(null, 10)).toEqual(["b", "a", "c", "a", "b"]);
  expect(await tenantsOf(null, 2)).toEqual(["b", "a"]);
  expect(await tenantsOf("a", 10)).toEqual(["a", "a"]);
  expect(await tenantsOf("nobody", 10)).toEqual([]);
});
