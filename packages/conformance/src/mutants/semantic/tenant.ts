import { DEFAULT_TENANT } from "@dovecote/core";
import { override } from "../../override.ts";
import { breaking, breakingOutbox } from "./breaking.ts";
import type { SemanticMutant } from "./define.ts";

const OTHERS_ROWS = /another tenant|hold its own rows alone|own rows|by zeta|zeta must|call of zeta|not show/;

export const tenant: readonly SemanticMutant[] = [
  breaking("tenant-ignored-at-page", "TENANT-01", OTHERS_ROWS, (driver) => ({
    page: (request) => driver.page({ ...request, tenant: null }),
  })),
  breaking("tenant-ignored-at-list", "TENANT-01", OTHERS_ROWS, (driver) => ({
    list: (request) => driver.list({ ...request, tenant: null }),
  })),
  breaking("tenant-ignored-at-stats", "TENANT-01", OTHERS_ROWS, (driver) => ({
    stats: (_tenant, cap) => driver.stats(null, cap),
  })),
  breaking("tenant-ignored-at-inspect", "TENANT-01", OTHERS_ROWS, (driver) => ({
    inspect: (_tenant, rowId) => driver.inspect(null, rowId),
  })),
  breaking("tenant-ignored-at-snapshot", "TENANT-01", OTHERS_ROWS, (driver) => ({
    async snapshot() {
      const snapshot = await driver.snapshot();
      return { ...snapshot, page: (request) => snapshot.page({ ...request, tenant: null }) };
    },
  })),
  breaking("tenant-ignored-at-claim", "TENANT-01", OTHERS_ROWS, (driver) => ({
    claim: (request) => driver.claim({ ...request, tenant: null }),
  })),
  breaking("tenant-ignored-at-settle", "TENANT-01", /tenant/, (driver) => ({
    settle: (_tenant, items) => driver.settle(null, items),
  })),
  breaking("tenant-ignored-at-renew", "TENANT-01", OTHERS_ROWS, (driver) => ({
    renew: (_tenant, items) => driver.renew(null, items),
  })),
  breaking("tenant-ignored-at-redrive", "TENANT-01", OTHERS_ROWS, (driver) => ({
    redrive: (_tenant, rowId) => driver.redrive(null, rowId),
  })),
  breaking("tenant-ignored-at-redrive-by-filter", "TENANT-01", OTHERS_ROWS, (driver) => ({
    redriveMany: (filter) => driver.redriveMany({ ...filter, tenant: null }),
  })),
  breaking("tenant-ignored-at-prune", "TENANT-01", OTHERS_ROWS, (driver) => ({
    prune: (request) => driver.prune({ ...request, tenant: null }),
  })),
  breaking("admin-pages-one-tenant", "TENANT-02", /admin's page/, (driver) => ({
    page: (request) => driver.page({ ...request, tenant: request.tenant ?? DEFAULT_TENANT }),
  })),
  breaking("claims-without-their-tenant", "TENANT-02", /carry its tenant/, (driver) => ({
    claim: async (request) =>
      (await driver.claim(request)).map((row) => ({ ...row, tenant: DEFAULT_TENANT })),
  })),
  breakingOutbox("admin-spans-tenants-unasked", "TENANT-02", /prune with/, (outbox) => ({
    admin() {
      const admin = outbox.admin();
      return override(admin, {
        prune: ({ tenant, all: _, ...options }) =>
          tenant ? admin.prune({ ...options, tenant }) : admin.prune({ ...options, all: true }),
      });
    },
  })),
];
