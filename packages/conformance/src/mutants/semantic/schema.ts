import { DovecoteError, isDovecoteError } from "@dovecote/core";
import { breaking } from "./breaking.ts";
import type { SemanticMutant } from "./define.ts";

export const schema: readonly SemanticMutant[] = [
  breaking("migrate-reports-what-is-old", "SCHEMA-01", /must be a no-op/, (driver) => ({
    migrate: async () => ({ ...(await driver.migrate()), applied: [1] }),
  })),
  breaking(
    "every-newer-schema-refused",
    "SCHEMA-05",
    /newer schema that may be written/,
    (driver) => ({
      async claim(request) {
        const { version } = await driver.checkSchema();
        if (version !== null && version > 1)
          throw new DovecoteError("SCHEMA_TOO_NEW", `the schema has version ${version}`);
        return driver.claim(request);
      },
    }),
    { durable: true },
  ),
  breaking(
    "check-schema-finds-nothing",
    "SCHEMA-06",
    /must notice a damaged/,
    (driver) => ({
      checkSchema: async () => ({ ...(await driver.checkSchema()), status: "ok", findings: [] }),
    }),
    { durable: true },
  ),
  breaking(
    "check-schema-calls-any-change-a-fault",
    "SCHEMA-06",
    /must say ok/,
    (driver) => ({
      async checkSchema() {
        const report = await driver.checkSchema();
        return { ...report, status: "changed" };
      },
    }),
    { durable: true },
  ),
  breaking(
    "migrates-on-first-use",
    "SCHEMA-08",
    /before migrate must be refused/,
    (driver) => ({
      async claim(request) {
        try {
          return await driver.claim(request);
        } catch (error) {
          if (!isDovecoteError(error, "SCHEMA_MISSING")) throw error;
          await driver.migrate();
          return driver.claim(request);
        }
      },
    }),
    { durable: true },
  ),
];
