// The conformance suite on Postgres through PgBouncer in transaction mode, without prepared statements, at levels 1 and 2.
//   node scripts/test-pooler.ts
// PgBouncer is the installed one, or Debian's package, fetched for the run. Where neither is to be had, the summary says so.
// Ends with `N passed, N failed`.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createHostileRole, HOSTILE_ROLE } from "../packages/postgres/conformance/hostile.ts";
import {
  NoPooler,
  type Pooler,
  type Server,
  startPooler,
  startServer,
  TEST_FLAGS,
} from "../tools/postgres-server/src/index.ts";
import { type Count, totalsLine } from "./ci/count.ts";
import { harnessOf } from "./harnesses.ts";

const cli = fileURLToPath(new URL("../packages/conformance/src/cli.ts", import.meta.url));

interface Report {
  readonly cases: readonly { readonly outcome: string }[];
}

async function test(server: Server, pooler: Pooler): Promise<Count> {
  const folder = mkdtempSync(join(tmpdir(), "dovecote-pooled-"));
  const report = join(folder, "report.json");
  try {
    const args = [cli, fileURLToPath(harnessOf("postgres")), "--level", "2", "--report", report];
    const env = {
      ...process.env,
      DOVECOTE_TEST_POSTGRES_URL: server.url,
      DOVECOTE_TEST_POSTGRES_POOLER_URL: pooler.url,
    };
    const exitCode = await new Promise<number | null>((resolve) => {
      spawn(process.execPath, args, { env, stdio: "inherit" }).on("close", resolve);
    });
    const { cases } = JSON.parse(readFileSync(report, "utf8")) as Report;
    const passed = cases.filter(({ outcome }) => outcome === "passed").length;
    const failed = cases.length - passed;
    return { passed, failed: failed === 0 && exitCode !== 0 ? 1 : failed, notes: [] };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const server = await startServer({ flags: TEST_FLAGS });
let pooler: Pooler | undefined;
try {
  await createHostileRole(server.url);
  pooler = await startPooler(server.url, [HOSTILE_ROLE]).catch((error: unknown) => {
    if (!(error instanceof NoPooler)) throw error;
    console.log(`left out: the suite through PgBouncer: ${error.message}`);
    return undefined;
  });
  const count = pooler === undefined ? { passed: 0, failed: 0, notes: [] } : await test(server, pooler);
  console.log(totalsLine(count));
  process.exitCode = count.failed === 0 ? 0 : 1;
} finally {
  await pooler?.stop();
  await server.stop();
}
