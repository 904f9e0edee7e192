// The Postgres driver on large tables: 1,000,000 delivered, 200,000 pending and 20,000 claimed events of one tenant, 1,000,000
// pending of another, 100,000 expired claims of a third.
//   node scripts/test-growth.ts [--snapshot SECONDS]
// Asserts the plan of every statement, with statistics of empty tables and with fresh ones, then prints how long calls take,
// what a snapshot that is held open does to claims, and whether prune keeps up with inserts. Times are printed, never judged.
// Ends with `N passed, N failed`.
import { parseArgs } from "node:util";
import { growth } from "../packages/postgres/test/growth/growth.ts";
import { startServer } from "../tools/postgres-server/src/index.ts";
import { totalsLine } from "./ci/count.ts";

const { values: options } = parseArgs({ options: { snapshot: { type: "string", default: "120" } } });
const snapshotSeconds = Number(options.snapshot);
if (!Number.isSafeInteger(snapshotSeconds) || snapshotSeconds < 1) {
  throw new Error("--snapshot: whole seconds from 1");
}

// The server's own settings, but for what it costs to survive a power cut.
const server = await startServer({ flags: ["-c", "synchronous_commit=off", "-c", "shared_buffers=512MB"] });
try {
  const checks = await growth({ url: server.url, snapshotSeconds, print: (line) => console.log(line) });
  const failed = checks.filter(({ fault }) => fault !== undefined);
  for (const { name, fault } of failed) console.log(`FAIL ${name}: ${fault}`);
  console.log(totalsLine({ passed: checks.length - failed.length, failed: failed.length, notes: [] }));
  process.exitCode = failed.length === 0 ? 0 : 1;
} finally {
  await server.stop();
}
