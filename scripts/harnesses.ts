/** The harnesses of this repository, and the server that one of them needs. */
import { type Server, startServer, TEST_FLAGS } from "../tools/postgres-server/src/index.ts";

export const HARNESSES: Readonly<Record<string, URL>> = {
  reference: new URL("../packages/conformance/src/reference/harness.ts", import.meta.url),
  sqlite: new URL("../packages/sqlite/conformance/harness.ts", import.meta.url),
  postgres: new URL("../packages/postgres/conformance/harness.ts", import.meta.url),
  "node-sqlite": new URL("../examples/node-sqlite-driver/conformance/harness.ts", import.meta.url),
};

export function harnessOf(driver: string): URL {
  const url = HARNESSES[driver];
  if (url === undefined)
    throw new Error(`${driver || "no driver"}: name one of ${Object.keys(HARNESSES).join(", ")}`);
  return url;
}

const URL_VARIABLE = "DOVECOTE_TEST_POSTGRES_URL";

/** A server for this process and those it starts, unless one is given by the environment. */
export async function serveIfNeeded(drivers: readonly string[]): Promise<Pick<Server, "stop">> {
  if (!drivers.includes("postgres") || process.env[URL_VARIABLE] !== undefined)
    return { stop: async () => {} };
  const server = await startServer({ flags: TEST_FLAGS });
  process.env[URL_VARIABLE] = server.url;
  return server;
}
